"""Histories that grow too long, made shorter: all but the first message become one that sums them up.

Done within the execution of a state, for its own branch; it is no step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.agents import ask
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.engine.lineage import Lineages
from statewright.workflow.states.handlers.call import Call
from statewright.workflow.states.handlers.scripted import FINAL_SUMMARY, SUMMARY

BATCH = 100_000
"""Tokens that are summed up at once."""
FIRST_POSITION = 100
"""Of its questions among all those of one execution: what the state itself asks comes before."""
_INSTRUCTIONS = (
    "Sum up the conversation below for whoever goes on with the work: what was asked, what was done, what was found, "
    "and every name and number that is still needed. Leave out what no longer matters."
)


class Memory:
    """Keeps histories within the limits of a workflow."""

    def __init__(self, model: ChatModel | None, *, most_messages: int, most_tokens: int) -> None:
        self._model = model
        """Sums up; None where nothing does, and histories are left as they are."""
        self._most_messages = most_messages
        self._most_tokens = most_tokens

    async def fitting(self, call: Call) -> tuple[Sequence[Message], str | None]:
        """The history that a model is given, and what was summed up in it, if it had to be."""
        summary = await self.summary(call, call.runtime) if self.is_too_long(call.history) else None
        return self.shortened(call.history, summary), summary

    def is_too_long(self, history: Sequence[Message]) -> bool:
        """Whether a history has to be summed up before a model is given it."""
        if self._model is None or len(history) < 2:
            return False
        return len(history) > self._most_messages or tokens_of(history) > self._most_tokens

    async def summary(self, call: Call, runtime: Runtime[Any]) -> str:
        """All of a history but its first message, summed up."""
        parts = [
            await self._summed_up(batch, call, runtime, FIRST_POSITION + place)
            for place, batch in enumerate(batches(call.history[1:]))
        ]
        return "\n\n".join(parts)

    def shortened(self, history: Sequence[Message], summary: str | None) -> Sequence[Message]:
        """A history with a summary in the place of all but its first message."""
        return history if summary is None else (history[0], Message(summary, role="assistant"))

    async def _summed_up(self, batch: Sequence[Message], call: Call, runtime: Runtime[Any], position: int) -> str:
        assert self._model is not None
        said = "\n\n".join(f"{message.role}: {message.text}" for message in batch)
        request = ModelRequest((Message(said),), system=_INSTRUCTIONS, metadata={"state": SUMMARY, "call": call})
        return (await ask(self._model, request, runtime, name=SUMMARY, position=position, show=False)).text


def tokens_of(history: Sequence[Message]) -> int:
    """How many tokens messages have, at four characters a token."""
    return sum(len(message.text) for message in history) // 4


def batches(history: Sequence[Message]) -> list[list[Message]]:
    """The messages in runs that a model can read at once."""
    found: list[list[Message]] = [[]]
    size = 0
    for message in history:
        tokens = tokens_of([message])
        if found[-1] and size + tokens > BATCH:
            found.append([])
            size = 0
        found[-1].append(message)
        size += tokens
    return found


# -- The end of a run summed up by a model. No state of the workflow: not among its visits, not in its context.

_FINAL_INSTRUCTIONS = (
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
            (*history, Message("Sum up.")), system=_FINAL_INSTRUCTIONS, metadata={"state": FINAL_SUMMARY, "call": None}
        )
        return {"summary": (await ask(self._model, request, runtime, name=FINAL_SUMMARY)).text}
