"""What a backup does not have is found, whatever it is and whether or not it tells a time."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.cache import CacheKey
from statewright.checkpoint import BranchKey, LeaseRequest, Pending, PrunePolicy
from statewright.cli.db.files import copy_database
from statewright.cli.db.newer_work import AHEAD, find_newer_work
from statewright.cli.threads.transfer import transfer_thread
from statewright.futures import resolve
from statewright.ids import task_id
from statewright.runs import RECORDS, Delete, Insert, Record, Schedule, Update, Worker, columns_of, where
from statewright.storage.sqlite import SqliteCache, SqliteLedger, SqliteSaver, SqliteStore
from statewright.testing.conformance.ledger.samples import full_record, minimal_record

RECORDED = Path(__file__).parents[3] / "durability/recorded"
WORK = [kind for kind in RECORDS if kind is not Worker]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def count(state: dict[str, int]) -> dict[str, int]:
    return {"n": state.get("n", 0) + 1}


def app(saver: Any) -> Any:
    return StateGraph({"n": None}).add_node("count", count).add_edge(START, "count").compile(saver)


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    """A database that is at work, of which there is a backup."""
    with SqliteSaver(tmp_path / "runs.db", key=b"k" * 32) as saver:
        app(saver).invoke({}, thread_id="t")
        SqliteStore(saver.database).put(("a",), "b", {"c": 1})
        SqliteLedger(saver.database).write([Insert(full_record(kind, "1")) for kind in WORK])
        back_up(saver)
        yield saver


def back_up(saver: SqliteSaver, name: str = "backup.db") -> Path:
    target = saver.database.path.with_name(name)
    copy_database(saver.database.path, target)
    return target


def found(saver: SqliteSaver) -> str | None:
    return find_newer_work(saver.database.path, saver.database.path.with_name("backup.db"))


def test_what_is_as_the_backup_holds_nothing_newer(saver: SqliteSaver) -> None:
    assert found(saver) is None


# -- threads


def advance(saver: SqliteSaver) -> None:
    """Commit as a run does whose hold is good for long still, and that is killed then."""
    app(saver).update_state({"thread_id": "t"}, {"n": 5}, as_node="count")


def land(saver: SqliteSaver) -> None:
    """Save a result of a superstep that does not end."""
    saved = resolve(saver.load("t"))
    assert saved is not None
    resolve(saver.save_results(BranchKey("t"), saved.id, Pending(errors={task_id("t", 1): "no luck"})))


def fork(saver: SqliteSaver) -> None:
    app(saver).fork({"thread_id": "t"}, branch="other")


def take(saver: SqliteSaver) -> None:
    now = datetime.now(UTC)
    resolve(saver.renew("t", LeaseRequest("run", now, now + timedelta(minutes=1), claims=True)))


def copy(saver: SqliteSaver) -> None:
    resolve(saver.copy_thread("t", "copy"))


def import_it(saver: SqliteSaver) -> None:
    """Take in a thread that is older than all that there is."""
    path = saver.database.path.with_name("other.db")
    with SqliteSaver(path) as other:
        app(other).invoke({}, thread_id="old")
        other.database.write(lambda one: one.execute("UPDATE threads SET changed = 0"))
        transfer_thread(other, "old", saver, "old")


def give_to_workspace(saver: SqliteSaver) -> None:
    """Carry a thread to another workspace, where its id is the same."""
    transfer_thread(saver, "t", saver.for_workspace("w"), "t")


def put(saver: SqliteSaver) -> None:
    SqliteStore(saver.database).put(("a",), "b", {"c": 2})


@pytest.mark.parametrize("write", [advance, land, fork, take, copy, import_it, give_to_workspace, put])
def test_what_is_written_to_threads_and_stores_is_found(
    saver: SqliteSaver, write: Callable[[SqliteSaver], None]
) -> None:
    write(saver)
    assert "not in the backup" in str(found(saver))


def test_an_old_thread_is_found_beside_a_newer_backup(saver: SqliteSaver) -> None:
    app(saver).invoke({}, thread_id="t")
    back_up(saver)
    copy_database(saver.database.path, older := saver.database.path.with_name("older.db"))
    with SqliteSaver(older, key=b"k" * 32) as other:
        resolve(other.copy_thread("t", "copy"))
        resolve(other.delete_thread("t"))
    assert find_newer_work(older, saver.database.path.with_name("backup.db")) == (
        "a thread 'copy' that is not in the backup"
    )


# -- records


@pytest.mark.parametrize("kind", WORK, ids=lambda kind: kind.TABLE)
@pytest.mark.parametrize("make", [full_record, minimal_record])
def test_a_record_of_any_class_is_found(
    saver: SqliteSaver, kind: type[Record], make: Callable[[type[Record], str], Record]
) -> None:
    other = {name: "another" for group in kind.UNIQUE for name in group}
    for at in (LONG_AGO, datetime.now(UTC)):
        times = {one.name: at for one in columns_of(kind) if one.kind == "instant"}
        record = replace(make(kind, "2"), **other, **times)
        SqliteLedger(saver.database).write([Insert(record)])
        assert "not in the backup" in str(found(saver))
        SqliteLedger(saver.database).write([Delete(kind, where(id=record.id))])
    assert found(saver) is None


def test_what_changed_without_a_time_is_found(saver: SqliteSaver) -> None:
    SqliteLedger(saver.database).write([Update(Schedule, full_record(Schedule, "1").id, {"paused": False})])
    assert found(saver) == "rows of schedules that are not in the backup, which ends at the same time"


def test_each_instant_tells_of_the_past_or_is_named() -> None:
    past = {"created_at", "updated_at", "started_at", "completed_at", "failed_at", "cancelled_at", "decided_at"}
    past |= {"delivered_at", "revoked_at"}
    instants = {one.name for kind in RECORDS for one in columns_of(kind) if one.kind == "instant"}
    assert instants - AHEAD == past
    assert instants >= AHEAD


# -- what is no work


def prune(saver: SqliteSaver) -> None:
    resolve(saver.prune(PrunePolicy(keep_last=1)))


def forget(saver: SqliteSaver) -> None:
    resolve(saver.delete_thread("t"))


def vacuum(saver: SqliteSaver) -> None:
    saver.database.vacuum()


def cache(saver: SqliteSaver) -> None:
    SqliteCache(saver.database).put(CacheKey("node", "input"), 1)


def work(saver: SqliteSaver) -> None:
    now = datetime.now(UTC)
    SqliteLedger(saver.database).write([Insert(replace(full_record(Worker, "1"), started_at=now, until=now))])


@pytest.mark.parametrize("write", [prune, forget, vacuum, cache, work])
def test_what_is_put_in_order_is_no_work(saver: SqliteSaver, write: Callable[[SqliteSaver], None]) -> None:
    write(saver)
    assert found(saver) is None


def test_an_older_state_of_a_database_is_replaced(saver: SqliteSaver) -> None:
    older = back_up(saver, "older.db")
    ledger = SqliteLedger(saver.database)
    ledger.write([Delete(kind, where(id=full_record(kind, "1").id)) for kind in WORK])
    app(saver).invoke({}, thread_id="t")
    back_up(saver)
    assert find_newer_work(older, saver.database.path.with_name("backup.db")) is None


# -- older formats


@pytest.mark.parametrize("name", ["format1.db", "format1_service.db.gz"])
def test_a_database_of_an_older_format_is_compared(tmp_path: Path, name: str) -> None:
    content = (RECORDED / name).read_bytes()
    path, backup = tmp_path / "old.db", tmp_path / "backup.db"
    path.write_bytes(gzip.decompress(content) if name.endswith(".gz") else content)
    copy_database(path, backup)
    SqliteSaver(backup).close()  # which brings it to the format of today
    assert find_newer_work(path, backup) is None
    with closing(sqlite3.connect(backup)) as connection, connection:
        (thread,) = connection.execute("SELECT thread_id FROM threads ORDER BY id DESC").fetchone()
        connection.execute("DELETE FROM threads WHERE thread_id = ?", (thread,))
    assert find_newer_work(path, backup) == f"a thread {thread!r} that is not in the backup"
