"""A signal handler raises on the main thread, at any place of a write: others notice nothing, and all can go on."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.interruptions import LONG, Interrupted, interruptions, on_another_thread

from statewright.checkpoint import BranchKey
from statewright.errors import StorageUnavailable
from statewright.futures import LightFuture
from statewright.storage.database import Job
from statewright.storage.group_commit import QueuedWrite
from statewright.storage.sqlite import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase


def opened(path: Path) -> SqliteDatabase:
    """A database with a table to write to."""
    database = SqliteDatabase(path)
    SqliteCache(database)
    return database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with opened(tmp_path / "runs.db") as database:
        yield database


def keeping(name: str, then: Callable[[], Any] = lambda: None) -> Job[str]:
    """A job that writes a name, and then does something."""

    def keep(connection: sqlite3.Connection) -> str:
        place = connection.execute("SELECT count(*) FROM cache").fetchone()[0]
        connection.execute("INSERT INTO cache VALUES (?, ?, ?, NULL)", (str(place), name, place))
        then()
        return name

    return keep


def kept(database: SqliteDatabase) -> list[str]:
    with database.read() as connection:
        return [name for (name,) in connection.execute("SELECT input FROM cache ORDER BY value")]


def fail() -> None:
    raise ValueError("no luck")


def waiting(database: SqliteDatabase, *names: str) -> list[LightFuture[str]]:
    """What others wait for, as if the writer thread had not come to it yet."""
    promises = [QueuedWrite(keeping(name)) for name in names]
    database._queue.extend(promises)
    return list(promises)


def check_usable(database: SqliteDatabase, name: str) -> None:
    """Fail unless other processes can write, and this one from all its threads."""
    with closing(sqlite3.connect(database.path, timeout=LONG, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        stranger.execute("ROLLBACK")
    assert on_another_thread(lambda: database.write(keeping(f"{name}: other"))) == f"{name}: other"
    assert database.write(keeping(f"{name}: own")) == f"{name}: own"
    assert database.submit(keeping(f"{name}: later")).result(LONG) == f"{name}: later"
    assert kept(database)[-3:] == [f"{name}: other", f"{name}: own", f"{name}: later"]


# -- the main thread


def test_a_write_that_is_interrupted_leaves_nothing_behind(database: SqliteDatabase) -> None:
    for number in interruptions(lambda: database.write(keeping("a"))):
        check_usable(database, str(number))


def test_a_write_that_is_refused_and_interrupted_leaves_nothing_behind(database: SqliteDatabase) -> None:
    def write() -> None:
        with suppress(ValueError):
            database.write(keeping("a", fail))

    for number in interruptions(write):
        assert "a" not in kept(database)
        check_usable(database, str(number))


def test_jobs_of_others_are_done_however_the_main_thread_is_interrupted(database: SqliteDatabase) -> None:
    others: list[LightFuture[str]] = []

    def wait() -> None:
        others[:] = waiting(database, "x", "y", "z")

    for number in interruptions(lambda: database.write(keeping("a")), wait):
        on_another_thread(lambda: database.write(keeping("next")))
        assert [one.result(LONG) for one in others] == ["x", "y", "z"]
        check_usable(database, str(number))


def test_jobs_of_others_are_not_done_on_the_main_thread(database: SqliteDatabase) -> None:
    threads: list[threading.Thread] = []
    noted = QueuedWrite(lambda _: threads.append(threading.current_thread()))
    noted.add_done_callback(lambda _: threads.append(threading.current_thread()))
    database._queue.append(noted)
    database.write(keeping("a"))
    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_what_is_handed_over_is_done_however_the_main_thread_is_interrupted(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as database:
        for number in interruptions(lambda: database.submit(keeping("a")).result(LONG)):
            check_usable(database, str(number))


def test_the_writer_thread_is_there_however_its_start_is_interrupted(tmp_path: Path) -> None:
    databases: list[SqliteDatabase] = []

    def open_another() -> None:
        databases.append(opened(tmp_path / f"{len(databases)}.db"))

    for number in interruptions(lambda: databases[-1].submit(keeping("a")).result(LONG), open_another):
        check_usable(databases[-1], str(number))
    for one in databases:
        one.close()


def test_what_is_known_of_threads_is_what_was_written(scribe: Any) -> None:
    numbers = itertools.count()

    def commit() -> None:  # to a thread of its own: whether the one before was written cannot be told
        commit = scribe.commit({"n": 1}, line=BranchKey(f"thread {next(numbers)}"))
        scribe.database.write(scribe.writer.commit_job(commit, ()))

    def unwritten(connection: sqlite3.Connection) -> list[Any]:
        known = scribe.database.head_cache
        places = {place for (place,) in connection.execute("SELECT place FROM records")}
        threads = {thread for (thread,) in connection.execute("SELECT id FROM threads")}
        return [one for one in known.heads.values() if one.row_id not in places] + [
            one for one in known.threads.values() if one.id not in threads
        ]

    for _ in interruptions(commit):
        assert scribe.database.write(unwritten) == []


def test_a_database_that_is_being_written_anew_may_be_interrupted(database: SqliteDatabase) -> None:
    for number in interruptions(database.vacuum):
        check_usable(database, str(number))


def test_closing_tells_all_who_wait_however_it_is_interrupted(tmp_path: Path) -> None:
    databases, others = list[SqliteDatabase](), list[LightFuture[str]]()

    def open_another() -> None:
        databases.append(opened(tmp_path / f"{len(databases)}.db"))
        others[:] = waiting(databases[-1], "x", "y")

    for number in interruptions(lambda: databases[-1].close(), open_another):
        on_another_thread(databases[-1].close)
        assert [one.result(LONG) for one in others] == ["x", "y"]
        with SqliteDatabase(databases[-1].path) as again:
            check_usable(again, str(number))


def test_who_comes_too_late_is_told_so_and_leaves_the_others_alone(tmp_path: Path) -> None:
    database = opened(tmp_path / "runs.db")
    database.close()
    (other,) = waiting(database, "x")
    assert isinstance(failure(database.submit(keeping("a"))), StorageUnavailable)
    assert not other.done()


# -- another thread that is ended from outside


class Broken:
    """A connection that ends its thread once, after or instead of a statement."""

    def __init__(self, connection: sqlite3.Connection, statement: str, *, is_done: bool) -> None:
        self.connection = connection
        self._statement = statement
        self._is_done = is_done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement != self._statement:
            return self.connection.execute(statement, *values)
        self._statement = ""
        if self._is_done:
            self.connection.execute(statement)
        raise Interrupted(statement)


def failure(promise: LightFuture[Any]) -> BaseException | None:
    try:
        promise.result(LONG)
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "PRAGMA data_version", "COMMIT"])
def test_a_thread_that_is_ended_while_it_writes_keeps_its_error_for_itself(
    database: SqliteDatabase, statement: str, is_done: bool
) -> None:
    others = waiting(database, "x", "y")
    database._connection = broken = Broken(database._connection, statement, is_done=is_done)  # type: ignore[assignment]
    ended = on_another_thread(lambda: failure_of_write(database))
    database._connection = broken.connection
    assert isinstance(ended, Interrupted)
    for one in others:
        assert isinstance(failure(one), StorageUnavailable)
    check_usable(database, "after")


def failure_of_write(database: SqliteDatabase) -> BaseException | None:
    try:
        database.write(keeping("a"))
    except BaseException as error:
        return error
    return None
