"""One file: who may read it, how writes become transactions, and what is left when something goes wrong."""

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
"""Seconds after which a test is given up. No test waits that long if it passes."""


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
        connection.execute("INSERT INTO cache VALUES ('', ?, (SELECT count(*) FROM cache), NULL)", (name,))
        then()
        return name

    return keep


def kept(database: SqliteDatabase) -> list[str]:
    """The names that were written, in their order."""
    with database.read() as connection:
        return [name for (name,) in connection.execute("SELECT input FROM cache ORDER BY value")]


def fail() -> None:
    raise ValueError("no luck")


def failure(promise: LightFuture[Any]) -> Exception | None:
    """What was raised instead of an answer."""
    try:
        promise.result(LONG)
    except Exception as error:
        return error
    return None


class Occupied:
    """While the block lasts, a job is under way in another thread, so that others wait."""

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


def test_a_job_is_done_in_a_transaction_and_answers(database: SqliteDatabase) -> None:
    assert database.write(keeping("a")) == "a"
    assert database.submit(keeping("b")).result(LONG) == "b"
    assert kept(database) == ["a", "b"]


def test_a_job_that_fails_keeps_nothing(database: SqliteDatabase) -> None:
    with pytest.raises(ValueError, match="no luck"):
        database.write(keeping("a", fail))
    with pytest.raises(ValueError, match="no luck"):
        database.submit(keeping("b", fail)).result(LONG)
    database.write(keeping("c"))
    assert kept(database) == ["c"]


def test_jobs_that_wait_share_a_transaction(database: SqliteDatabase) -> None:
    seen: list[tuple[int, int]] = []

    def look(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO cache VALUES ('', ?, '', NULL)", (str(len(seen)),))
        (inside,) = connection.execute("SELECT count(*) FROM cache").fetchone()
        seen.append((inside, len(kept(database))))

    with Occupied(database):
        promises = [database.submit(look) for _ in range(5)]
    assert all(promise.wait(LONG) for promise in promises)
    assert seen == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]
    assert len(kept(database)) == 5


def test_a_job_that_fails_in_a_group_fails_alone(database: SqliteDatabase) -> None:
    with Occupied(database):
        promises = [database.submit(keeping(str(n), fail if n % 3 == 1 else lambda: None)) for n in range(9)]
    outcomes = [failure(promise) for promise in promises]
    assert [n for n, error in enumerate(outcomes) if error is not None] == [1, 4, 7]
    assert kept(database) == ["0", "2", "3", "5", "6", "8"]


def test_a_job_that_fails_before_it_writes_costs_the_others_nothing(database: SqliteDatabase) -> None:
    done: list[str] = []
    with Occupied(database):
        refused = database.submit(lambda connection: fail())
        promise = database.submit(keeping("a", lambda: done.append("a")))
    assert isinstance(failure(refused), ValueError)
    assert promise.result(LONG) == "a"
    assert done == ["a"]


def test_what_sqlite_refuses_in_a_job_is_told_as_ours(database: SqliteDatabase) -> None:
    wrong: list[Job[Any]] = [
        lambda connection: connection.execute("SELECT * FROM nowhere"),
        lambda connection: connection.execute("INSERT INTO cache VALUES ('', '', NULL, NULL)"),
    ]
    for job in wrong:
        with pytest.raises(StorageError):
            database.write(job)
        with pytest.raises(StorageError):
            database.submit(job).result(LONG)


def test_jobs_are_done_in_the_order_in_which_they_were_handed_over(database: SqliteDatabase) -> None:
    names = [f"{n:04}" for n in range(3 * MAX_GROUP_SIZE)]
    with Occupied(database):
        promises = [database.submit(keeping(name)) for name in names]
    assert [promise.result(LONG) for promise in promises] == names
    assert kept(database) == names


def test_a_plain_write_comes_after_what_was_handed_over_before(database: SqliteDatabase) -> None:
    for n in range(0, 20, 2):
        database.submit(keeping(f"{n:02}"))
        database.write(keeping(f"{n + 1:02}"))
    assert kept(database) == [f"{n:02}" for n in range(20)]


def test_many_threads_may_write_and_read_at_once(database: SqliteDatabase) -> None:
    together, failed = threading.Barrier(8), list[BaseException]()

    def work(number: int) -> None:
        together.wait(LONG)
        try:
            for n in range(5):
                database.write(keeping(f"{number}/{n}"))
                assert f"{number}/{n}" in kept(database)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert failed == []
    assert len(kept(database)) == 40


def test_who_hands_over_does_not_wait_for_who_writes(database: SqliteDatabase) -> None:
    with Occupied(database):
        promise = database.submit(keeping("a"))
        assert not promise.done()
    assert promise.result(LONG) == "a"


def test_a_wait_that_is_given_up_ends_neither_the_write_nor_the_writer(database: SqliteDatabase) -> None:
    async def main() -> None:
        with Occupied(database):
            waiting = asyncio.ensure_future(await_future(database.submit(keeping("a"))))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.01)
        assert await await_future(database.submit(keeping("b"))) == "b"

    asyncio.run(asyncio.wait_for(main(), LONG))
    assert kept(database) == ["a", "b"]


# -- reading


def test_a_reader_sees_one_state_and_does_not_wait_for_a_writer(database: SqliteDatabase) -> None:
    database.write(keeping("a"))
    count = "SELECT count(*) FROM cache"
    with database.read() as connection:
        assert connection.execute(count).fetchone() == (1,)
        database.write(keeping("b"))
        assert connection.execute(count).fetchone() == (1,)
    with Occupied(database):
        assert kept(database) == ["a", "b"]


