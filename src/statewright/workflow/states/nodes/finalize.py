"""`result_finalizer_node`: lets a model write the result of a workflow; without a model, returns the last output."""

from __future__ import annotations

from typing import Any, Final

from statewright.messages import Message
from statewright.workflow.states.engine.visit import ANSWER
from statewright.workflow.states.handlers import Call, Outcome
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes.resources import NodeResources, ask_model

_INSTRUCTIONS: Final = (
    "The work of several steps is done. Write the final answer for the user from what they found. Add nothing that "
    "none of them said."
)
_TASK: Final = "Write the final answer."


class ResultFinalizer:
    """Produces the final result."""

    def __init__(self, definition: CustomNode, resources: NodeResources) -> None:
        self._definition = definition
        self._resources = resources

    async def perform(self, call: Call) -> Outcome:
        name = self._definition.model
        if name is None and self._resources.find_model(None) is None:
            return Outcome(_last_output(call))
        messages = [*call.history, Message(call.prompt or _TASK)]
        return Outcome(
            await ask_model(self._resources.model(name), self._definition, call, messages, instructions=_INSTRUCTIONS)
        )


def _last_output(call: Call) -> Any:
    """Return the output of the last state that ran; the input if there is none."""
    outputs = [visit.output for visit in call.lineage if visit.state != ANSWER]
    return outputs[-1] if outputs else call.scope.get("task", "")
