"""Signal handlers that raise on the main thread at any position of a write: other writers are not affected."""

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


def open_database(path: Path) -> SqliteDatabase:
    """Return a database that has a table for the tests."""
    database = SqliteDatabase(path)
    SqliteCache(database)
    return database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with open_database(tmp_path / "runs.db") as database:
        yield database


def insert_job(name: str, then: Callable[[], Any] = lambda: None) -> Job[str]:
    """Return a job that writes a name and then calls a function."""

    def insert(connection: sqlite3.Connection) -> str:
        position = connection.execute("SELECT count(*) FROM cache").fetchone()[0]
        connection.execute("INSERT INTO cache VALUES (?, ?, ?, NULL)", (str(position), name, position))
        then()
        return name

    return insert


def names_of(database: SqliteDatabase) -> list[str]:
    with database.read() as connection:
        return [name for (name,) in connection.execute("SELECT input FROM cache ORDER BY value")]


def fail() -> None:
    raise ValueError("no luck")


def queue_jobs(database: SqliteDatabase, *names: str) -> list[LightFuture[str]]:
    """Queue jobs of other callers, as if the writer thread had not yet taken them."""
    promises = [QueuedWrite(insert_job(name)) for name in names]
    database._queue.extend(promises)
    return list(promises)


def check_usable(database: SqliteDatabase, name: str) -> None:
    """Check that other processes can write, and each thread of this one."""
    with closing(sqlite3.connect(database.path, timeout=LONG, isolation_level=None)) as other_process:
        other_process.execute("BEGIN IMMEDIATE")
        other_process.execute("ROLLBACK")
    assert on_another_thread(lambda: database.write(insert_job(f"{name}: other"))) == f"{name}: other"
    assert database.write(insert_job(f"{name}: own")) == f"{name}: own"
    assert database.submit(insert_job(f"{name}: later")).result(LONG) == f"{name}: later"
    assert names_of(database)[-3:] == [f"{name}: other", f"{name}: own", f"{name}: later"]


# -- the main thread


def test_an_interrupted_write_leaves_the_database_usable(database: SqliteDatabase) -> None:
    for number in interruptions(lambda: database.write(insert_job("a"))):
        check_usable(database, str(number))


def test_an_interruption_of_a_failing_write_leaves_the_database_usable(database: SqliteDatabase) -> None:
    def write() -> None:
        with suppress(ValueError):
            database.write(insert_job("a", fail))

    for number in interruptions(write):
        assert "a" not in names_of(database)
        check_usable(database, str(number))


def test_an_interruption_does_not_lose_jobs_of_other_callers(database: SqliteDatabase) -> None:
    pending: list[LightFuture[str]] = []

    def wait() -> None:
        pending[:] = queue_jobs(database, "x", "y", "z")

    for number in interruptions(lambda: database.write(insert_job("a")), wait):
        on_another_thread(lambda: database.write(insert_job("next")))
        assert [other.result(LONG) for other in pending] == ["x", "y", "z"]
        check_usable(database, str(number))


def test_the_main_thread_does_not_run_jobs_of_other_callers(database: SqliteDatabase) -> None:
    threads: list[threading.Thread] = []
    job = QueuedWrite(lambda _: threads.append(threading.current_thread()))
    job.add_done_callback(lambda _: threads.append(threading.current_thread()))
    database._queue.append(job)
    database.write(insert_job("a"))
    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_an_interruption_of_submit_leaves_the_database_usable(tmp_path: Path) -> None:
    with open_database(tmp_path / "runs.db") as database:
        for number in interruptions(lambda: database.submit(insert_job("a")).result(LONG)):
            check_usable(database, str(number))


def test_the_writer_thread_starts_despite_an_interruption(tmp_path: Path) -> None:
    databases: list[SqliteDatabase] = []

    def open_another() -> None:
        databases.append(open_database(tmp_path / f"{len(databases)}.db"))

    for number in interruptions(lambda: databases[-1].submit(insert_job("a")).result(LONG), open_another):
        check_usable(databases[-1], str(number))
    for database in databases:
        database.close()


def test_an_interruption_leaves_no_unwritten_rows_in_the_head_cache(scribe: Any) -> None:
    numbers = itertools.count()

    def commit() -> None:  # to a new thread, because it is unknown whether the previous commit was written
        commit = scribe.commit({"n": 1}, line=BranchKey(f"thread {next(numbers)}"))
        scribe.database.write(scribe.writer.commit_job(commit, ()))

    def unwritten(connection: sqlite3.Connection) -> list[Any]:
        cache = scribe.database.head_cache
        row_ids = {row_id for (row_id,) in connection.execute("SELECT place FROM records")}
        threads = {thread for (thread,) in connection.execute("SELECT id FROM threads")}
        return [entry for entry in cache.heads.values() if entry.row_id not in row_ids] + [
            entry for entry in cache.threads.values() if entry.id not in threads
        ]

    for _ in interruptions(commit):
        assert scribe.database.write(unwritten) == []


def test_vacuum_can_be_interrupted(database: SqliteDatabase) -> None:
    for number in interruptions(database.vacuum):
        check_usable(database, str(number))


def test_an_interrupted_close_still_finishes_the_pending_jobs(tmp_path: Path) -> None:
    databases, others = list[SqliteDatabase](), list[LightFuture[str]]()

    def open_another() -> None:
        databases.append(open_database(tmp_path / f"{len(databases)}.db"))
        others[:] = queue_jobs(databases[-1], "x", "y")

    for number in interruptions(lambda: databases[-1].close(), open_another):
        on_another_thread(databases[-1].close)
        assert [pending.result(LONG) for pending in others] == ["x", "y"]
        with SqliteDatabase(databases[-1].path) as reopened:
            check_usable(reopened, str(number))


def test_a_job_submitted_after_close_is_refused_and_others_stay_pending(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    database.close()
    (other,) = queue_jobs(database, "x")
    assert isinstance(error_of(database.submit(insert_job("a"))), StorageUnavailable)
    assert not other.done()


# -- exceptions that end another thread


class BrokenConnection:
    """A connection that raises Interrupted once, after or instead of a statement."""

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


def error_of(promise: LightFuture[Any]) -> BaseException | None:
    try:
        promise.result(LONG)
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "PRAGMA data_version", "COMMIT"])
def test_an_exception_that_ends_a_writing_thread_is_not_raised_in_other_callers(
    database: SqliteDatabase, statement: str, is_done: bool
) -> None:
    others = queue_jobs(database, "x", "y")
    database._connection = broken = BrokenConnection(database._connection, statement, is_done=is_done)  # type: ignore[assignment]
    error = on_another_thread(lambda: error_of_write(database))
    database._connection = broken.connection
    assert isinstance(error, Interrupted)
    for pending in others:
        assert isinstance(error_of(pending), StorageUnavailable)
    check_usable(database, "after")


def error_of_write(database: SqliteDatabase) -> BaseException | None:
    try:
        database.write(insert_job("a"))
    except BaseException as error:
        return error
    return None
