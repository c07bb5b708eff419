"""Two processes that change the same items at the same time: here two databases, whose transactions are interleaved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.postgres_server import empty_database, execute, schema_of, shared_url

from statewright.clock import microseconds
from statewright.storage.postgres import PostgresDatabase, PostgresStore
from statewright.storage.store.items import Items, item_key_of
from statewright.store import GetOp, Index, PutOp, SearchOp, TimeToLive
from statewright.testing import FakeClock

NAMESPACE = ("users", "ada")
LIMIT = 60.0
"""Seconds after which a test fails that waits for a condition."""


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


INDEX = Index(dims=2, embed=embed, fields=("text",))


@pytest.fixture
def databases() -> Iterator[tuple[PostgresDatabase, PostgresDatabase]]:
    first = empty_database()
    with PostgresDatabase(shared_url(), schema=schema_of(0), trusts_clocks=True) as second:
        yield first, second


def in_thread_until_blocked(call: Callable[[], object]) -> threading.Thread:
    """Call a function on a thread, and return as soon as it has ended or its session waits for a lock."""
    thread = threading.Thread(target=call)
    thread.start()
    deadline = time.monotonic() + LIMIT
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while thread.is_alive() and not execute(shared_url(), waiting)[0][0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return thread


def counts(database: PostgresDatabase) -> list[int]:
    """Return the numbers of items, of their vectors, and of those in the type of the extension."""
    tables = ("items", "vectors", "embeddings_2")
    return [
        database.query(lambda connection, table=table: connection.execute(f"SELECT count(*) FROM {table}").fetchone())[
            0
        ]
        for table in tables
    ]


@pytest.mark.parametrize("exists", [False, True], ids=["new", "replaced"])
def test_two_puts_of_an_item_leave_one_vector(
    databases: tuple[PostgresDatabase, PostgresDatabase], exists: bool
) -> None:
    first = databases[0]
    store, other = (PostgresStore(database, index=INDEX) for database in databases)
    if exists:
        store.put(NAMESPACE, "k", {"text": "before"})
    item_key = item_key_of(NAMESPACE, "k")
    assert item_key is not None
    threads: list[threading.Thread] = []

    def put(connection: Any) -> None:
        items = Items(first, connection, microseconds(first.clock.now()), store._vector_search)
        items.put(item_key, first.encode({"text": "first"}, "value"), vectors=[[1.0, 0.0]], ttl=None)
        threads.append(in_thread_until_blocked(lambda: other.put(NAMESPACE, "k", {"text": "second"})))

    first.write(put)
    threads[0].join(LIMIT)
    item = store.get(NAMESPACE, "k")
    assert item is not None
    assert item.value == {"text": "second"}
    assert counts(first) == [1, 1, 1]
    assert [item.key for item in store.search(NAMESPACE, query="second")] == ["k"]
    store.delete(NAMESPACE, "k")
    assert counts(first) == [0, 0, 0]


class Interrupted:
    """A connection on which something happens between its first and its second statement."""

    def __init__(self, connection: Any, happens: Callable[[], object]) -> None:
        self._connection = connection
        self._happens = happens
        self._count = 0

    def execute(self, *arguments: Any) -> Any:
        self._count += 1
        if self._count == 2:
            self._happens()
        return self._connection.execute(*arguments)


def test_an_item_that_is_refreshed_while_expired_items_are_removed_keeps_its_vectors_or_loses_both(
    databases: tuple[PostgresDatabase, PostgresDatabase],
) -> None:
    first, second = databases
    clock = FakeClock()
    store = PostgresStore(first, index=INDEX, ttl=TimeToLive(default=10), clock=clock)
    store.put(NAMESPACE, "k", {"text": "refreshed"})
    clock.advance(9.9)
    batch = store._plan([GetOp(namespace=NAMESPACE, key="k", refresh_ttl=True)])
    batch.read()
    clock.advance(0.2)
    threads: list[threading.Thread] = []

    def refresh() -> None:
        threads.append(in_thread_until_blocked(lambda: first.write(batch.refresh)))

    def sweep(connection: Any) -> int:
        return Items(second, Interrupted(connection, refresh), microseconds(clock.now())).sweep()  # type: ignore

    swept = second.write(sweep)
    threads[0].join(LIMIT)
    assert counts(first) == [1 - swept] * 3


def test_a_batch_that_writes_leaves_out_items_that_are_updated_while_it_searches(
    databases: tuple[PostgresDatabase, PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = (PostgresStore(database) for database in databases)
    for key in ("a", "b", "c"):
        store.put(NAMESPACE, key, {"text": key})
    find = Items._row
    updates: list[None] = []

    def find_after_update(items: Items, number: int) -> Any:
        if items._database is store.database and not updates:
            updates.append(other.put(NAMESPACE, "c", {"text": "new"}))
        return find(items, number)

    monkeypatch.setattr(Items, "_row", find_after_update)
    put = PutOp(namespace=("others",), key="k", value={"text": "x"})
    _, items = store.batch([put, SearchOp(prefix=NAMESPACE)])
    assert [item.key for item in items] == ["b", "a"]
    assert other.get(("others",), "k") is not None
