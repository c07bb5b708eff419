"""Summaries of the beginnings of conversations, each made once.

The summary of a thread is saved with its state, in the strategy's notes, so a run in another process or after a restart
continues it. It is used only if the units that it is of are still the first ones of the conversation: an edit of these
makes another summary necessary. Summaries are also kept in memory by their units: a conversation without a thread finds
its own there, and a fork that of the part that it shares.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from statewright.agents.memory.conversation import Unit
from statewright.agents.memory.lately_used import LatelyUsed
from statewright.agents.memory.strategy import MemoryContext
from statewright.agents.memory.tokens import estimate_tokens
from statewright.encodable import encodable_text
from statewright.errors import ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest, prepare_request

INSTRUCTIONS: Final = (
    "Summarise the conversation that you are given, so that an assistant who sees only the summary can go on with it. "
    "Keep the user's wishes, facts, names, numbers, decisions, results of tools and open questions. "
    "If there is a summary of what came before, take it into yours. Answer with the summary alone."
)
SUMMARY: Final = "summary"
"""In the metadata of a message: of how many units it is the summary."""
_KEPT: Final = 1000
"""How many summaries are kept in memory."""
_PIECE: Final = 20_000
"""How many tokens a model is given to summarise at once."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the first units of a conversation were about."""

    units: int
    text: str = ""

    def to_message(self) -> Message:
        told = f"Summary of the conversation up to here:\n{self.text}"
        # Of the user: what stands behind it may begin with the assistant, which some providers refuse at the start.
        return Message(told, metadata={SUMMARY: self.units})


def is_summary(message: Message) -> bool:
    """Whether a message is a summary that a strategy has put before others."""
    return message.metadata is not None and SUMMARY in message.metadata


class Summaries:
    """Asks a model for summaries, and keeps them."""

    def __init__(self, model: ChatModel, instructions: str | None = None) -> None:
        self._model = model
        self._instructions = instructions or INSTRUCTIONS
        self._texts: LatelyUsed[str] = LatelyUsed(_KEPT)
        self._making: dict[tuple[int, str], asyncio.Lock] = {}

    def longest(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the longest summary of a beginning of these units that exists; one of no units if there is none."""
        return self._longest(list(_keys(units)), context)

    def _longest(self, keys: Sequence[str], context: MemoryContext) -> Summary:
        saved = _saved_summary(keys, context)
        for count in range(len(keys), saved.units, -1):
            text = self._texts.get(keys[count - 1])
            if text is not None:
                self._save(keys[count - 1], text, context)
                return Summary(count, text)
        return saved

    async def summary(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """Return the summary of all of these units, made from the longest that exists and the units after it.

        Concurrent calls for the same summary wait for the first one. The summary is saved in the notes of the context.
        """
        keys = list(_keys(units))
        place = (id(asyncio.get_running_loop()), keys[-1])
        lock = self._making.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                summary = self._longest(keys, context)
                while summary.units < len(units):
                    summary = await self._longer(summary, units, keys, context)
                self._save(keys[-1], summary.text, context)
                return summary
        finally:
            if not lock.locked():
                self._making.pop(place, None)

    def _save(self, key: str, text: str, context: MemoryContext) -> None:
        """Write a summary to the notes of the context, if it has some."""
        if context.notes is not None:
            context.notes[SUMMARY] = {"of": key, "text": text}

    async def _longer(
        self, summary: Summary, units: Sequence[Unit], keys: Sequence[str], context: MemoryContext
    ) -> Summary:
        """Return the summary of a few units more."""
        end = _end_of_piece(units, summary.units)
        text = await self._ask(summary.text, units[summary.units : end], context)
        self._texts.put(keys[end - 1], text)
        self._save(keys[end - 1], text, context)
        return Summary(end, text)

    async def _ask(self, before: str, units: Sequence[Unit], context: MemoryContext) -> str:
        earlier = f"Summary of what came before:\n{before}\n\n" if before else ""
        lines = "\n".join(line for unit in units for message in unit for line in _lines(message))
        asked = Message(f"{earlier}Conversation:\n{lines}")
        request = prepare_request(ModelRequest((asked,), system=self._instructions))
        response = await context.complete(self._model, request)
        text = encodable_text(response.text).strip()
        if not text:
            raise ModelAnswerInvalid(
                "The model that summarises the conversation answered without any text. "
                "Give the memory strategy another model, or other instructions."
            )
        return text


def _saved_summary(keys: Sequence[str], context: MemoryContext) -> Summary:
    """The summary in the notes, if it is of a beginning of these units; one of no units if not."""
    match (context.notes or {}).get(SUMMARY):
        case {"of": str(key), "text": str(text)} if key in keys:
            return Summary(keys.index(key) + 1, text)
        case _:
            return Summary(0)


def _end_of_piece(units: Sequence[Unit], start: int) -> int:
    """Up to where units are few enough to be summarised at once; at least one unit."""
    tokens = 0
    for n in range(start, len(units)):
        tokens += estimate_tokens(units[n])
        if tokens > _PIECE and n > start:
            return n
    return len(units)


def _lines(message: Message) -> Iterator[str]:
    """A message as the summariser reads it."""
    who = f"{message.role} {message.name}" if message.name else message.role
    if message.text:
        yield f"{who}: {message.text}"
    for call in message.tool_calls:
        yield f"{who} calls {_told(call)}"


def _told(call: ToolCall) -> str:
    return f"{call.name} {call.written}"


def _keys(units: Sequence[Unit]) -> Iterator[str]:
    """For each beginning of the units, a text that is the same for equal ones. Ids of messages do not count."""
    digest = hashlib.blake2b(digest_size=16)
    for unit in units:
        for message in unit:
            calls = [(call.id, _told(call)) for call in message.tool_calls]
            parts = (message.role, message.name, message.content, message.tool_call_id, calls)
            digest.update(repr(parts).encode(errors="surrogatepass"))
        yield digest.copy().hexdigest()
