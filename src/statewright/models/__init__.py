"""Chat models: the port, adapters to model libraries, and models that wrap, record or replace other models."""

from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.coerce import as_chat_model
from statewright.models.conversation.prepare import (
    check_request,
    prepare_request,
    repair_tool_rounds,
    with_own_call_ids,
)
from statewright.models.guard import allow_model_calls, check_calls_allowed, forbid_model_calls
from statewright.models.model import (
    FinishReason,
    MessageChunk,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    OutputForm,
    ReasoningDelta,
    ResponseFinished,
    StreamRestarted,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
    UsageUpdate,
    chunk_of,
)
from statewright.models.port import ChatModel, StreamingModel, closing, in_time, named, stream_in_time, stream_model
from statewright.models.recorded.cassette import Cassette
from statewright.models.recorded.recorded_model import RecordedModel
from statewright.models.scripted import ScriptedModel
from statewright.models.wrappers import FallbackModel, RetryingModel

__all__ = [
    "Cassette",
    "ChatModel",
    "FallbackModel",
    "FinishReason",
    "LangChainModel",
    "MessageChunk",
    "ModelEvent",
    "ModelRequest",
    "ModelResponse",
    "OutputForm",
    "ReasoningDelta",
    "RecordedModel",
    "ResponseFinished",
    "RetryingModel",
    "ScriptedModel",
    "StreamRestarted",
    "StreamingModel",
    "TextDelta",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "UsageUpdate",
    "allow_model_calls",
    "as_chat_model",
    "check_calls_allowed",
    "check_request",
    "chunk_of",
    "closing",
    "forbid_model_calls",
    "in_time",
    "named",
    "prepare_request",
    "repair_tool_rounds",
    "stream_in_time",
    "stream_model",
    "with_own_call_ids",
]
