"""Chat models: the port, and the model that answers from a script."""

from statewright.models.cassette import Cassette
from statewright.models.chunk import MessageChunk, chunk_of
from statewright.models.closing import closing
from statewright.models.coerce import as_chat_model
from statewright.models.conversation import (
    check_request,
    prepare_request,
    repair_tool_rounds,
    with_own_call_ids,
)
from statewright.models.event import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    StreamRestarted,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from statewright.models.fallback import FallbackModel
from statewright.models.guard import allow_model_calls, check_calls_allowed, forbid_model_calls
from statewright.models.langchain import LangChainModel
from statewright.models.limit import in_time, named, stream_in_time
from statewright.models.model import FinishReason, ModelRequest, ModelResponse, OutputForm, ToolSpec, Usage
from statewright.models.port import ChatModel, StreamingModel, stream_model
from statewright.models.recorded import RecordedModel
from statewright.models.retrying import RetryingModel
from statewright.models.scripted import ScriptedModel

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
