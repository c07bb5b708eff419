"""Requests to chat models, and their responses, in a form that fits every provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statewright.messages import Message

FinishReason = Literal["stop", "tools", "length", "refused"]
"""Why a model ended: it was through; it wants tools called; it ran out of tokens; a filter or the model refused."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may ask to be called."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema of an object: the arguments."""
    strict: bool | None = None
    """Whether the provider holds the model to the schema; None leaves it to the adapter."""


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The form in which an answer is wanted: JSON that a schema describes."""

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
    """Which one, where the adapter serves several."""
    temperature: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Who asks: the state, its item. For scripts, logs and traces; it is not sent."""
    tool_choice: str = "auto"
    """`auto`, `any` (it has to call one), `none`, or the name of the tool that it has to call."""
    max_tokens: int | None = None
    """The longest answer."""
    top_p: float | None = None
    stop: Sequence[str] = ()
    """Texts at which the model stops."""
    seed: int | None = None
    timeout: float | None = None
    """Seconds after which the call is given up with ModelUnavailable."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may ask for several tools; None leaves it to the provider."""
    continue_last: bool = False
    """The model continues the last message, which is the assistant's. Claude 4.6 and later refuse that."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that one provider alone knows, under the names that its adapter documents."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call has used up."""

    input_tokens: int = 0
    """Those read from a cache included."""
    output_tokens: int = 0
    """Those of reasoning included."""
    cost: float = 0.0
    """In US dollars, where it is known."""
    cached_tokens: int = 0
    """Of the input tokens, those that the provider had in its cache."""
    reasoning_tokens: int = 0
    """Of the output tokens, those of reasoning."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def to_list(self) -> list[float]:
        """Return the amounts in the order of the fields: `Usage(*usage.to_list())` is equal."""
        return [getattr(self, name) for name in self.__slots__]

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What a model answered: text, calls of tools, or both.

    What it thought before stands in the message's metadata under `reasoning`. What an adapter needs to send the
    message back to its provider as it was stands there under `provider`.
    """

    message: Message
    usage: Usage = Usage()
    model: str | None = None
    """Which model it was, where that is known."""
    finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def reasoning(self) -> str:
        return (self.message.metadata or {}).get("reasoning", "")
