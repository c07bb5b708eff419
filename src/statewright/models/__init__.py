"""Chat models: the port, and the model that answers from a script."""

from statewright.models.chunk import MessageChunk, chunk_of
from statewright.models.coerce import as_chat_model
from statewright.models.event import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from statewright.models.model import FinishReason, ModelRequest, ModelResponse, OutputForm, ToolSpec, Usage
from statewright.models.port import ChatModel, StreamingModel, stream_model
from statewright.models.scripted import ScriptedModel

__all__ = [
    "ChatModel",
    "FinishReason",
    "MessageChunk",
    "ModelEvent",
    "ModelRequest",
    "ModelResponse",
    "OutputForm",
    "ReasoningDelta",
    "ResponseFinished",
    "ScriptedModel",
    "StreamingModel",
    "TextDelta",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "UsageUpdate",
    "as_chat_model",
    "chunk_of",
    "stream_model",
]
