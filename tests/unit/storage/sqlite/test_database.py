"""The SQLite database: jobs in shared transactions, readers, closing, several processes and forks."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright.async_futures import await_future
from statewright.errors import StorageError, StorageUnavailable
from statewright.futures import LightFuture
from statewright.storage.database import Job
from statewright.storage.group_commit import MAX_GROUP_SIZE
from statewright.storage.sqlite import SqliteCache, forks
from statewright.storage.sqlite.database import SqliteDatabase

LONG = 600.0
"""Seconds after which a test fails. A test that passes never waits that long."""


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
        connection.execute("INSERT INTO cache VALUES ('', ?, (SELECT count(*) FROM cache), NULL)", (name,))
        then()
        return name

    return insert


def names_of(database: SqliteDatabase) -> list[str]:
    """Return the names in the order of their writes."""
    with database.read() as connection:
        return [name for (name,) in connection.execute("SELECT input FROM cache ORDER BY value")]


def fail() -> None:
    raise ValueError("no luck")


def error_of(promise: LightFuture[Any]) -> Exception | None:
    """Return the exception of a job; None if it succeeds."""
    try:
        promise.result(LONG)
    except Exception as error:
        return error
    return None


class Occupied:
    """Runs a job in another thread during the block, so that other jobs wait."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=database.write, args=(self.hold,))

    def hold(self, connection: sqlite3.Connection) -> None:
        self.begun.set()
        assert self.ended.wait(LONG)

    def __enter__(self) -> None:
        self.thread.start()
        assert self.begun.wait(LONG)

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join(LONG)


# -- writing


def test_a_job_is_committed_and_its_result_returned(database: SqliteDatabase) -> None:
    assert database.write(insert_job("a")) == "a"
    assert database.submit(insert_job("b")).result(LONG) == "b"
    assert names_of(database) == ["a", "b"]


def test_a_failing_job_is_rolled_back(database: SqliteDatabase) -> None:
    with pytest.raises(ValueError, match="no luck"):
        database.write(insert_job("a", fail))
    with pytest.raises(ValueError, match="no luck"):
        database.submit(insert_job("b", fail)).result(LONG)
    database.write(insert_job("c"))
    assert names_of(database) == ["c"]


def test_waiting_jobs_share_a_transaction(database: SqliteDatabase) -> None:
    counts: list[tuple[int, int]] = []

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO cache VALUES ('', ?, '', NULL)", (str(len(counts)),))
        (inside,) = connection.execute("SELECT count(*) FROM cache").fetchone()
        counts.append((inside, len(names_of(database))))

    with Occupied(database):
        promises = [database.submit(insert) for _ in range(5)]
    assert all(promise.wait(LONG) for promise in promises)
    assert counts == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]
    assert len(names_of(database)) == 5


def test_a_failing_job_does_not_affect_the_others_of_its_group(database: SqliteDatabase) -> None:
    with Occupied(database):
        promises = [database.submit(insert_job(str(n), fail if n % 3 == 1 else lambda: None)) for n in range(9)]
    outcomes = [error_of(promise) for promise in promises]
    assert [n for n, error in enumerate(outcomes) if error is not None] == [1, 4, 7]
    assert names_of(database) == ["0", "2", "3", "5", "6", "8"]


def test_a_job_that_fails_before_a_write_does_not_repeat_the_others(database: SqliteDatabase) -> None:
    calls: list[str] = []
    with Occupied(database):
        refused = database.submit(lambda connection: fail())
        promise = database.submit(insert_job("a", lambda: calls.append("a")))
    assert isinstance(error_of(refused), ValueError)
    assert promise.result(LONG) == "a"
    assert calls == ["a"]


def test_errors_of_sqlite_in_a_job_become_storage_errors(database: SqliteDatabase) -> None:
    jobs: list[Job[Any]] = [
        lambda connection: connection.execute("SELECT * FROM nowhere"),
        lambda connection: connection.execute("INSERT INTO cache VALUES ('', '', NULL, NULL)"),
    ]
    for job in jobs:
        with pytest.raises(StorageError):
            database.write(job)
        with pytest.raises(StorageError):
            database.submit(job).result(LONG)


