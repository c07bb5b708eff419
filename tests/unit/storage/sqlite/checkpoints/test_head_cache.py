"""The writer's cache of heads: what it contains, and when it is cleared."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from statewright.checkpoint import BranchKey, Lease, LeaseRequest, Pending
from statewright.storage.checkpoints.head_cache import Head, HeadCache, StoredThread
from statewright.storage.sqlite import data_version as module
from statewright.storage.sqlite.data_version import VersionedHeadCache
from statewright.storage.sqlite.database import SqliteDatabase

T = TypeVar("T", bound=HeadCache)
LINE = BranchKey("thread")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRITE = "UPDATE threads SET changed = changed + 1"


def fill(cache: T) -> T:
    cache.threads["default", "thread"] = StoredThread(1, 0, None, None, None)
    cache.lines[1, "", "main"] = 1
    cache.heads[1] = Head(1 << 32, bytes(16), 1, 1)
    cache.runs[1, "run"] = (1, 1)
    return cache


def contents(cache: HeadCache) -> list[bool]:
    return [bool(table) for table in (cache.threads, cache.lines, cache.heads, cache.runs)]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Return two connections to one file."""
    SqliteDatabase(tmp_path / "runs.db").close()
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as first:
        first.execute("INSERT INTO threads (workspace, thread_id, changed) VALUES ('default', 'thread', 0)")
        with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as second:
            yield first, second


def test_forget_clears_the_cache() -> None:
    cache = fill(VersionedHeadCache())
    assert contents(cache) == [True] * 4
    cache.forget()
    assert contents(cache) == [False] * 4


def test_a_write_of_another_connection_clears_the_cache(connections: Any) -> None:
    own, other = connections
    cache = VersionedHeadCache()
    cache.refresh(own)
    fill(cache)
    other.execute(WRITE)
    cache.refresh(own)
    assert contents(cache) == [False] * 4
    fill(cache)
    cache.refresh(own)
    assert contents(cache) == [True] * 4


def test_own_writes_and_reads_of_others_keep_the_cache(connections: Any) -> None:
    own, other = connections
    cache = VersionedHeadCache()
    cache.refresh(own)
    fill(cache)
    own.execute(WRITE)
    other.execute("SELECT * FROM threads").fetchall()
    cache.refresh(own)
    assert contents(cache) == [True] * 4


def test_a_rolled_back_write_of_another_connection_keeps_the_cache(connections: Any) -> None:
    own, other = connections
    cache = VersionedHeadCache()
    cache.refresh(own)
    fill(cache)
    other.execute("BEGIN IMMEDIATE")
    other.execute(WRITE)
    other.execute("ROLLBACK")
    cache.refresh(own)
    assert contents(cache) == [True] * 4


def test_the_first_refresh_clears_the_cache(connections: Any) -> None:
    cache = fill(VersionedHeadCache())
    cache.refresh(connections[0])
    assert contents(cache) == [False] * 4


@pytest.mark.parametrize(("lines", "is_cleared"), [(3, False), (4, True)])
def test_the_cache_is_cleared_when_it_has_too_many_lines(
    connections: Any, monkeypatch: pytest.MonkeyPatch, lines: int, is_cleared: bool
) -> None:
    monkeypatch.setattr(module, "_MAX_HEADS", 3)
    cache = VersionedHeadCache()
    cache.refresh(connections[0])
    fill(cache)
    for line in range(1, lines + 1):
        cache.heads[line] = Head(line << 32, bytes(16), 1, 1)
    cache.refresh(connections[0])
    assert contents(cache) == [not is_cleared] * 4


# -- in the writer


def test_commits_fill_the_cache(scribe: Any) -> None:
    ids = scribe.count(2, logs=2)
    cache = scribe.database.head_cache
    ((name, thread),) = cache.threads.items()
    assert (name, vars(thread)) == (("default", "thread"), vars(StoredThread(1, 2, None, None, None)))
    assert (cache.lines, cache.runs) == ({(1, "", "main"): 1}, {(1, "run"): (1, 5)})
    (head,) = cache.heads.values()
    assert (head.row_id, head.key, head.count) == (scribe.row_id(ids[1]), bytes.fromhex(ids[1]), 2)
    with scribe.database.read() as connection:
        size = "SELECT sum(length(control) + length(changes)) FROM records"
        assert connection.execute(size).fetchone() == (head.size,)


def test_the_cache_equals_the_stored_rows(scribe: Any, limit: Any) -> None:
    def read_cache() -> Any:
        cache = scribe.database.head_cache
        heads = {line: (head.row_id, head.key, head.count, head.size) for line, head in cache.heads.items()}
        return {name: vars(thread) for name, thread in cache.threads.items()}, cache.lines, heads

    limit(RECENT=5, LONGEST=3)
    for n in range(12):
        line = LINE if n % 3 else BranchKey("thread", "in")
        held = LeaseRequest("run", NOW, NOW + timedelta(seconds=n + 1), claims=True)
        scribe.count(1, line, hold=held)
        cached = read_cache()
        scribe.database.head_cache.forget()
        for branch in scribe.heads:
            scribe.note(scribe.heads[branch], Pending(), hold=held, line=branch)
        assert read_cache() == cached


def test_a_rolled_back_commit_clears_the_cache(scribe: Any) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        assert contents(scribe.database.head_cache) == [True] * 4
        raise ValueError("no luck")

    (first,) = scribe.count(1, logs=1)
    with pytest.raises(ValueError, match="no luck"):
        scribe.save(scribe.commit({}, logs=1), fail)
    assert contents(scribe.database.head_cache) == [False] * 4
    assert scribe.loaded(scribe.count(1)[0]).parent_id == first


def test_commits_of_another_connection_are_taken_into_account(tmp_path: Path, scribe: Any, scribe_of: Any) -> None:
    scribe.count(1, logs=1)
    with SqliteDatabase(tmp_path / "runs.db") as database:
        other = scribe_of(database)
        other.heads, other.written, other._numbers = scribe.heads, scribe.written, scribe._numbers
        for _ in range(2):
            other.count(2, logs=1)
            scribe.count(2, logs=1)
    assert [event.seq for event in scribe.numbered_events()] == list(range(1, 10))
    scribe.check()


# -- threads


def test_a_thread_has_the_lease_of_its_owner() -> None:
    held = StoredThread(1, 3, "run", 1_767_225_600_000_001, "interrupt")
    assert held.lease == Lease("run", 3, NOW + timedelta(microseconds=1), "interrupt")


@pytest.mark.parametrize("thread", [StoredThread(1, 3, None, None, None), StoredThread(1, 3, "run", None, None)])
def test_a_thread_without_an_owner_or_end_has_no_lease(thread: StoredThread) -> None:
    assert thread.lease is None


def test_a_head_has_entries_by_default() -> None:
    assert Head(0, bytes(16), 0, 0).has_entries
