"""Lists read in pages."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.unit.client.scripted import ScriptedConnection

from statewright.client.call import Reply
from statewright.client.connection import complete
from statewright.client.send import Page, get_page, iter_items


class Item(NamedTuple):
    id: str


CALL = get_page("/api/v1/x", Item, page=1, page_size=2, status=["a", "b"])


def reply(page: int, total: int, *items: str) -> Reply:
    meta = {"page": page, "pageSize": 2, "total": total, "totalPages": -(-total // 2)}
    return Reply(status=200, headers={}, content=json.dumps({"data": items, "meta": meta}).encode())


def read(*replies: Reply) -> tuple[list[str], list[Any]]:
    """Return the ids of the items, and the numbers of the requested pages."""
    connection = ScriptedConnection(*replies)

    async def ids() -> list[str]:
        return [item.id async for item in iter_items(CALL, connection)]

    return complete(ids()), [dict(call.params)["page"] for call in connection.calls]


def test_one_page() -> None:
    assert CALL.params == [("status", "a"), ("status", "b"), ("page", "1"), ("pageSize", "2")]
    first = CALL.read(json.loads(reply(1, 3, "a", "b").content))
    assert first == Page(items=(Item("a"), Item("b")), page=1, page_size=2, total=3, total_pages=2)


def test_all_pages() -> None:
    assert read(reply(1, 3, "a", "b"), reply(2, 3, "c")) == (["a", "b", "c"], ["1", "2"])
    assert read(reply(1, 0)) == ([], ["1"])


def test_an_item_that_moves_to_the_next_page_is_yielded_once() -> None:
    assert read(reply(1, 3, "a", "b"), reply(2, 4, "b", "c")) == (["a", "b", "c"], ["1", "2"])