def test_jobs_run_in_the_order_of_their_submission(database: SqliteDatabase) -> None:
    names = [f"{n:04}" for n in range(3 * MAX_GROUP_SIZE)]
    with Occupied(database):
        promises = [database.submit(insert_job(name)) for name in names]
    assert [promise.result(LONG) for promise in promises] == names
    assert names_of(database) == names


def test_a_plain_write_runs_after_earlier_submitted_jobs(database: SqliteDatabase) -> None:
    for n in range(0, 20, 2):
        database.submit(insert_job(f"{n:02}"))
        database.write(insert_job(f"{n + 1:02}"))
    assert names_of(database) == [f"{n:02}" for n in range(20)]


def test_many_threads_can_write_and_read_concurrently(database: SqliteDatabase) -> None:
    barrier, errors = threading.Barrier(8), list[BaseException]()

    def work(number: int) -> None:
        barrier.wait(LONG)
        try:
            for n in range(5):
                database.write(insert_job(f"{number}/{n}"))
                assert f"{number}/{n}" in names_of(database)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert errors == []
    assert len(names_of(database)) == 40


def test_submit_does_not_wait_for_a_running_job(database: SqliteDatabase) -> None:
    with Occupied(database):
        promise = database.submit(insert_job("a"))
        assert not promise.done()
    assert promise.result(LONG) == "a"


def test_cancelling_a_wait_cancels_neither_the_job_nor_the_writer(database: SqliteDatabase) -> None:
    async def main() -> None:
        with Occupied(database):
            waiter = asyncio.ensure_future(await_future(database.submit(insert_job("a"))))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiter, 0.01)
        assert await await_future(database.submit(insert_job("b"))) == "b"

    asyncio.run(asyncio.wait_for(main(), LONG))
    assert names_of(database) == ["a", "b"]


# -- reading


def test_a_reader_sees_a_snapshot_and_does_not_wait_for_writers(database: SqliteDatabase) -> None:
    database.write(insert_job("a"))
    count = "SELECT count(*) FROM cache"
    with database.read() as connection:
        assert connection.execute(count).fetchone() == (1,)
        database.write(insert_job("b"))
        assert connection.execute(count).fetchone() == (1,)
    with Occupied(database):
        assert names_of(database) == ["a", "b"]


def test_nested_readers_have_separate_connections(database: SqliteDatabase) -> None:
    with database.read() as outer:
        outer.execute("SELECT count(*) FROM cache").fetchone()
        database.write(insert_job("a"))
        with database.read() as inner:
            assert inner is not outer
            assert inner.execute("SELECT count(*) FROM cache").fetchone() == (1,)
        assert outer.execute("SELECT count(*) FROM cache").fetchone() == (0,)


def test_the_connection_of_a_reader_is_reused_after_an_error(database: SqliteDatabase) -> None:
    connections: list[sqlite3.Connection] = []
    for _ in range(3):
        with pytest.raises(StorageUnavailable, match="no such table"):
            read_missing_table(database, connections)
    assert len({id(connection) for connection in connections}) == 1


def read_missing_table(database: SqliteDatabase, connections: list[sqlite3.Connection]) -> None:
    with database.read() as connection:
        connections.append(connection)
        connection.execute("SELECT * FROM nowhere")


def test_other_exceptions_pass_through_a_reader_unchanged(database: SqliteDatabase) -> None:
    with pytest.raises(ValueError, match="no luck"), database.read():
        fail()


# -- closing


@pytest.mark.parametrize("has_writer", [False, True])
def test_closing_writes_all_waiting_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_writer: bool) -> None:
    database = open_database(tmp_path / "runs.db")
    if not has_writer:  # as if that thread never started in time
        monkeypatch.setattr(database, "_start_writer", lambda: None)
    names = [f"{n:04}" for n in range(3 * MAX_GROUP_SIZE)]
    with Occupied(database):
        promises = [database.submit(insert_job(name)) for name in names]
        closer = threading.Thread(target=database.close)
        closer.start()
    closer.join(LONG)
    assert [promise.result(LONG) for promise in promises] == names
    with SqliteDatabase(database.path) as reopened:
        assert names_of(reopened) == names


