"""What a script may hold: answers of a model, and the ways in which a provider fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of a tool. Arguments that are text are sent as they are, be they JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def numbered(self, index: int) -> str:
        """Its id, or one made from its place."""
        return self.id or f"call_{index + 1}"


@dataclass(frozen=True)
class Answer:
    """What the model says, written in the form of whichever endpoint is asked."""

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    refusal: str = ""
    finish: str | None = None
    """The reason to end in the provider's own word; by default the usual one."""
    input_tokens: int = 12
    output_tokens: int = 5
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    delay: float = 0.0
    """Seconds before anything is sent."""
    pause: float = 0.0
    """Seconds before each event of a stream."""
    hold_before: tuple[str, threading.Event] | None = None
    """The first event of a stream that contains the text is sent once the event is set."""
    cut_after: int | None = None
    """The connection breaks after so many events of a stream."""
    cut_before: str | None = None
    """The connection breaks before the first event of a stream that contains the text."""
    stop_after: int | None = None
    """The stream ends after so many events as if that were all."""


@dataclass(frozen=True)
class Failure:
    """An answer with an error's status."""

    status: int = 500
    message: str = "it went wrong"
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "server_error"
    delay: float = 0.0


@dataclass(frozen=True)
class Cut:
    """The connection breaks before an answer."""

    delay: float = 0.0


@dataclass(frozen=True)
class Raw:
    """These bytes and nothing else."""

    body: str | bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    @property
    def octets(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body.encode()


Reply = Answer | Failure | Cut | Raw
