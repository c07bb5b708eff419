"""Summaries that a model writes: of a history that is too long, and of the whole run at its end.

A history that is too long is summarized during the execution of a state, and only for the branch of that state: the
summary replaces all messages but the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statewright.agents import ask
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.engine.lineage import Lineages
from statewright.workflow.states.handlers.call import CHARACTERS_PER_TOKEN, Call
from statewright.workflow.states.handlers.scripted import FINAL_SUMMARY, SUMMARY

MAX_BATCH_TOKENS: Final = 100_000
"""Maximum tokens of the messages that one request summarizes."""
_FIRST_POSITION: Final = 100
"""The `position` of the first request for a summary in one execution of a state. Lower positions number the requests
for the state's own answer."""
_INSTRUCTIONS: Final = (
    "Summarize the conversation below for whoever continues the work: what was requested, what was done, what was "
    "found, and every name and number that is still needed. Leave out what no longer matters."
)


class HistorySummarizer:
    """Summarizes histories that exceed the limits of a workflow."""

    def __init__(self, model: ChatModel | None, *, max_messages: int, max_tokens: int) -> None:
        self._model = model
        """None for a workflow without summarization, whose histories are not shortened."""
        self._max_messages = max_messages
        self._max_tokens = max_tokens

    async def fit_history(self, call: Call) -> tuple[Sequence[Message], str | None]:
        """Return the history to send to a model, and the summary that it contains if the full history was too long."""
        summary = await self.summarize(call, call.runtime) if self.is_too_long(call.history) else None
        return replace_history(call.history, summary), summary

    def is_too_long(self, history: Sequence[Message]) -> bool:
        """Return whether a history exceeds the limits."""
        if self._model is None or len(history) < 2:
            return False
        return len(history) > self._max_messages or count_tokens(history) > self._max_tokens

    async def summarize(self, call: Call, runtime: Runtime[Any]) -> str:
        """Summarize the history of a call, except its first message."""
        parts = [
            await self._summarize_batch(batch, call, runtime, _FIRST_POSITION + index)
            for index, batch in enumerate(split_batches(call.history[1:]))
        ]
        return "\n\n".join(parts)

    async def _summarize_batch(self, batch: Sequence[Message], call: Call, runtime: Runtime[Any], position: int) -> str:
        assert self._model is not None
        request = ModelRequest(
            (Message(format_conversation(batch)),), system=_INSTRUCTIONS, metadata={"state": SUMMARY, "call": call}
        )
        return (await ask(self._model, request, runtime, name=SUMMARY, position=position, show=False)).text


def replace_history(history: Sequence[Message], summary: str | None) -> Sequence[Message]:
    """Replace all messages of a history except the first with a summary. With None, the history is unchanged."""
    return history if summary is None else (history[0], Message(summary, role="assistant"))


def count_tokens(history: Sequence[Message]) -> int:
    """Estimate the number of tokens in messages."""
    return sum(len(message.text) for message in history) // CHARACTERS_PER_TOKEN


def format_conversation(history: Sequence[Message]) -> str:
    """Return messages as one text, for a model that summarizes them."""
    return "\n\n".join(f"{message.role}: {message.text}" for message in history)


def split_batches(history: Sequence[Message]) -> list[list[Message]]:
    """Split messages into batches, each of which a model can read in one request."""
    batches: list[list[Message]] = [[]]
    size = 0
    for message in history:
        tokens = count_tokens([message])
        if batches[-1] and size + tokens > MAX_BATCH_TOKENS:
            batches.append([])
            size = 0
        batches[-1].append(message)
        size += tokens
    return batches


# -- the final summary, which is neither a visit of the workflow nor part of its context

_FINAL_INSTRUCTIONS: Final = (
    "Summarize for the user what this workflow has done and its outcome. Name results, open points and failures. "
    "Add nothing that is not in the conversation."
)


class FinalSummary:
    """The node that summarizes a run after its last branch has ended."""

    def __init__(self, model: ChatModel, lineages: Lineages) -> None:
        self._model = model
        self._lineages = lineages

    async def __call__(self, _state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        history = self._lineages.get(runtime.execution_info.run_id, runtime.state).get_merged_view().history
        metadata = {"state": FINAL_SUMMARY, "call": None}
        request = ModelRequest((*history, Message("Summarize.")), system=_FINAL_INSTRUCTIONS, metadata=metadata)
        return {"summary": (await ask(self._model, request, runtime, name=FINAL_SUMMARY)).text}
