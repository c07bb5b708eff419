"""What the writer remembers of a database, and when it has to forget."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from statewright.checkpoint import BranchKey, Lease, LeaseRequest, Pending
from statewright.storage.checkpoints.head_cache import Head, HeadCache, Thread
from statewright.storage.sqlite import data_version as module
from statewright.storage.sqlite.data_version import VersionedHeadCache
from statewright.storage.sqlite.database import SqliteDatabase

T = TypeVar("T", bound=HeadCache)
LINE = BranchKey("thread")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRITE = "UPDATE threads SET changed = changed + 1"


def filled(known: T) -> T:
    known.threads["default", "thread"] = Thread(1, 0, None, None, None)
    known.lines[1, "", "main"] = 1
    known.heads[1] = Head(1 << 32, bytes(16), 1, 1)
    known.runs[1, "run"] = (1, 1)
    return known


def knows(known: HeadCache) -> list[bool]:
    return [bool(each) for each in (known.threads, known.lines, known.heads, known.runs)]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Two to one file."""
    SqliteDatabase(tmp_path / "runs.db").close()
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as one:
        one.execute("INSERT INTO threads (workspace, thread_id, changed) VALUES ('default', 'thread', 0)")
        with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as other:
            yield one, other


def test_everything_is_forgotten_at_once() -> None:
    known = filled(VersionedHeadCache())
    assert knows(known) == [True] * 4
    known.forget()
    assert knows(known) == [False] * 4


def test_what_another_connection_has_written_makes_it_forget(connections: Any) -> None:
    own, other = connections
    known = VersionedHeadCache()
    known.refresh(own)
    filled(known)
    other.execute(WRITE)
    known.refresh(own)
    assert knows(known) == [False] * 4
    filled(known)
    known.refresh(own)
    assert knows(known) == [True] * 4


def test_what_its_own_connection_writes_or_another_reads_is_no_reason_to_forget(connections: Any) -> None:
    own, other = connections
    known = VersionedHeadCache()
    known.refresh(own)
    filled(known)
    own.execute(WRITE)
    other.execute("SELECT * FROM threads").fetchall()
    known.refresh(own)
    assert knows(known) == [True] * 4


def test_what_another_connection_writes_and_undoes_is_no_reason_to_forget(connections: Any) -> None:
    own, other = connections
    known = VersionedHeadCache()
    known.refresh(own)
    filled(known)
    other.execute("BEGIN IMMEDIATE")
    other.execute(WRITE)
    other.execute("ROLLBACK")
    known.refresh(own)
    assert knows(known) == [True] * 4


def test_nothing_counts_that_was_known_before_the_first_transaction(connections: Any) -> None:
    known = filled(VersionedHeadCache())
    known.refresh(connections[0])
    assert knows(known) == [False] * 4


@pytest.mark.parametrize(("lines", "forgets"), [(3, False), (4, True)])
def test_no_more_is_remembered_than_a_number_of_lines(
    connections: Any, monkeypatch: pytest.MonkeyPatch, lines: int, forgets: bool
) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    known = VersionedHeadCache()
    known.refresh(connections[0])
    filled(known)
    for line in range(1, lines + 1):
        known.heads[line] = Head(line << 32, bytes(16), 1, 1)
    known.refresh(connections[0])
    assert knows(known) == [not forgets] * 4


# -- as the writer uses it


def test_commits_that_follow_each_other_are_remembered(scribe: Any) -> None:
    ids = scribe.count(2, logs=2)
    known = scribe.database.head_cache
    ((name, thread),) = known.threads.items()
    assert (name, vars(thread)) == (("default", "thread"), vars(Thread(1, 2, None, None, None)))
    assert (known.lines, known.runs) == ({(1, "", "main"): 1}, {(1, "run"): (1, 5)})
    (head,) = known.heads.values()
    assert (head.row_id, head.key, head.count) == (scribe.place(ids[1]), bytes.fromhex(ids[1]), 2)
    with scribe.database.read() as connection:
        size = "SELECT sum(length(control) + length(changes)) FROM records"
        assert connection.execute(size).fetchone() == (head.size,)


def test_what_is_remembered_is_what_would_be_looked_up(scribe: Any, limit: Any) -> None:
    def remembered() -> Any:
        known = scribe.database.head_cache
        heads = {line: (head.row_id, head.key, head.count, head.size) for line, head in known.heads.items()}
        return {name: vars(thread) for name, thread in known.threads.items()}, known.lines, heads

    limit(RECENT=5, LONGEST=3)
    for n in range(12):
        line = LINE if n % 3 else BranchKey("thread", "in")
        held = LeaseRequest("run", NOW, NOW + timedelta(seconds=n + 1), claims=True)
        scribe.count(1, line, hold=held)
        by_heart = remembered()
        scribe.database.head_cache.forget()
        for one in scribe.heads:
            scribe.note(scribe.heads[one], Pending(), hold=held, line=one)
        assert remembered() == by_heart


def test_what_was_undone_is_not_remembered(scribe: Any) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        assert knows(scribe.database.head_cache) == [True] * 4
        raise ValueError("no luck")

    (first,) = scribe.count(1, logs=1)
    with pytest.raises(ValueError, match="no luck"):
        scribe.save(scribe.commit({}, logs=1), fail)
    assert knows(scribe.database.head_cache) == [False] * 4
    assert scribe.loaded(scribe.count(1)[0]).parent_id == first


def test_what_another_process_has_written_is_looked_up(tmp_path: Path, scribe: Any, scribe_of: Any) -> None:
    scribe.count(1, logs=1)
    with SqliteDatabase(tmp_path / "runs.db") as database:
        other = scribe_of(database)
        other.heads, other.written, other._numbers = scribe.heads, scribe.written, scribe._numbers
        for _ in range(2):
            other.count(2, logs=1)
            scribe.count(2, logs=1)
    assert [event.seq for event in scribe.numbered()] == list(range(1, 10))
    scribe.check()


# -- threads


def test_a_thread_tells_who_holds_it() -> None:
    held = Thread(1, 3, "run", 1_767_225_600_000_001, "interrupt")
    assert held.lease == Lease("run", 3, NOW + timedelta(microseconds=1), "interrupt")


@pytest.mark.parametrize("free", [Thread(1, 3, None, None, None), Thread(1, 3, "run", None, None)])
def test_a_thread_that_nobody_holds_has_no_lease(free: Thread) -> None:
    assert free.lease is None


def test_of_a_head_that_was_looked_up_something_may_be_known() -> None:
    assert Head(0, bytes(16), 0, 0).has_entries
