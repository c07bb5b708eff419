"""The effects of client flows, as data. Two drivers perform them: a synchronous and an asynchronous one.

A flow is a generator. It yields effects, is sent their outcomes, and returns its result; `Yield` passes an item to the
caller's loop. If a connection breaks, `Lost` is raised in it. So retries, pages and resumed
streams are written once."""

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
    """Open a stream; the outcome is the head of the response, with its content if it is an error.

    A stream that was open is closed.
    """

    call: Call[Any]
    last_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Read available bytes of the stream; no bytes mean its end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Yield:
    """Yield an item to the caller's loop."""

    item: Any


Effect = Send | Open | Read | Sleep | Yield
Flow = Generator[Effect, Any, T]
"""A generator of effects that returns a `T`."""


class Lost(Exception):
    """A connection could not be opened, or broke. Internal to the client."""


def advance(flow: Flow[Any], outcome: Any) -> Effect:
    """Send an outcome to a flow and return its next effect. Raises StopIteration at its end."""
    return flow.throw(outcome) if isinstance(outcome, Lost) else flow.send(outcome)