def test_a_reader_in_a_reader_has_a_connection_of_its_own(database: SqliteDatabase) -> None:
    with database.read() as outer:
        outer.execute("SELECT count(*) FROM cache").fetchone()
        database.write(keeping("a"))
        with database.read() as inner:
            assert inner is not outer
            assert inner.execute("SELECT count(*) FROM cache").fetchone() == (1,)
        assert outer.execute("SELECT count(*) FROM cache").fetchone() == (0,)


def test_connections_of_readers_are_used_again_even_after_an_error(database: SqliteDatabase) -> None:
    seen: list[sqlite3.Connection] = []
    for _ in range(3):
        with pytest.raises(StorageUnavailable, match="no such table"):
            read_nowhere(database, seen)
    assert len({id(connection) for connection in seen}) == 1


def read_nowhere(database: SqliteDatabase, seen: list[sqlite3.Connection]) -> None:
    with database.read() as connection:
        seen.append(connection)
        connection.execute("SELECT * FROM nowhere")


def test_what_is_no_fault_of_storage_passes_through_a_reader(database: SqliteDatabase) -> None:
    with pytest.raises(ValueError, match="no luck"), database.read():
        fail()


# -- closing


@pytest.mark.parametrize("has_writer", [False, True])
def test_what_waits_is_written_before_a_database_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_writer: bool
) -> None:
    database = opened(tmp_path / "runs.db")
    if not has_writer:  # as if that thread always came too late
        monkeypatch.setattr(database, "_start_writer", lambda: None)
    names = [f"{n:04}" for n in range(3 * MAX_GROUP_SIZE)]
    with Occupied(database):
        promises = [database.submit(keeping(name)) for name in names]
        closer = threading.Thread(target=database.close)
        closer.start()
    closer.join(LONG)
    assert [promise.result(LONG) for promise in promises] == names
    with SqliteDatabase(database.path) as again:
        assert kept(again) == names


@pytest.mark.parametrize("used", [False, True])
def test_after_closing_everything_is_refused(tmp_path: Path, used: bool) -> None:
    database = opened(tmp_path / "runs.db")
    if used:
        database.submit(keeping("a")).result(LONG)
        assert kept(database) == ["a"]
    database.close()
    database.close()
    with pytest.raises(StorageUnavailable, match="it was closed"):
        database.write(keeping("b"))
    with pytest.raises(StorageUnavailable, match="it was closed"):
        database.submit(keeping("b")).result(LONG)
    with pytest.raises(StorageUnavailable, match="it was closed"):
        kept(database)


def test_whoever_hands_over_while_a_database_is_closed_gets_an_answer(tmp_path: Path) -> None:
    for n in range(20):
        database, promises = opened(tmp_path / f"{n}.db"), list[Any]()
        closer = threading.Thread(target=database.close)
        for number in range(50):
            if number == n:
                closer.start()
            promises.append(database.submit(keeping(str(number))))
        closer.join(LONG)
        done = [failure(promise) is None for promise in promises]
        assert done == sorted(done, reverse=True)  # first those that were in time


def test_a_reader_may_end_after_closing(tmp_path: Path) -> None:
    database = opened(tmp_path / "runs.db")
    with database.read() as connection:
        connection.execute("SELECT count(*) FROM cache").fetchone()
        database.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_closed_database_is_one_file(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as database:
        database.submit(keeping("a")).result(LONG)
        kept(database)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_a_database_is_named_by_a_path_or_a_url(tmp_path: Path) -> None:
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


def test_several_processes_may_write_one_file(database: SqliteDatabase) -> None:
    command = [sys.executable, "-c", WRITER, str(database.path)]
    writers = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("a", "b")]
    own = [database.write(keeping(f"own{n}")) for n in range(25)]
    assert [writer.communicate(timeout=600)[1] for writer in writers] == ["", ""]
    with database.read() as connection:
        rows = connection.execute("SELECT node, input FROM cache ORDER BY value").fetchall()
    names = [f"{n:02}" for n in range(25)]
    assert [[name for node, name in rows if node == wanted] for wanted in ("", "a", "b")] == [own, names, names]


FORKS = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
"""Later versions of Python warn of forks beside threads. Users make them all the same."""


def in_child(function: Callable[[], None]) -> None:
    """Do something in a process that was forked from this one; fails if it fails or hangs."""
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join(LONG)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode == 0


@FORKS
def test_a_fork_has_connections_of_its_own(database: SqliteDatabase) -> None:
    database.submit(keeping("a")).result(LONG)
    kept(database)

    def child() -> None:
        assert kept(database) == ["a"]
        database.write(keeping("b"))
        database.submit(keeping("c")).result(LONG)
        database.close()

    in_child(child)
    database.write(keeping("d"))
    assert database.submit(keeping("e")).result(LONG) == "e"
    assert kept(database) == ["a", "b", "c", "d", "e"]


@FORKS
@pytest.mark.parametrize("used", ["write", "submit", "close"])
def test_a_fork_neither_waits_for_who_wrote_in_its_parent_nor_writes_for_it(
    database: SqliteDatabase, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "PATIENCE", 0.05)  # the parent waits in vain for the end of what its own thread holds

    def child() -> None:
        if used == "write":
            database.write(keeping("child"))
        elif used == "submit":
            database.submit(keeping("child")).result(LONG)
        database.close()

    with database._lock:  # as if another thread wrote
        waiting = database.submit(keeping("parent"))
        in_child(child)
    assert waiting.result(LONG) == "parent"
    assert kept(database) == (["parent"] if used == "close" else ["child", "parent"])
