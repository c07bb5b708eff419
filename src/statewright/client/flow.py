"""The logic of the client without I/O: requests with retries, and lists read page by page.

A *flow* is a generator that yields effects, receives their outcomes, and returns its result; `Yield` passes an item to
the loop of the caller. If a connection breaks, `ConnectionLost` is raised in the flow. Two drivers perform the effects,
a synchronous and an asynchronous one, so retries, pages and resumed streams are written only once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from statewright.client.call import Call, Reply, get
from statewright.client.errors import error_of, retry_after, unreachable
from statewright.client.settings import ClientSettings
from statewright.errors import ServiceError

T = TypeVar("T")
RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""Statuses of temporary failures, which are retried."""


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


# -- one request


def send(call: Call[T], settings: ClientSettings) -> Flow[T]:
    """Send a request, with retries, and return its parsed answer. Raises ServiceError if it was refused."""
    failures = 0
    while True:
        try:
            reply: Reply = yield Send(call)
        except ConnectionLost as lost:
            failures += 1
            if not call.repeatable or failures > settings.retries:
                raise unreachable(call, settings.base_url, lost) from lost.__cause__
            yield Sleep(settings.pause(failures))
            continue
        if reply.status < 400 or reply.status in call.accepted:
            return _parse(call, reply)
        failures += 1
        pause = pause_after(reply, settings, failures)
        if not call.repeatable or failures > settings.retries or pause is None:
            raise error_of(reply, call)
        yield Sleep(pause)


def pause_after(reply: Reply, settings: ClientSettings, failures: int) -> float | None:
    """Return the seconds before a refused request is retried; None if it must not be."""
    if reply.status not in RETRYABLE:
        return None
    requested = retry_after(reply) or 0.0
    return None if requested > settings.longest_pause else max(requested, settings.pause(failures))


def _parse(call: Call[T], reply: Reply) -> T:
    try:
        answer: Any = reply.content.decode() if call.is_text else json.loads(reply.content) if reply.content else None
        return call.read(answer)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServiceError(
            f"The answer to {call.method} {call.path} cannot be parsed: {error!r}. It begins {reply.content[:80]!r}. "
            f"Check that base_url belongs to a Statewright service whose version is not older than that of this client."
        ) from error


# -- lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list."""

    items: Sequence[T]
    page: int
    """The number of the page, from 1."""
    page_size: int
    total: int
    """The number of items in the whole list."""
    total_pages: int


def page_of(path: str, read: Callable[[Any], T], *, page: int, page_size: int, **params: Any) -> Call[Page[T]]:
    """Return the request for one page of a list. `read` reads one item."""

    def read_page(answer: Any) -> Page[T]:
        meta = answer["meta"]
        return Page(
            items=tuple(read(item) for item in answer["data"]),
            page=meta["page"],
            page_size=meta["pageSize"],
            total=meta["total"],
            total_pages=meta["totalPages"],
        )

    return get(path, read_page, {**params, "page": page, "pageSize": page_size})


def all_of(first: Call[Page[Any]], settings: ClientSettings) -> Flow[None]:
    """Yield the items of a list from the given page on, each once, even if the list grows meanwhile."""
    call, seen = first, set[str]()
    while True:
        page: Page[Any] = yield from send(call, settings)
        for item in page.items:
            if item.id not in seen:  # a new item moves the last one to the next page
                seen.add(item.id)
                yield Yield(item)
        if page.page >= page.total_pages:
            return
        call = replace(call, params=_params_of_page(call.params, page.page + 1))


def _params_of_page(params: Sequence[tuple[str, str]], page: int) -> list[tuple[str, str]]:
    return [(name, str(page) if name == "page" else value) for name, value in params]
