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
    """More of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of a call of a tool. The first one of a call has its id and name."""

    index: int
    """Which of the calls of the answer, from 0."""
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    """A piece of the JSON text of the arguments."""


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    """What the call has used up so far."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The answer begins anew, from another model say: the pieces before it are void."""


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """The whole answer; always the last event."""

    response: ModelResponse


ModelEvent = TextDelta | ReasoningDelta | ToolCallDelta | UsageUpdate | StreamRestarted | ResponseFinished


# -- chunks of messages


@dataclass(slots=True)
class MessageChunk(Message):
    """A piece of the answer of a model. Its `content` is the new text alone.

    The pieces of one answer share its id. An answer that breaks off and is asked for again has another id, so its
    pieces are never joined with those before; the message in the state has the id of the last.
    """

    role: str = "assistant"
    reasoning: str = ""
    """New text of what the model thinks before it answers."""
    tool_call_chunks: Sequence[ToolCallDelta] = ()
    usage: Usage | None = None
    """What the call has used up so far."""


def chunk_of(event: ModelEvent, message_id: str, name: str | None = None) -> MessageChunk | None:
    """What a reader is shown of an event; None for events without a piece."""
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
