"""Summaries of the beginnings of conversations, each made once.

The summary of a thread is saved with its state, in the strategy's notes, so a run in another process or after a restart
extends it. It is used only while the summarized units are still the first ones of the conversation: editing these
requires another summary. Summaries are also cached in memory by their units, for conversations without a thread and
for forks that share a beginning.

An answer that was refused or cut off is not used. The notes record the failure, so that the model is not asked again at
each call of the same turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from statewright.agents.memory.conversation import Unit, estimate_tokens
from statewright.agents.memory.strategy import MemoryContext
from statewright.data.encodable import encodable_text
from statewright.lru_cache import LRUCache
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest, ModelResponse, named, prepare_request

INSTRUCTIONS: Final = (
    "Summarize the conversation below so that an assistant that sees only the summary can continue it. "
    "Keep the user's wishes, facts, names, numbers, decisions, results of tools and open questions. "
    "If there is an earlier summary, include it in yours. Answer with the summary alone."
)
SUMMARY: Final = "summary"
"""Metadata key of a summary message: the number of units that it summarizes."""
_FAILED: Final = "summary_failed"
"""Key in the notes: the turn in which the model gave no summary."""
_MAX_CACHED: Final = 1000
"""Maximum number of cached summaries."""
_MAX_LOGGED: Final = 200
"""Maximum characters of a rejected answer in the log."""
_PIECE: Final = 20_000
"""Maximum tokens to summarize in one request."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of the first units of a conversation."""

    units: int
    text: str = ""

    def to_message(self) -> Message:
        text = f"Summary of the conversation up to here:\n{self.text}"
        # A user message: the next one may be of the assistant, which some providers refuse at the start.
        return Message(text, metadata={SUMMARY: self.units})


def is_summary(message: Message) -> bool:
    """Return True for a summary that a strategy has prepended."""
    return message.metadata is not None and SUMMARY in message.metadata


