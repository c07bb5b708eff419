"""Summaries of the first units of conversations (see `conversation` for units), each requested only once.

The summary of a thread is kept in the strategy's notes, which are saved in the state of the thread, so that a run in
another process or after a restart can extend it. It is used only if the units that it summarizes are still the first
units of the conversation; if one of them has been edited, a new summary is requested. Summaries are also cached in
memory, by the units that they summarize, for conversations without a thread and for forks that begin with the same
units.

An answer that is refused or cut off is not used as a summary. The notes record this failure, so that the summary is not
requested again for each model call of the same turn.
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
"""The key under which the notes have the last summary. A message that shows a summary has the same key in its metadata,
with the number of units that it summarizes."""
_FAILED: Final = "summary_failed"
"""The key under which the notes have the key of the last turn in which the model gave no summary."""
_MAX_CACHED: Final = 1000
"""Maximum number of cached summaries."""
_MAX_LOGGED: Final = 200
"""Maximum characters of a rejected answer in the log."""
_MAX_TOKENS: Final = 20_000
"""Maximum tokens to summarize in one request."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of the first units of a conversation."""

    unit_count: int
    """The number of units that it summarizes; 0 if there is no summary."""
    text: str = ""

    def to_message(self) -> Message:
        text = f"Summary of the conversation up to here:\n{self.text}"
        # A user message, because some providers refuse a conversation that begins with an assistant message.
        return Message(text, metadata={SUMMARY: self.unit_count})


def is_summary(message: Message) -> bool:
    """Return True for a summary that a strategy has added in front of a conversation."""
    return message.metadata is not None and SUMMARY in message.metadata


class Summaries:
    """Requests summaries from a model, and caches them."""

    def __init__(self, model: ChatModel, instructions: str | None = None) -> None:
        self._model = model
        self._instructions = instructions or INSTRUCTIONS
        self._cache: LRUCache[str, tuple[str, str | None]] = LRUCache(_MAX_CACHED)
        """The text of each summary and the id of the task that requested it, by the key of its units. Other executions
        of that task do not use the cached summary, but find the answer in the task's journal, so that the execution
        that succeeds counts the cost of the summary."""
        self._failed_turns: LRUCache[str, bool] = LRUCache(_MAX_CACHED)
        """The keys of turns in which the model gave no summary, for conversations without notes."""
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}
        """The locks of the summaries that are being requested, by the id of the event loop, because a lock cannot be
        used on another loop, and by the key of the units."""

    def find_longest(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the existing summary that covers the longest prefix of these units; an empty one if there is none."""
        return self._find_longest(list(_prefix_keys(units)), context)

    def _find_longest(self, keys: Sequence[str], context: MemoryContext) -> Summary:
        saved = _saved_summary(keys, context)
        for count in range(len(keys), saved.unit_count, -1):
            text, task_id = self._cache.get(keys[count - 1]) or ("", None)
            if text and (task_id is None or task_id != context.task_id):
                self._save(keys[count - 1], text, context)
                return Summary(count, text)
        return saved

    async def summarize(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the summary of these units, and save it in the notes. It extends the longest existing summary.

        If the model gives no summary, the result covers fewer units. A concurrent call for the same units waits for the
        first call, and uses its summary.
        """
        keys = list(_prefix_keys(units))
        lock_key = (id(asyncio.get_running_loop()), keys[-1])
        lock = self._locks.setdefault(lock_key, asyncio.Lock())
        try:
            async with lock:
                summary = self._find_longest(keys, context)
                while summary.unit_count < len(units):
                    longer = await self._extend(summary, units, keys, context)
                    if longer is None:
                        break
                    summary = longer
                return summary
        finally:
            if not lock.locked():
                self._locks.pop(lock_key, None)

    def _save(self, key: str, text: str, context: MemoryContext) -> None:
        """Write the summary of the units with this key to the notes, if the context has notes."""
        if context.notes is not None:
            context.notes[SUMMARY] = {"of": key, "text": text}

    def has_failed(self, turn: Sequence[Unit], context: MemoryContext) -> bool:
        """Return True if the model gave no summary earlier in this turn.

        `turn` identifies the turn: all units of the conversation up to the last user message.
        """
        if context.notes is None:
            return self._failed_turns.get(_units_key(turn)) is not None
        return _FAILED in context.notes and context.notes[_FAILED] == _units_key(turn)

    def record_failure(self, turn: Sequence[Unit], context: MemoryContext) -> None:
        """Record that the model gave no summary in this turn; for `turn` see `has_failed`."""
        if context.notes is None:
            self._failed_turns.put(_units_key(turn), True)
        else:
            context.notes[_FAILED] = _units_key(turn)

    async def _extend(
        self, summary: Summary, units: Sequence[Unit], keys: Sequence[str], context: MemoryContext
    ) -> Summary | None:
        """Return a longer summary, with as many more units as fit in one request; None if the model gave no summary."""
        end = _end_of_request(units, summary.unit_count)
        text = await self._ask(summary.text, units[summary.unit_count : end], context)
        if text is None:
            return None
        self._cache.put(keys[end - 1], (text, context.task_id))
        self._save(keys[end - 1], text, context)
        return Summary(end, text)

    async def _ask(self, earlier_summary: str, units: Sequence[Unit], context: MemoryContext) -> str | None:
        """Request a summary from the model; return None, and log a warning, if the answer is not a summary."""
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
            "Model %s did not summarize the conversation, but %s: %r. It is not asked again in this turn.",
            named(self._model, request),
            problem,
            text[:_MAX_LOGGED],
        )
        return None


def _answer_problem(response: ModelResponse, text: str) -> str | None:
    """Return the reason why an answer is not a summary; None if it is one."""
    if response.finish_reason == "refused":
        return "refused"
    if response.finish_reason == "length":
        return "was cut off at its token limit"
    if response.message.tool_calls:
        return "called a tool"
    return None if text else "returned no text"


def _saved_summary(keys: Sequence[str], context: MemoryContext) -> Summary:
    """Return the summary in the notes if its key is one of `keys`, the keys of prefixes; an empty one otherwise."""
    match (context.notes or {}).get(SUMMARY):
        case {"of": str(key), "text": str(text)} if key in keys:
            return Summary(keys.index(key) + 1, text)
        case _:
            return Summary(0)


def _end_of_request(units: Sequence[Unit], start: int) -> int:
    """Return the index after the last unit to summarize in one request that begins with the unit `start`.

    The request has at least one unit, and otherwise at most `_MAX_TOKENS` tokens.
    """
    tokens = 0
    for index in range(start, len(units)):
        tokens += estimate_tokens(units[index])
        if tokens > _MAX_TOKENS and index > start:
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
    """Return the key of all these units; an empty string if there are none."""
    return [*_prefix_keys(units)][-1] if units else ""


def _prefix_keys(units: Sequence[Unit]) -> Iterator[str]:
    """Yield the key of each prefix of the units: of the first unit, of the first two, and so on.

    A key is a digest of the units' messages that does not depend on message ids.
    """
    digest = hashlib.blake2b(digest_size=16)
    for unit in units:
        for message in unit:
            calls = [(call.id, _call_text(call)) for call in message.tool_calls]
            parts = (message.role, message.name, message.content, message.tool_call_id, calls)
            digest.update(repr(parts).encode(errors="surrogatepass"))
        yield digest.copy().hexdigest()
