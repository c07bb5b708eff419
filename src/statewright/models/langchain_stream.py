"""What LangChain streams, as our events: chunks are told on as they come, and merged for the response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.langchain_messages import calls_of, reasoning_of, text_of
from statewright.messages import ToolCall, read_tool_call
from statewright.models.event import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta


class _Call:
    """A call of a tool that is still being written."""

    def __init__(self, key: Any, number: int) -> None:
        self.key = key
        self.number = number
        self.id = ""
        self.name = ""
        self.written = ""

    def take(self, chunk: Any) -> ToolCallDelta:
        """The event for more of this call."""
        identity, name, written = (chunk.get("id") or None, chunk.get("name") or None, chunk.get("args") or "")
        delta = ToolCallDelta(
            self.number, identity if not self.id else None, name if not self.name else None, str(written)
        )
        self.id = self.id or identity or ""
        self.name = self.name or name or ""
        self.written += str(written)
        return delta


class ChunkMerger:
    """Takes the chunks of one answer."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self.facts: dict[str, Any] = {}
        """What the chunks said of the response. LangChain would join texts that come twice, so they are kept here."""
        self._calls: list[_Call] = []

    def take(self, chunk: Any) -> Iterator[ModelEvent]:
        """The events of one more chunk."""
        self._chunks.append(chunk)
        self.facts.update({name: value for name, value in chunk.response_metadata.items() if value})
        if thought := reasoning_of(chunk):
            yield ReasoningDelta(thought)
        if text := text_of(chunk):
            yield TextDelta(text)
        for piece in _pieces(chunk):
            yield self._call(piece).take(piece)

    def whole(self) -> Any:
        """All chunks as one message of LangChain; None if there were none."""
        if len(self._chunks) < 2:
            return self._chunks[0] if self._chunks else None
        first, *others = self._chunks
        return first + others

    def calls(self) -> list[ToolCall]:
        """The calls as they were written. LangChain's own would mend arguments that were cut off."""
        return [read_tool_call(call.id, call.name, call.written) for call in self._calls]

    def _call(self, piece: Any) -> _Call:
        """The call that a piece belongs to: the one with its index, or else the last one, unless a new id comes."""
        key = piece.get("index")
        if key is None:
            key = piece.get("id") or (self._calls[-1].key if self._calls else None)
        found = next((call for call in self._calls if call.key == key), None)
        if found is None:
            found = _Call(key, len(self._calls))
            self._calls.append(found)
        return found


def _pieces(chunk: Any) -> list[Any]:
    """The pieces of calls in a chunk. A model that cannot stream gives a whole message, whose calls are whole too."""
    pieces = getattr(chunk, "tool_call_chunks", None)
    if pieces is not None:
        return pieces
    calls = enumerate(calls_of(chunk))
    return [{"index": index, "id": call.id, "name": call.name, "args": call.written} for index, call in calls]
