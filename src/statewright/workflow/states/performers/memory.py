"""Histories that grow too long, made shorter: all but the first message become one that sums them up.

Done within the execution of a state, for its own branch; it is no step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.performers.call import Call
from statewright.workflow.states.performers.scripted import SUMMARY

BATCH = 100_000
"""Tokens that are summed up at once."""
_ASKED = (
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
        history = call.history
        if self._model is None or len(history) < 2 or not self._is_too_long(history):
            return history, None
        parts = [await self._summed_up(batch, call) for batch in batches(history[1:])]
        summary = "\n\n".join(parts)
        return (history[0], Message(summary, role="assistant")), summary

    def _is_too_long(self, history: Sequence[Message]) -> bool:
        return len(history) > self._most_messages or tokens_of(history) > self._most_tokens

    async def _summed_up(self, batch: Sequence[Message], call: Call) -> str:
        assert self._model is not None
        said = "\n\n".join(f"{message.role}: {message.text}" for message in batch)
        request = ModelRequest((Message(said),), system=_ASKED, metadata={"state": SUMMARY, "call": call})
        response = await self._model.complete(request)
        call.runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
        return response.text


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
