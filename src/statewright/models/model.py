"""What is asked of a chat model, and what it answers, in a form that fits every provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statewright.messages import Message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may ask to be called."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema of an object: the arguments."""


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The form in which an answer is wanted: JSON that a schema describes."""

    schema: Mapping[str, Any]
    name: str = "answer"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model."""

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    output: OutputForm | None = None
    model: str | None = None
    """Which one, where the adapter serves several."""
    temperature: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Who asks: the state, its item. For scripts, logs and traces; it is not sent."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call has used up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In US dollars, where it is known."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What a model answered: text, calls of tools, or both."""

    message: Message
    usage: Usage = Usage()
    model: str | None = None
    """Which model it was, where that is known."""

    @property
    def text(self) -> str:
        return self.message.text
