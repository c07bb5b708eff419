"""Events of a streamed answer: deltas as they arrive, and the complete response at the end.

Deltas are for display. Only the response of the last event is complete, and only that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statewright.encodable import encodable_text
from statewright.messages import Message
from statewright.models.model import ModelResponse, Usage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of a tool call. The first delta of a call has its id and name."""

    index: int
    """The index of the call in the answer, from 0."""
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    """More of the JSON text of the arguments."""


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    """The usage of the model call so far."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The answer restarts, from another model for example: earlier deltas are void."""


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """The complete answer; always the last event."""

    response: ModelResponse


ModelEvent = TextDelta | ReasoningDelta | ToolCallDelta | UsageUpdate | StreamRestarted | ResponseFinished


# -- chunks of messages


@dataclass(slots=True)
class MessageChunk(Message):
    """A chunk of a model's answer, as readers of the stream mode `messages` see it. `content` is only the new text.

    The chunks of one answer share its id. An answer that breaks off and is requested again has another id, so that its
    chunks are not joined with the earlier ones; the message in the state has the last id.
    """

    role: str = "assistant"
    reasoning: str = ""
    """New text of the reasoning."""
    tool_call_chunks: Sequence[ToolCallDelta] = ()
    usage: Usage | None = None
    """The usage of the model call so far."""


def chunk_of(event: ModelEvent, message_id: str, name: str | None = None) -> MessageChunk | None:
    """Return the chunk for an event; None for an event without one."""
    match event:
        case TextDelta(text):
            return MessageChunk(encodable_text(text), id=message_id, name=name)
        case ReasoningDelta(text):
            return MessageChunk("", id=message_id, name=name, reasoning=encodable_text(text))
        case ToolCallDelta():
            return MessageChunk("", id=message_id, name=name, tool_call_chunks=(event,))
        case UsageUpdate(usage):
            return MessageChunk("", id=message_id, name=name, usage=usage)
        case _:
            return None
