"""The cache in a SQLite file: lifetimes, limits, encryption, and results that cannot be stored or read."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

from statewright import START, CachePolicy, StateGraph
from statewright.async_futures import await_future
from statewright.cache import Cache, CacheKey
from statewright.errors import DamagedDatabase, SerdeError, StorageUnavailable
from statewright.futures import is_future
from statewright.serde.serde import Serde
from statewright.storage.sqlite import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.testing import FakeClock

KEY = CacheKey("graph/node", "digest")


@dataclass
class Point:
    x: int


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield database


@pytest.fixture
def cache(database: SqliteDatabase, clock: FakeClock) -> SqliteCache:
    return SqliteCache(database, clock=clock)


def fill(cache: SqliteCache, *inputs: str, ttl: float | None = None) -> None:
    for text in inputs:
        cache.put(KEY._replace(input=text), (text,), ttl=ttl).result()


def inputs(cache: SqliteCache) -> list[str]:
    """Return the inputs with a stored result, including expired ones."""
    with cache.database.read() as connection:
        return [text for (text,) in connection.execute("SELECT input FROM cache ORDER BY input")]


def test_the_cache_implements_the_port(cache: SqliteCache) -> None:
    assert isinstance(cache, Cache)


@pytest.mark.parametrize("ttl", [10, 0.000001, 1e30, float("inf")])
def test_a_result_expires_after_its_ttl(cache: SqliteCache, clock: FakeClock, ttl: float) -> None:
    cache.put(KEY, (1,), ttl=ttl).result()
    assert cache.get(KEY) == (1,)
    clock.advance(min(ttl, 1e9))
    assert cache.get(KEY) == ((1,) if ttl > 1e9 else None)


def test_a_result_with_a_ttl_of_zero_expires_at_once(cache: SqliteCache) -> None:
    cache.put(KEY, (1,), ttl=0).result()
    assert cache.get(KEY) is None


def test_a_result_without_a_ttl_never_expires(cache: SqliteCache, clock: FakeClock) -> None:
    cache.put(KEY, (1,)).result()
    clock.advance(86400.0 * 365_000)
    assert cache.get(KEY) == (1,)


def test_results_and_their_ttls_are_kept_in_the_file(tmp_path: Path, clock: FakeClock) -> None:
    with SqliteCache(tmp_path / "runs.db", clock=clock) as cache:
        fill(cache, "ever")
        fill(cache, "short", ttl=10)
        fill(cache, "long", ttl=100)
    clock.advance(50)
    with SqliteCache.from_conn_string(f"sqlite:///{tmp_path}/runs.db", clock=clock) as cache:
        results = [cache.get(KEY._replace(input=text)) for text in ("ever", "short", "long")]
        assert results == [("ever",), None, ("long",)]
    with pytest.raises(StorageUnavailable, match="it was closed"):
        cache.get(KEY)


def test_storing_a_result_deletes_expired_ones(cache: SqliteCache, clock: FakeClock) -> None:
    fill(cache, "a", "b", ttl=10)
    clock.advance(10)
    fill(cache, "c", ttl=10)
    assert inputs(cache) == ["c"]


def test_the_oldest_result_is_deleted_when_there_are_too_many(database: SqliteDatabase, clock: FakeClock) -> None:
    cache = SqliteCache(database, max_size=3, clock=clock)
    fill(cache, "d", "c", "b", "d", "a")
    assert inputs(cache) == ["a", "b", "d"]
    clock.advance(1)
    fill(cache, "e")
    assert inputs(cache) == ["a", "d", "e"]


def test_results_with_a_ttl_are_deleted_before_those_without(database: SqliteDatabase, clock: FakeClock) -> None:
    cache = SqliteCache(database, max_size=2, clock=clock)
    fill(cache, "a")
    fill(cache, "b", ttl=20)
    fill(cache, "c", ttl=10)
    assert inputs(cache) == ["a", "b"]


def test_the_number_of_results_is_unlimited_by_default(cache: SqliteCache) -> None:
    fill(cache, *(str(n) for n in range(50)))
    assert len(inputs(cache)) == 50


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["plain", "encrypted"])
def test_a_key_encrypts_the_results_in_the_file(tmp_path: Path, key: bytes | None) -> None:
    with SqliteCache(tmp_path / "runs.db", key=key) as cache:
        cache.put(KEY, ("a great secret",)).result()
        assert cache.get(KEY) == ("a great secret",)
    assert (b"secret" in (tmp_path / "runs.db").read_bytes()) == (key is None)


def test_a_result_that_cannot_be_stored_is_refused(cache: SqliteCache) -> None:
    with pytest.raises(SerdeError, match=r"the result of graph/node\[0\]\.n cannot be stored.*Point is not registered"):
        cache.put(KEY, ({"n": Point(1)}, (), None))
    assert cache.get(KEY) is None


def test_a_result_of_an_unregistered_type_counts_as_missing(tmp_path: Path) -> None:
    with SqliteCache(tmp_path / "runs.db", serde=Serde([Point])) as cache:
        cache.put(KEY, (Point(1),)).result()
        assert cache.get(KEY) == (Point(1),)
    with SqliteCache(tmp_path / "runs.db") as cache:
        assert cache.get(KEY) is None
        cache.put(KEY, (1,)).result()
        assert cache.get(KEY) == (1,)


def test_a_damaged_result_raises_damaged_database(cache: SqliteCache) -> None:
    def damage(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE cache SET value = x'c1c1c1'")

    cache.put(KEY, (1,)).result()
    cache.database.write(damage)
    with pytest.raises(DamagedDatabase):
        cache.get(KEY)


class State(TypedDict, total=False):
    n: int
    seen: Any


@pytest.mark.parametrize("is_async", [False, True])
def test_a_node_is_not_called_again_for_a_cached_input(tmp_path: Path, is_async: bool) -> None:
    calls: list[int] = []

    def double(state: State) -> State:
        calls.append(state["n"])
        return {"n": state["n"] * 2}

    graph = StateGraph(State)
    graph.add_node("double", double, cache_policy=CachePolicy(ttl=60))
    graph.add_edge(START, "double")
    for _ in range(2):
        with SqliteCache(tmp_path / "runs.db") as cache:
            app = graph.compile(cache=cache)
            for n in (1, 2, 1):
                answer: Any = asyncio.run(app.ainvoke({"n": n})) if is_async else app.invoke({"n": n})
                assert answer == {"n": 2 * n}
    assert calls == [1, 2]
    with SqliteCache(tmp_path / "runs.db") as cache:
        app = graph.compile(cache=cache)
        app.clear_cache("double")
        app.invoke({"n": 1})
    assert calls == [1, 2, 1]


def test_an_event_loop_is_not_blocked_by_reading(database: SqliteDatabase) -> None:
    async def run() -> None:
        cache = SqliteCache(database)
        await await_future(cache.put(KEY, (1,)))
        reply = cache.get(KEY)
        assert is_future(reply)
        assert await await_future(reply) == (1,)

    asyncio.run(run())
