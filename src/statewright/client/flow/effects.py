"""The effects of client flows, as data. Two drivers perform them: a synchronous and an asynchronous one.

A flow is a generator that yields effects, receives their outcomes, and returns its result; `Yield` passes an item to
the loop of the caller. If a connection breaks, `ConnectionLost` is raised in the flow. So retries, pages and resumed
streams are written only once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from statewright.client.call import Call

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; the outcome is its `Reply`."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Open:
    """Open a stream, and close the previous one. The outcome is the `Reply`; it only has content if it is an error."""

    call: Call[Any]
    last_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Read the next bytes of the stream; the outcome is empty at its end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for a number of seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Yield:
    """Yield an item to the caller's loop."""

    item: Any


Effect = Send | Open | Read | Sleep | Yield
Flow = Generator[Effect, Any, T]
"""A generator of effects that returns a `T`."""


class ConnectionLost(Exception):
    """A connection could not be opened, or broke. Internal to the client."""


def advance(flow: Flow[Any], outcome: Any) -> Effect:
    """Send an outcome to a flow and return its next effect. Raises StopIteration at its end."""
    return flow.throw(outcome) if isinstance(outcome, ConnectionLost) else flow.send(outcome)
