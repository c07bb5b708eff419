"""The store in a SQLite file: the same answers as in memory, persistence, encryption, batches, coroutines, sweeping."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import InvalidConfig, InvalidUpdateError, SerdeError, StorageError, StorageUnavailable
from statewright.storage.sqlite import SqliteStore
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import statements
from statewright.storage.store.items import item_key_of, path_of
from statewright.store import (
    GetOp,
    Index,
    InMemoryStore,
    ListNamespacesOp,
    Operation,
    PutOp,
    SearchItem,
    SearchOp,
    Store,
    TimeToLive,
)
from statewright.testing import FakeClock

NAMES = ("users", "42")
START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = bytes(range(32))
LONG = 600.0
"""Seconds after which a test fails. A test that passes never waits that long."""


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Embed a text as two numbers: whether it mentions cats, and whether dogs."""
    return [[float("cat" in text), float("dog" in text)] for text in texts]


INDEX = Index(dims=2, embed=embed, fields=("text", "parts[*]"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield database


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock) -> SqliteStore:
    return SqliteStore(database, clock=clock)


def count(database: SqliteDatabase, table: str = "items") -> int:
    with database.read() as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


# -- the same as in memory

LABELS = ["a", "ab", "b-"]
TEXTS = ["cat", "dog", "cat dog", "bird", None]
FILTERS: list[Any] = [
    None,
    {},
    {"n": 1},
    {"n": {"$gte": 1}},
    {"text": {"$exists": True}},
    {"text": {"$in": ["cat"]}, "n": {"$lt": 3}},
]


def random_batch(random_source: random.Random) -> list[Operation]:
    """Return random operations on few keys, so that they affect each other."""
    factories = random_source.choices(
        [_random_put, _random_get, _random_search, _random_list], [4, 3, 4, 1], k=random_source.randint(1, 3)
    )
    return [factory(random_source) for factory in factories]


def _random_labels(random_source: random.Random, labels: list[str], least: int) -> tuple[str, ...]:
    return tuple(random_source.choices(labels, k=random_source.randint(least, 2)))


def _random_put(random_source: random.Random) -> PutOp:
    value = {"n": random_source.randint(0, 3), "parts": random_source.choices(TEXTS, k=random_source.randint(0, 2))}
    return PutOp(
        namespace=_random_labels(random_source, LABELS, 1),
        key=random_source.choice(["k", ""]),
        value=random_source.choice([None, value, {**value, "text": random_source.choice(TEXTS)}]),
        index=random_source.choice([None, None, True, False, ("n",)]),
        ttl=random_source.choice([None, 0, 5, 15.5, timedelta(seconds=20)]),
    )


def _random_get(random_source: random.Random) -> GetOp:
    refresh = random_source.choice([None, True, False])
    return GetOp(
        namespace=_random_labels(random_source, LABELS, 1), key=random_source.choice(["k", ""]), refresh_ttl=refresh
    )


def _random_search(random_source: random.Random) -> SearchOp:
    return SearchOp(
        prefix=_random_labels(random_source, [*LABELS, "*", "a.b"], 0),
        query=random_source.choice([None, "cat", "cat dog"]),
        filter=random_source.choice(FILTERS),
        limit=random_source.choice([0, 1, 2, 10]),
        offset=random_source.choice([0, 0, 1, 2]),
        refresh_ttl=random_source.choice([None, True, False]),
    )


def _random_list(random_source: random.Random) -> ListNamespacesOp:
    return ListNamespacesOp(
        prefix=_random_labels(random_source, [*LABELS, "*", "a.b"], 0),
        suffix=_random_labels(random_source, [*LABELS, "b", "*"], 0),
        max_depth=random_source.choice([None, 1, 2]),
        limit=random_source.choice([1, 2, 100]),
        offset=random_source.choice([0, 0, 1]),
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_operations_have_the_same_answers_as_in_memory(
    database: SqliteDatabase, clock: FakeClock, seed: int
) -> None:
    random_source = random.Random(seed)
    ttl = TimeToLive(default=[None, 10][seed % 2], refresh_on_read=seed % 3 == 0)
    stored = SqliteStore(database, index=INDEX, ttl=ttl, clock=clock)
    in_memory = InMemoryStore(index=INDEX, ttl=ttl, clock=clock)
    for _ in range(100):
        batch = random_batch(random_source)
        assert _rounded(stored.batch(batch)) == _rounded(in_memory.batch(batch)), batch
        clock.advance(random_source.choice([0, 0, 1, 4.5, 5]))
    assert stored.sweep() == in_memory.sweep()
    assert count(database) == len(in_memory.search((), limit=1000))


def _rounded(answers: list[Any]) -> list[Any]:
    return [[_with_round_score(item) for item in answer] if isinstance(answer, list) else answer for answer in answers]


def _with_round_score(answer: Any) -> Any:
    return replace(answer, score=round(answer.score, 6)) if isinstance(answer, SearchItem) and answer.score else answer


def test_the_store_implements_the_port(store: SqliteStore) -> None:
    assert isinstance(store, Store)


# -- persistence


def test_items_are_kept_in_the_file(tmp_path: Path) -> None:
    value = {"n": 1, "when": START, "parts": ("a", {"b"}), "bytes": b"\x00\xff"}
    with SqliteStore(tmp_path / "runs.db", clock=FakeClock(START)) as store:
        store.put(NAMES, "k", value)
    with SqliteStore.from_conn_string(f"sqlite:///{tmp_path}/runs.db") as store:
        item = store.get(NAMES, "k")
        assert item is not None
        assert (item.value, item.created_at, item.updated_at) == (value, START, START)


def test_items_expire_while_the_file_is_closed(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db", clock=FakeClock(START)) as store:
        store.put(NAMES, "short", {}, ttl=10)
        store.put(NAMES, "long", {}, ttl=timedelta(days=10))
    with SqliteStore(tmp_path / "runs.db", clock=FakeClock(START + timedelta(hours=1))) as store:
        assert [item.key for item in store.search(())] == ["long"]
        assert store.sweep() == 1


def test_vectors_are_kept_in_the_file(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db", index=INDEX) as store:
        store.put(NAMES, "k", {"text": "cat"})
    with SqliteStore(tmp_path / "runs.db", index=INDEX) as store:
        assert [item.score for item in store.search((), query="cat")] == [1.0]


def test_a_query_is_refused_if_stored_vectors_have_other_dimensions(database: SqliteDatabase) -> None:
    SqliteStore(database, index=INDEX).put(("old",), "k", {"text": "cat"})
    other = SqliteStore(database, index=Index(dims=3, embed=lambda texts: [[1.0, 0.0, 0.0] for _ in texts]))
    with pytest.raises(InvalidConfig, match=r"vectors of 3 numbers, but items in \('old',\) .* of 2"):
        other.search((), query="cat")
    assert other.search(("new",), query="cat") == []
    other.put(("old",), "k", {"text": "cat"})
    assert len(other.search((), query="cat")) == 1


def test_a_very_long_ttl_never_expires(store: SqliteStore, clock: FakeClock) -> None:
    store.put(NAMES, "k", {}, ttl=float("inf"))
    store.put(NAMES, "l", {}, ttl=timedelta.max)
    clock.advance(timedelta(days=365_000))
    assert len(store.search(NAMES)) == 2


# -- encryption


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_key_encrypts_values_and_vectors_in_the_file(tmp_path: Path, key: bytes | None) -> None:
    index = Index(dims=2, embed=lambda texts: [[0.6, 0.8] for _ in texts])
    with SqliteStore(tmp_path / "runs.db", index=index, key=key) as store:
        store.put(NAMES, "k", {"text": "a great secret"})
        (item,) = store.search((), query="?", filter={"text": {"$contains": "great"}})
        assert (item.value, item.score) == ({"text": "a great secret"}, 1.0)
    stored = (tmp_path / "runs.db").read_bytes()
    vector = b"\x9a\x99\x19\x3f\xcd\xcc\x4c\x3f"
    assert (b"secret" in stored, vector in stored) == (key is None, key is None)


# -- values that cannot be stored


def test_a_value_that_cannot_be_stored_is_refused_with_its_path(store: SqliteStore) -> None:
    with pytest.raises(SerdeError, match=r"value\.deep\[1\] cannot be stored") as caught:
        store.put(NAMES, "k", {"deep": [1, object()]})
    assert caught.value.key_path == "value.deep[1]"
    assert store.get(NAMES, "k") is None


def test_an_unknown_operator_is_refused_even_in_an_empty_store(store: SqliteStore) -> None:
    with pytest.raises(InvalidUpdateError, match=r"'\$near'"):
        store.search((), filter={"missing": 1, "n": {"$near": 1}})


def test_putting_none_is_refused_and_deletes_nothing(store: SqliteStore) -> None:
    store.put(NAMES, "k", {})
    with pytest.raises(TypeError):
        store.put(NAMES, "k", None)  # type: ignore[arg-type]
    assert store.get(NAMES, "k") is not None


@pytest.mark.parametrize(("namespace", "key"), [(NAMES, "\ud800"), (("\udfff",), "k"), (NAMES, 1)])
def test_names_that_are_not_unicode_cannot_be_stored_and_are_never_found(
    store: SqliteStore, namespace: tuple[str, ...], key: Any
) -> None:
    with pytest.raises(SerdeError, match="not valid Unicode"):
        store.put(namespace, key, {})
    assert store.get(namespace, key) is None
    store.delete(namespace, key)
    assert store.search(("\ud800",)) == []
    assert store.list_namespaces(prefix=("\ud800",)) == []


@pytest.mark.parametrize(
    ("namespace", "path"),
    [((), ""), (("a",), "a."), (("a", "b"), "a.b."), (("a.b",), None), ((1,), None), (("\ud800",), None)],
)
def test_a_namespace_is_stored_with_a_dot_after_each_label(namespace: Any, path: str | None) -> None:
    assert path_of(namespace) == path
    assert item_key_of(namespace, "k") == (None if path is None else {"namespace": path, "key": "k"})


# -- batches


def test_a_batch_reads_what_it_has_written(store: SqliteStore) -> None:
    answers = store.batch(
        [
            GetOp(namespace=NAMES, key="k"),
            PutOp(namespace=NAMES, key="k", value={"n": 1}),
            GetOp(namespace=NAMES, key="k"),
            SearchOp(prefix=()),
            ListNamespacesOp(),
            PutOp(namespace=NAMES, key="k", value=None),
            GetOp(namespace=NAMES, key="k"),
        ]
    )
    before, put, item, items, namespaces, deleted, after = answers
    assert (before, put, deleted, after) == (None, None, None, None)
    assert (item.value, [found_item.key for found_item in items], namespaces) == ({"n": 1}, ["k"], [NAMES])


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (PutOp(namespace=(), key="k", value={}), InvalidUpdateError),
        (PutOp(namespace=NAMES, key="k", value={"x": object()}), SerdeError),
        (SearchOp(prefix=(), query="cat"), InvalidUpdateError),
        (SearchOp(prefix=(), filter={"n": {"$near": 1}}), InvalidUpdateError),
    ],
)
def test_a_failing_batch_stores_nothing(store: SqliteStore, operation: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        store.batch([PutOp(namespace=NAMES, key="k", value={"n": 1}), operation])
    assert store.search(()) == []


def test_a_batch_that_fails_during_the_write_is_rolled_back(database: SqliteDatabase) -> None:
    SqliteStore(database, index=INDEX).put(("old",), "k", {"text": "cat"})
    other = SqliteStore(database, index=Index(dims=1, embed=lambda texts: [[1.0] for _ in texts]))
    with pytest.raises(InvalidConfig):
        other.batch([PutOp(namespace=NAMES, key="k", value={}), SearchOp(prefix=(), query="cat")])
    assert other.list_namespaces() == [("old",)]


def test_the_embedding_function_is_called_once_per_batch(database: SqliteDatabase) -> None:
    calls: list[Sequence[str]] = []

    def record(texts: Sequence[str]) -> list[list[float]]:
        calls.append(texts)
        return embed(texts)

    store = SqliteStore(database, index=replace(INDEX, embed=record))
    store.batch([PutOp(namespace=NAMES, key=str(n), value={"text": f"cat {n}"}) for n in range(3)])
    store.batch([SearchOp(prefix=(), query="cat"), GetOp(namespace=NAMES, key="1"), SearchOp(prefix=(), query="dog")])
    store.batch([PutOp(namespace=NAMES, key="4", value={"text": "cat"}, index=False)])
    assert calls == [["cat 0", "cat 1", "cat 2"], ["cat", "dog"]]


def test_an_empty_batch_returns_no_answers(store: SqliteStore) -> None:
    assert store.batch([]) == []
    assert asyncio.run(store.abatch([])) == []


# -- rows


def test_replaced_deleted_and_swept_items_leave_no_rows(database: SqliteDatabase, clock: FakeClock) -> None:
    store = SqliteStore(database, index=INDEX, clock=clock)
    for _ in range(2):
        for key in ("k", "l", "m"):
            store.put(NAMES, key, {"text": "cat", "parts": ["dog", "cat"]}, ttl=10 if key == "m" else None)
    assert (count(database), count(database, "vectors")) == (3, 3)
    store.delete(NAMES, "k")
    clock.advance(10)
    assert store.sweep() == 1
    store.put(NAMES, "l", {"text": "cat"}, index=False)
    assert (count(database), count(database, "vectors")) == (1, 0)


def test_reading_items_without_a_ttl_writes_nothing(database: SqliteDatabase, store: SqliteStore) -> None:
    store.put(NAMES, "k", {})
    lock = sqlite3.connect(database.path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    assert store.get(NAMES, "k") is not None
    assert len(store.search(())) == 1
    lock.close()


def test_a_search_with_a_prefix_uses_an_index(database: SqliteDatabase, store: SqliteStore) -> None:
    store.put(NAMES, "k", {})
    for name in ("under", "vectors", "namespaces"):
        values = {"first": "a.", "beyond": "a/", "now": 0}
        with database.read() as connection:
            plan = connection.execute("EXPLAIN QUERY PLAN " + statements("items")[name], values).fetchall()
        assert "COVERING INDEX items_by_namespace (namespace>? AND namespace<?)" in plan[0][3]


# -- coroutines


def test_coroutines_have_the_same_results_as_the_plain_methods(database: SqliteDatabase, clock: FakeClock) -> None:
    store = SqliteStore(database, index=INDEX, clock=clock)

    async def main() -> list[Any]:
        await store.aput(NAMES, "k", {"text": "cat"}, ttl=10)
        await store.aput(NAMES, "l", {"text": "dog"}, index=["text"])
        clock.advance(8)
        return [
            await store.aget(NAMES, "k", refresh_ttl=True),
            await store.asearch(NAMES, query="cat", limit=1, refresh_ttl=False),
            await store.alist_namespaces(max_depth=1),
            await store.abatch([GetOp(namespace=NAMES, key="l"), PutOp(namespace=NAMES, key="m", value={})]),
            await store.adelete(NAMES, "l"),
            await store.aget(NAMES, "l"),
        ]

    item, items, namespaces, (other, _), deleted, gone = asyncio.run(main())
    assert (item.value, [found_item.key for found_item in items], namespaces) == ({"text": "cat"}, ["k"], [("users",)])
    assert (other.value, deleted, gone) == ({"text": "dog"}, None, None)
    clock.advance(8)
    assert [item.key for item in store.search(())] == ["m", "k"]


def test_a_running_write_does_not_block_the_event_loop(database: SqliteDatabase, store: SqliteStore) -> None:
    started, released = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        started.set()
        assert released.wait(LONG)

    async def main() -> None:
        holder = threading.Thread(target=database.write, args=(hold,))
        holder.start()
        assert started.wait(LONG)
        putting = asyncio.ensure_future(store.aput(NAMES, "k", {}, ttl=10))
        assert await store.aget(NAMES, "k") is None  # readers do not wait for writers
        assert not putting.done()
        released.set()
        await putting
        assert await store.aget(NAMES, "k") is not None
        holder.join(LONG)

    asyncio.run(asyncio.wait_for(main(), LONG))


def test_the_embedding_function_does_not_block_the_event_loop(database: SqliteDatabase) -> None:
    called, released = threading.Event(), threading.Event()

    def embed_slowly(texts: Sequence[str]) -> list[list[float]]:
        called.set()
        assert released.wait(LONG)
        return embed(texts)

    store = SqliteStore(database, index=replace(INDEX, embed=embed_slowly))

    async def main() -> None:
        value = {"text": "cat"}
        putting = asyncio.ensure_future(store.aput(NAMES, "k", value))
        while not called.is_set():
            await asyncio.sleep(0.001)
        value["text"] = "dog"  # the store has already copied the value
        released.set()
        await putting
        assert [item.value for item in await store.asearch((), query="cat")] == [{"text": "cat"}]

    asyncio.run(asyncio.wait_for(main(), LONG))


# -- sweeping and closing


def test_a_sweeper_runs_periodically_until_the_store_is_closed(database: SqliteDatabase) -> None:
    clock = FakeClock(START)
    store = SqliteStore(database, clock=clock, ttl=TimeToLive(default=1, sweep_every=timedelta(seconds=5)))
    store.start_sweeper()
    store.start_sweeper()
    for _ in range(2):
        store.put(NAMES, "k", {})
        clock.advance(5)
        assert store.sweep() == 0  # the sweeper has already removed the item

    store.close()
    store.close()
    store.put(NAMES, "k", {})
    clock.advance(50)
    assert store.sweep() == 1


def test_a_sweeper_of_a_closed_database_does_not_warn(tmp_path: Path) -> None:
    clock = FakeClock(START)
    database = SqliteDatabase(tmp_path / "runs.db")
    store = SqliteStore(database, clock=clock, ttl=TimeToLive(sweep_every=5))
    store.start_sweeper()
    database.close()
    with warnings.catch_warnings(record=True) as caught:
        clock.advance(20)
        store.close()
    assert caught == []
    with pytest.raises(StorageError):
        store.sweep()


def test_a_store_closes_only_a_database_that_it_opened(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "runs.db") as database:
        with SqliteStore(database) as shared:
            shared.put(NAMES, "k", {})
        assert shared.get(NAMES, "k") is not None
        with SqliteStore(tmp_path / "runs.db") as own:
            assert own.get(NAMES, "k") is not None
        with pytest.raises(StorageUnavailable, match="it was closed"):
            own.get(NAMES, "k")
        with pytest.raises(StorageUnavailable, match="it was closed"):
            asyncio.run(own.aput(NAMES, "k", {}))


# -- several processes

OTHER = """
import sys
from statewright.storage.sqlite.statements import statements
from statewright.storage.sqlite import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    for n in range(20):
        store.put(("other",), str(n), {"n": n})
"""


def test_several_processes_can_share_a_store(store: SqliteStore) -> None:
    other = subprocess.Popen([sys.executable, "-c", OTHER, store.database.path], stderr=subprocess.PIPE, text=True)
    for n in range(20):
        store.put(NAMES, str(n), {"n": n})
        time.sleep(0.001)
    assert other.communicate(timeout=600)[1] == ""
    for namespace in (NAMES, ("other",)):
        assert [item.value["n"] for item in store.search(namespace, limit=99)] == list(range(19, -1, -1))
