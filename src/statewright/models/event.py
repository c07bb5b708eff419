"""What a model streams: pieces of its answer as they come, and at the end the whole.

Pieces are for those who watch. What counts is the response of the last event, which has everything in it.
"""

from __future__ import annotations

from dataclasses import dataclass

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
