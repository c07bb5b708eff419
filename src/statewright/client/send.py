"""Sending requests with retries and exponential backoff, and reading lists page by page."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar, cast

from statewright.client.call import Call, Reply, get
from statewright.client.connection import Connection, ConnectionLost
from statewright.client.errors import make_error, make_unreachable_error, retry_after
from statewright.client.settings import ClientSettings
from statewright.errors import ServiceError

T = TypeVar("T")
RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""Statuses of temporary failures, which are retried."""


async def send(call: Call[T], connection: Connection) -> T:
    """Send a request, with retries, and return the parsed answer.

    Raises ServiceError for an error response, and ServiceUnreachable if there is no response.
    """
    settings, failures = connection.settings, 0
    while True:
        try:
            reply = await connection.send(call)
        except ConnectionLost as lost:
            failures += 1
            if not call.repeatable or failures > settings.retries:
                raise make_unreachable_error(call, settings.base_url, lost) from lost.__cause__
            await connection.sleep(settings.pause(failures))
            continue
        if reply.status < 400 or reply.status in call.accepted:
            return _parse(call, reply)
        failures += 1
        pause = pause_after(reply, settings, failures)
        if not call.repeatable or failures > settings.retries or pause is None:
            raise make_error(reply, call)
        await connection.sleep(pause)


def pause_after(reply: Reply, settings: ClientSettings, failures: int) -> float | None:
    """Return the seconds before a request is retried after an error response; None if it must not be retried."""
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
            f"The answer to {call.method} {call.path} cannot be parsed: {error!r}. It begins with "
            f"{reply.content[:80]!r}. Check that base_url is the address of a Statewright service, and that its "
            f"version is not older than the version of this client."
        ) from error


# -- lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list."""

    items: Sequence[T]
    page: int
    """The number of the page, from 1."""
    page_size: int
    total: int
    """The number of items in the whole list."""
    total_pages: int


def get_page(
    path: str, read: Callable[[Any], T], *, page: int, page_size: int, as_operator: bool = False, **params: Any
) -> Call[Page[T]]:
    """Return a request for one page of a list. `read` parses one item."""

    def read_page(answer: Any) -> Page[T]:
        meta = answer["meta"]
        return Page(
            items=tuple(read(item) for item in answer["data"]),
            page=meta["page"],
            page_size=meta["pageSize"],
            total=meta["total"],
            total_pages=meta["totalPages"],
        )

    return get(path, read_page, {**params, "page": page, "pageSize": page_size}, as_operator=as_operator)


async def iter_items(first: Call[Page[T]], connection: Connection) -> AsyncGenerator[T]:
    """Yield each item of a list once, even if the list grows meanwhile. Begin with the page that `first` requests."""
    call, seen_ids = first, set[str]()
    while True:
        page = await send(call, connection)
        for item in page.items:
            item_id: str = cast(Any, item).id
            if item_id not in seen_ids:  # a new item in the list moves the last item of each page to the next page
                seen_ids.add(item_id)
                yield item
        if page.page >= page.total_pages:
            return
        next_page = str(page.page + 1)
        params = [(name, next_page if name == "page" else value) for name, value in call.params]
        call = replace(call, params=params)
