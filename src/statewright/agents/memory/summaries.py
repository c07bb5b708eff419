"""Summaries of the beginnings of conversations, each made once.

They are kept in memory under what they are of. So a strategy may serve many conversations at once, and one that was
forked finds the summary of the part that it shares. After a restart the first summary is made once more.
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
from statewright.errors import ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest

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

    def known(self, units: Sequence[Unit]) -> Summary:
        """The longest summary of a beginning of these units that there is; one of no units if there is none."""
        return self._known(list(_keys(units)))

    def _known(self, keys: Sequence[str]) -> Summary:
        for count in range(len(keys), 0, -1):
            text = self._texts.get(keys[count - 1])
            if text is not None:
                return Summary(count, text)
        return Summary(0)

    async def summary(self, units: Sequence[Unit], context: MemoryContext) -> Summary:
        """The summary of all of these units, made from the longest that there is and the units after it.

        Whoever asks for the same one meanwhile waits for it.
        """
        keys = list(_keys(units))
        place = (id(asyncio.get_running_loop()), keys[-1])
        lock = self._making.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                known = self._known(keys)
                while known.units < len(units):
                    known = await self._longer(known, units, keys, context)
                return known
        finally:
            if not lock.locked():
                self._making.pop(place, None)

    async def _longer(
        self, known: Summary, units: Sequence[Unit], keys: Sequence[str], context: MemoryContext
    ) -> Summary:
        """The summary of a few units more."""
        end = _end_of_piece(units, known.units)
        text = await self._asked(known.text, units[known.units : end], context)
        self._texts.put(keys[end - 1], text)
        return Summary(end, text)

    async def _asked(self, before: str, units: Sequence[Unit], context: MemoryContext) -> str:
        earlier = f"Summary of what came before:\n{before}\n\n" if before else ""
        lines = "\n".join(line for unit in units for message in unit for line in _lines(message))
        asked = Message(f"{earlier}Conversation:\n{lines}")
        response = await self._model.complete(ModelRequest((asked,), system=self._instructions))
        if context.on_response is not None:
            context.on_response(response)
        text = response.text.strip()
        if not text:
            raise ModelAnswerInvalid(
                "The model that summarises the conversation answered without any text. "
                "Give the memory strategy another model, or other instructions."
            )
        return text


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