class Summaries:
    """Requests summaries from a model, and caches them."""

    def __init__(self, model: ChatModel, instructions: str | None = None) -> None:
        self._model = model
        self._instructions = instructions or INSTRUCTIONS
        self._texts: LRUCache[str, tuple[str, str | None]] = LRUCache(_MAX_CACHED)
        """Summaries with the task that made them. That task finds its own in its journal instead, so that the cost is
        counted by the execution that succeeds."""
        self._failed: LRUCache[str, bool] = LRUCache(_MAX_CACHED)
        """Turns in which the model gave no summary, for conversations without notes."""
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}

    def longest(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the longest summary of a beginning of these units that exists; one of no units if there is none."""
        return self._longest(list(_prefix_keys(units)), context)

    def _longest(self, keys: Sequence[str], context: MemoryContext) -> Summary:
        saved = _saved_summary(keys, context)
        for count in range(len(keys), saved.units, -1):
            text, task_id = self._texts.get(keys[count - 1]) or ("", None)
            if text and (task_id is None or task_id != context.task_id):
                self._save(keys[count - 1], text, context)
                return Summary(count, text)
        return saved

    async def summary(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the summary of all of these units, made from the longest that exists and the units after it.

        If the model gives none, it is of fewer units. Concurrent calls for the same summary wait for the first one. The
        summary is saved in the notes of the context.
        """
        keys = list(_prefix_keys(units))
        lock_key = (id(asyncio.get_running_loop()), keys[-1])
        lock = self._locks.setdefault(lock_key, asyncio.Lock())
        try:
            async with lock:
                summary = self._longest(keys, context)
                while summary.units < len(units):
                    longer = await self._extend(summary, units, keys, context)
                    if longer is None:
                        break
                    summary = longer
                return summary
        finally:
            if not lock.locked():
                self._locks.pop(lock_key, None)

    def _save(self, key: str, text: str, context: MemoryContext) -> None:
        """Write a summary to the notes of the context, if it has some."""
        if context.notes is not None:
            context.notes[SUMMARY] = {"of": key, "text": text}

    def has_failed(self, turn: Sequence[Unit], context: MemoryContext) -> bool:
        """Return True if the model gave no summary in this turn. `turn` are the units up to the user's last message."""
        if context.notes is None:
            return self._failed.get(_units_key(turn)) is not None
        return _FAILED in context.notes and context.notes[_FAILED] == _units_key(turn)

    def record_failure(self, turn: Sequence[Unit], context: MemoryContext) -> None:
        """Note that the model gave no summary in this turn."""
        if context.notes is None:
            self._failed.put(_units_key(turn), True)
        else:
            context.notes[_FAILED] = _units_key(turn)

    async def _extend(
        self, summary: Summary, units: Sequence[Unit], keys: Sequence[str], context: MemoryContext
    ) -> Summary | None:
        """Return the summary of a few units more; None if the model gave none."""
        end = _end_of_piece(units, summary.units)
        text = await self._ask(summary.text, units[summary.units : end], context)
        if text is None:
            return None
        self._texts.put(keys[end - 1], (text, context.task_id))
        self._save(keys[end - 1], text, context)
        return Summary(end, text)

    async def _ask(self, earlier_summary: str, units: Sequence[Unit], context: MemoryContext) -> str | None:
        earlier = f"Summary of what came before:\n{earlier_summary}\n\n" if earlier_summary else ""
        lines = "\n".join(line for unit in units for message in unit for line in _message_lines(message))
        question = Message(f"{earlier}Conversation:\n{lines}")
        request = prepare_request(ModelRequest((question,), system=self._instructions))
        response = await context.complete(self._model, request)
        text = encodable_text(response.text).strip()
        problem = _answer_problem(response, text)
        if problem is None:
            return text
        logging.getLogger("statewright").warning(
            "Model %s was asked to summarize the conversation, and %s: %r. No summary is made in this turn.",
            named(self._model, request),
            problem,
            text[:_MAX_LOGGED],
        )
        return None


def _answer_problem(response: ModelResponse, text: str) -> str | None:
    """Return why an answer is not a summary; None if it is one."""
    if response.finish_reason == "refused":
        return "refused"
    if response.finish_reason == "length":
        return "was cut off at its limit of tokens"
    if response.message.tool_calls:
        return "called a tool"
    return None if text else "said nothing"


def _saved_summary(keys: Sequence[str], context: MemoryContext) -> Summary:
    """Return the summary in the notes if it covers a prefix of these units; an empty one otherwise."""
    match (context.notes or {}).get(SUMMARY):
        case {"of": str(key), "text": str(text)} if key in keys:
            return Summary(keys.index(key) + 1, text)
        case _:
            return Summary(0)


def _end_of_piece(units: Sequence[Unit], start: int) -> int:
    """Return the end of the units to summarize in one request: at least one unit."""
    tokens = 0
    for index in range(start, len(units)):
        tokens += estimate_tokens(units[index])
        if tokens > _PIECE and index > start:
            return index
    return len(units)


def _message_lines(message: Message) -> Iterator[str]:
    """Yield the lines of a message for the summarizing model."""
    speaker = f"{message.role} {message.name}" if message.name else message.role
    if message.text:
        yield f"{speaker}: {message.text}"
    for call in message.tool_calls:
        yield f"{speaker} calls {_call_text(call)}"


def _call_text(call: ToolCall) -> str:
    return f"{call.name} {call.written}"


def _units_key(units: Sequence[Unit]) -> str:
    """Return the key of units; an empty string for none."""
    return [*_prefix_keys(units)][-1] if units else ""


def _prefix_keys(units: Sequence[Unit]) -> Iterator[str]:
    """Yield a digest of each prefix of the units, ignoring message ids."""
    digest = hashlib.blake2b(digest_size=16)
    for unit in units:
        for message in unit:
            calls = [(call.id, _call_text(call)) for call in message.tool_calls]
            parts = (message.role, message.name, message.content, message.tool_call_id, calls)
            digest.update(repr(parts).encode(errors="surrogatepass"))
        yield digest.copy().hexdigest()
