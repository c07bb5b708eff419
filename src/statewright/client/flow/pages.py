"""Pages of lists, and iteration over all pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from statewright.client.call import Call, get
from statewright.client.flow.effects import Flow, Yield
from statewright.client.flow.send import send
from statewright.client.settings import ClientSettings

T = TypeVar("T")


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
