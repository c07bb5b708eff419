"""What a conversation with the service needs done, as data. Two drivers do it: one blocks, one awaits.

A conversation is a generator. It yields what it needs, is sent what came of it, and returns its result; `Yield` hands
an item to whoever iterates. If a connection breaks, `Lost` is raised in it. So pauses, second tries, pages and streams
that are taken up again are written once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from statewright.client.call import Call

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; its `Reply` comes back."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to read a stream; the head of the answer comes back, with its content if it refuses.

    A stream that was open is closed.
    """

    call: Call[Any]
    last_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Read of the stream what is there; no bytes mean its end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Yield:
    """Hand an item to whoever iterates."""

    item: Any


Effect = Send | Open | Read | Sleep | Yield
Flow = Generator[Effect, Any, T]
"""A conversation that ends with a `T`."""


class Lost(Exception):
    """A connection could not be made, or has broken. Never leaves the client."""


def advance(talk: Flow[Any], outcome: Any) -> Effect:
    """What a conversation needs next, once it knows what came of the last. Raises StopIteration at its end."""
    return talk.throw(outcome) if isinstance(outcome, Lost) else talk.send(outcome)
