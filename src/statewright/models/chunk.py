"""A piece of a message, as readers of the stream mode `messages` see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statewright.encodable import encodable_text
from statewright.messages import Message
from statewright.models.event import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta, UsageUpdate
from statewright.models.model import Usage


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
