"""Requests to chat models, responses, and the events of streamed responses, in a provider-neutral form.

The deltas of a streamed response are only for display. The complete response is in the last event, and only this is
saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statewright.data.encodable import encodable_text
from statewright.messages import Message

FinishReason = Literal["stop", "tools", "length", "refused"]
"""The reason why a model stopped:

- `stop`: its answer is complete;
- `tools`: it requested tool calls;
- `length`: it reached a token limit;
- `refused`: it refused to answer, or a content filter intervened.
"""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of the arguments, which are an object."""
    strict: bool | None = None
    """True if the provider should enforce the schema; None to leave this to the adapter."""


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The JSON Schema of a structured answer, and its name."""

    schema: Mapping[str, Any]
    name: str = "answer"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model."""

    messages: Sequence[Message]
    """The conversation."""
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    output: OutputForm | None = None
    model: str | None = None
    """The name of the model, for adapters that serve several; None for the adapter's own model."""
    temperature: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data about the caller, for scripted models, logs and traces. It is not sent to the provider."""
    tool_choice: str = "auto"
    """`auto`, `any` (the model must call a tool), `none`, or the name of the tool that it must call."""
    max_tokens: int | None = None
    """Maximum number of tokens in the answer."""
    top_p: float | None = None
    stop: Sequence[str] = ()
    """Stop sequences."""
    seed: int | None = None
    timeout: float | None = None
    """Seconds after which the call raises ModelUnavailable."""
    parallel_tool_calls: bool | None = None
    """True if one answer may have several tool calls; None to leave this to the provider."""
    continue_last: bool = False
    """True if the answer should continue the last message, which must be the assistant's. Claude 4.6 and later models
    refuse such requests."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Provider-specific settings, under the names that the adapter documents."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of tokens and the cost of one or more model calls."""

    input_tokens: int = 0
    """Input tokens, including cached tokens."""
    output_tokens: int = 0
    """Output tokens, including reasoning tokens."""
    cost: float = 0.0
    """The cost in US dollars; 0 if it is unknown."""
    cached_tokens: int = 0
    """Input tokens that were read from the provider's cache."""
    reasoning_tokens: int = 0
    """Output tokens that were used for reasoning."""

    @property
    def tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def to_list(self) -> list[float]:
        """Return the amounts in field order, so that `Usage(*usage.to_list()) == usage`."""
        return [getattr(self, name) for name in self.__slots__]

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The answer of a model: text, tool calls, or both.

    The metadata of the message has the text of the reasoning under `reasoning`, and under `provider` the data that the
    adapter needs to send the message to its provider again unchanged.
    """

    message: Message
    usage: Usage = Usage()
    model: str | None = None
    """The name of the model that answered, if known."""
    finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def reasoning(self) -> str:
        return (self.message.metadata or {}).get("reasoning", "")


# -- events of a streamed answer


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a tool call. The first piece has the id and the name of the call."""

    index: int
    """The index of the call in the answer, from 0."""
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    """The next piece of the arguments' JSON text."""


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    """The usage of the model call so far."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The answer starts over, for example because another model is called. Earlier deltas are no longer valid."""


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """The last event of a stream, with the complete response."""

    response: ModelResponse


ModelEvent = TextDelta | ReasoningDelta | ToolCallDelta | UsageUpdate | StreamRestarted | ResponseFinished


# -- chunks of messages


@dataclass(slots=True)
class MessageChunk(Message):
    """A chunk of a model's answer, as the stream mode `messages` yields it. `content` is only the new text.

    All chunks of an answer have the same id. If an answer breaks off and is requested again, the new answer has another
    id, so that its chunks are not joined with those before. The message in the state has the last id.
    """

    role: str = "assistant"
    reasoning: str = ""
    """The new text of the reasoning."""
    tool_call_chunks: Sequence[ToolCallDelta] = ()
    usage: Usage | None = None
    """The usage of the model call so far."""


def chunk_of(event: ModelEvent, message_id: str, name: str | None = None) -> MessageChunk | None:
    """Return the chunk for an event; None for StreamRestarted, ResponseFinished, and anything that is not an event."""
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