@pytest.mark.parametrize("used", [False, True])
def test_a_closed_database_refuses_every_operation(tmp_path: Path, used: bool) -> None:
    database = open_database(tmp_path / "runs.db")
    if used:
        database.submit(insert_job("a")).result(LONG)
        assert names_of(database) == ["a"]
    database.close()
    database.close()
    with pytest.raises(StorageUnavailable, match="it was closed"):
        database.write(insert_job("b"))
    with pytest.raises(StorageUnavailable, match="it was closed"):
        database.submit(insert_job("b")).result(LONG)
    with pytest.raises(StorageUnavailable, match="it was closed"):
        names_of(database)


def test_each_job_submitted_during_close_is_written_or_refused(tmp_path: Path) -> None:
    for n in range(20):
        database, promises = open_database(tmp_path / f"{n}.db"), list[Any]()
        closer = threading.Thread(target=database.close)
        for number in range(50):
            if number == n:
                closer.start()
            promises.append(database.submit(insert_job(str(number))))
        closer.join(LONG)
        done = [error_of(promise) is None for promise in promises]
        assert done == sorted(done, reverse=True)  # the jobs that were submitted before the close come first


def test_a_reader_can_end_after_the_database_is_closed(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    with database.read() as connection:
        connection.execute("SELECT count(*) FROM cache").fetchone()
        database.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_closing_leaves_a_single_file(tmp_path: Path) -> None:
    with open_database(tmp_path / "runs.db") as database:
        database.submit(insert_job("a")).result(LONG)
        names_of(database)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_a_database_is_opened_by_path_or_url(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/runs.db", f"sqlite:///{tmp_path}/runs.db"):
        with SqliteDatabase.from_conn_string(name, key=bytes(32)) as database:
            assert database.path == tmp_path / "runs.db"
            assert database.encryptor.encrypts
            assert repr(database) == f"SqliteDatabase('{tmp_path}/runs.db')"


# -- several processes

WRITER = """
import sys
from statewright.storage.sqlite import forks
from statewright.storage.sqlite.database import SqliteDatabase
with SqliteDatabase(sys.argv[1]) as database:
    for n in range(25):
        database.write(lambda connection: connection.execute(
            "INSERT INTO cache VALUES (?, ?, (SELECT count(*) FROM cache), NULL)", (sys.argv[2], f"{n:02}")))
"""


def test_several_processes_can_write_to_one_file(database: SqliteDatabase) -> None:
    command = [sys.executable, "-c", WRITER, str(database.path)]
    writers = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("a", "b")]
    own = [database.write(insert_job(f"own{n}")) for n in range(25)]
    assert [writer.communicate(timeout=600)[1] for writer in writers] == ["", ""]
    with database.read() as connection:
        rows = connection.execute("SELECT node, input FROM cache ORDER BY value").fetchall()
    names = [f"{n:02}" for n in range(25)]
    assert [[name for node, name in rows if node == expected] for expected in ("", "a", "b")] == [own, names, names]


FORKS = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
"""Python 3.12 and later warn of forks in processes with threads."""


def in_child(function: Callable[[], None]) -> None:
    """Call a function in a forked process; fail if it fails or hangs."""
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join(LONG)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode == 0


@FORKS
def test_a_forked_process_opens_its_own_connections(database: SqliteDatabase) -> None:
    database.submit(insert_job("a")).result(LONG)
    names_of(database)

    def child() -> None:
        assert names_of(database) == ["a"]
        database.write(insert_job("b"))
        database.submit(insert_job("c")).result(LONG)
        database.close()

    in_child(child)
    database.write(insert_job("d"))
    assert database.submit(insert_job("e")).result(LONG) == "e"
    assert names_of(database) == ["a", "b", "c", "d", "e"]


@FORKS
@pytest.mark.parametrize("action", ["write", "submit", "close"])
def test_a_forked_process_does_not_wait_for_or_run_jobs_of_its_parent(
    database: SqliteDatabase, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "PATIENCE", 0.05)  # the parent waits in vain for a lock of its own thread

    def child() -> None:
        if action == "write":
            database.write(insert_job("child"))
        elif action == "submit":
            database.submit(insert_job("child")).result(LONG)
        database.close()

    with database._lock:  # as if another thread wrote
        pending = database.submit(insert_job("parent"))
        in_child(child)
    assert pending.result(LONG) == "parent"
    assert names_of(database) == (["parent"] if action == "close" else ["child", "parent"])
