"""The end of a run summed up by a model. No state of the workflow: not among its visits, not in its context."""

from __future__ import annotations

from typing import Any

from statewright.agents import ask
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.lineage import Lineages
from statewright.workflow.states.performers.scripted import FINAL_SUMMARY

_ASKED = (
    "Sum up for the user what this workflow has done and what came of it. Name results, open points and failures. "
    "Say nothing that is not in the conversation."
)


class FinalSummary:
    """The node that comes after the last branch has ended."""

    def __init__(self, model: ChatModel, lineages: Lineages) -> None:
        self._model = model
        self._lineages = lineages

    async def __call__(self, given: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        history = self._lineages.of(runtime.execution_info.run_id, runtime.state).whole().history
        request = ModelRequest(
            (*history, Message("Sum up.")), system=_ASKED, metadata={"state": FINAL_SUMMARY, "call": None}
        )
        return {"summary": (await ask(self._model, request, runtime, name=FINAL_SUMMARY)).text}
