"""The entries of a script: answers of a model, and failures of a provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of a tool. A string of arguments is sent unchanged, even if it is not valid JSON."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def numbered(self, index: int) -> str:
        """Return the id of the call, or one derived from its index."""
        return self.id or f"call_{index + 1}"


@dataclass(frozen=True)
class Answer:
    """An answer of the model, written in the format of the requested endpoint."""

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    refusal: str = ""
    finish: str | None = None
    """The finish reason, as the provider spells it; by default the usual one."""
    input_tokens: int = 12
    output_tokens: int = 5
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    delay: float = 0.0
    """Seconds before the response starts."""
    pause: float = 0.0
    """Seconds before each event of a stream."""
    hold_before: tuple[str, threading.Event] | None = None
    """The first event of a stream that contains the text is sent once the event is set."""
    cut_after: int | None = None
    """The number of events of a stream after which the connection is closed."""
    cut_before: str | None = None
    """The connection is closed before the first event of a stream that contains this text."""
    stop_after: int | None = None
    """The number of events after which the stream ends as if it were complete."""


@dataclass(frozen=True)
class Failure:
    """A response with an error status."""

    status: int = 500
    message: str = "it went wrong"
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "server_error"
    delay: float = 0.0


@dataclass(frozen=True)
class Cut:
    """The connection is closed before the response."""

    delay: float = 0.0


@dataclass(frozen=True)
class Raw:
    """A response with an arbitrary body."""

    body: str | bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    @property
    def octets(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body.encode()


Reply = Answer | Failure | Cut | Raw
