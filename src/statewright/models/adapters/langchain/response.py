"""Convert LangChain's messages and chunks to our responses and events.

Fields that are needed to send an answer back unchanged, such as reasoning blocks with their signatures, are kept in the
metadata of the message, and restored from there by `request`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from statewright.langchain_forms import KEPT, SAID_ELSEWHERE, content_of, reasoning_of, text_of
from statewright.langchain_messages import calls_of
from statewright.messages import Message, ToolCall, read_tool_call
from statewright.models.adapters.finish_reason import find_finish_reason
from statewright.models.event import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from statewright.models.model import FinishReason, ModelResponse, OutputForm, Usage


def convert_response(answer: Any, calls: Sequence[ToolCall], facts: Mapping[str, Any], model: str) -> ModelResponse:
    """Convert an answer of LangChain, with the calls and metadata that were read from it."""
    return ModelResponse(
        _message(answer, calls),
        _usage(answer.usage_metadata or {}),
        facts.get("model_name") or facts.get("model") or model,
        _finish_reason(facts, calls),
    )


def as_text(response: ModelResponse, form: OutputForm) -> ModelResponse:
    """Return the response with JSON as its text, if the model answered by a tool call.

    If other tools are called too, only these are kept: the model answers again after their results.
    """
    calls = response.message.tool_calls
    others = tuple(call for call in calls if call.name != form.name)
    if others or not calls:
        return replace(response, message=replace(response.message, tool_calls=others))
    # What LangChain kept of the message holds the call too, and would bring it back: it has no result.
    metadata = {name: value for name, value in (response.message.metadata or {}).items() if name != "provider"}
    message = Message(calls[0].written, role="assistant", metadata=metadata or None)
    unfinished = response.finish_reason in ("length", "refused")  # else it says that a tool was called
    return replace(response, message=message, finish_reason=response.finish_reason if unfinished else "stop")


# -- the message


def _message(answer: Any, calls: Sequence[ToolCall]) -> Message:
    metadata: dict[str, Any] = {}
    if thought := reasoning_of(answer):
        metadata["reasoning"] = thought
    if kept := _fields_to_keep(answer):
        metadata["provider"] = {KEPT: kept}
    return Message(content_of(answer), role="assistant", tool_calls=tuple(calls), metadata=metadata or None)


def _fields_to_keep(answer: Any) -> dict[str, Any]:
    """Return the fields that text and calls do not express; usually none."""
    extra = {
        name: value
        for name, value in answer.additional_kwargs.items()
        if value is not None and name not in SAID_ELSEWHERE
    }
    if isinstance(answer.content, str) and not extra:
        return {}
    provider = answer.response_metadata.get("model_provider")
    facts = {"model_provider": provider} if provider else {}
    return {"content": answer.content, "additional_kwargs": extra, "response_metadata": facts}


# -- facts about it


def _usage(found: Mapping[str, Any]) -> Usage:
    read: Mapping[str, Any] = found.get("input_token_details") or {}
    written: Mapping[str, Any] = found.get("output_token_details") or {}
    return Usage(
        input_tokens=found.get("input_tokens") or 0,
        output_tokens=found.get("output_tokens") or 0,
        cached_tokens=read.get("cache_read") or 0,
        reasoning_tokens=written.get("reasoning") or 0,
    )


def _finish_reason(facts: Mapping[str, Any], calls: Sequence[ToolCall]) -> FinishReason | None:
    reason = find_finish_reason(facts)
    return "tools" if calls and reason in (None, "stop") else reason


# -- streams


class _PartialCall:
    """A tool call that is still arriving."""

    def __init__(self, key: Any, number: int) -> None:
        self.key = key
        self.number = number
        self.id = ""
        self.name = ""
        self.written = ""

    def add(self, chunk: Any) -> ToolCallDelta:
        """Add a chunk, and return its event."""
        identity, name, written = (chunk.get("id") or None, chunk.get("name") or None, chunk.get("args") or "")
        delta = ToolCallDelta(
            self.number, identity if not self.id else None, name if not self.name else None, str(written)
        )
        self.id = self.id or identity or ""
        self.name = self.name or name or ""
        self.written += str(written)
        return delta


class ChunkMerger:
    """Merges the chunks of one answer."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self.facts: dict[str, Any] = {}
        """The response metadata of the chunks. LangChain would concatenate repeated texts, so they are merged here."""
        self._calls: list[_PartialCall] = []

    def add(self, chunk: Any) -> Iterator[ModelEvent]:
        """Add a chunk, and yield its events."""
        self._chunks.append(chunk)
        self.facts.update({name: value for name, value in chunk.response_metadata.items() if value})
        if thought := reasoning_of(chunk):
            yield ReasoningDelta(thought)
        if text := text_of(chunk):
            yield TextDelta(text)
        for piece in _pieces(chunk):
            yield self._call(piece).add(piece)

    def merge(self) -> Any:
        """Return all chunks as one message of LangChain; None if there were none."""
        if len(self._chunks) < 2:
            return self._chunks[0] if self._chunks else None
        first, *others = self._chunks
        return first + others

    def calls(self) -> list[ToolCall]:
        """Return the calls as they were written. LangChain's own would complete truncated arguments."""
        return [read_tool_call(call.id, call.name, call.written) for call in self._calls]

    def _call(self, piece: Any) -> _PartialCall:
        """Return the call of a chunk: the one with its index, or else the last one, unless the id is new."""
        key = piece.get("index")
        if key is None:
            key = piece.get("id") or (self._calls[-1].key if self._calls else None)
        found = next((call for call in self._calls if call.key == key), None)
        if found is None:
            found = _PartialCall(key, len(self._calls))
            self._calls.append(found)
        return found


def _pieces(chunk: Any) -> list[Any]:
    """Return the call chunks in a chunk. A model that cannot stream returns a complete message with complete calls."""
    pieces = getattr(chunk, "tool_call_chunks", None)
    if pieces is not None:
        return pieces
    calls = enumerate(calls_of(chunk))
    return [{"index": index, "id": call.id, "name": call.name, "args": call.written} for index, call in calls]
