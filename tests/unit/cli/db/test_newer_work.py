"""Work that a backup lacks is detected, with and without times."""

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
from statewright.cli.db.files import copy_database_file
from statewright.cli.db.newer_work import FUTURE, find_newer_work
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
    """A database in use, with a backup."""
    with SqliteSaver(tmp_path / "runs.db", key=b"k" * 32) as saver:
        app(saver).invoke({}, thread_id="t")
        SqliteStore(saver.database).put(("a",), "b", {"c": 1})
        SqliteLedger(saver.database).write([Insert(full_record(kind, "1")) for kind in WORK])
        back_up(saver)
        yield saver


def back_up(saver: SqliteSaver, name: str = "backup.db") -> Path:
    target = saver.database.path.with_name(name)
    copy_database_file(saver.database.path, target)
    return target


def newer_work(saver: SqliteSaver) -> str | None:
    return find_newer_work(saver.database.path, saver.database.path.with_name("backup.db"))


def test_an_unchanged_database_has_no_newer_work(saver: SqliteSaver) -> None:
    assert newer_work(saver) is None


# -- threads


def advance(saver: SqliteSaver) -> None:
    """Commit like a run that is killed while its lease is valid for a long time."""
    app(saver).update_state({"thread_id": "t"}, {"n": 5}, as_node="count")


def save_result(saver: SqliteSaver) -> None:
    """Save a result of an unfinished superstep."""
    saved = resolve(saver.load("t"))
    assert saved is not None
    resolve(saver.save_results(BranchKey("t"), saved.id, Pending(errors={task_id("t", 1): "no luck"})))


def fork(saver: SqliteSaver) -> None:
    app(saver).fork({"thread_id": "t"}, branch="other")


def claim(saver: SqliteSaver) -> None:
    now = datetime.now(UTC)
    resolve(saver.renew("t", LeaseRequest("run", now, now + timedelta(minutes=1), claims=True)))


def copy(saver: SqliteSaver) -> None:
    resolve(saver.copy_thread("t", "copy"))


def import_old_thread(saver: SqliteSaver) -> None:
    """Import a thread that is older than everything else."""
    path = saver.database.path.with_name("source.db")
    with SqliteSaver(path) as source:
        app(source).invoke({}, thread_id="old")
        source.database.write(lambda connection: connection.execute("UPDATE threads SET changed = 0"))
        transfer_thread(source, "old", saver, "old")


def copy_to_workspace(saver: SqliteSaver) -> None:
    """Copy a thread to another workspace, with the same id."""
    transfer_thread(saver, "t", saver.for_workspace("w"), "t")


def put(saver: SqliteSaver) -> None:
    SqliteStore(saver.database).put(("a",), "b", {"c": 2})


@pytest.mark.parametrize("write", [advance, save_result, fork, claim, copy, import_old_thread, copy_to_workspace, put])
def test_changes_of_threads_and_stores_are_detected(saver: SqliteSaver, write: Callable[[SqliteSaver], None]) -> None:
    write(saver)
    assert "not in the backup" in str(newer_work(saver))


def test_an_old_thread_is_detected_despite_a_newer_backup(saver: SqliteSaver) -> None:
    app(saver).invoke({}, thread_id="t")
    back_up(saver)
    copy_database_file(saver.database.path, older := saver.database.path.with_name("older.db"))
    with SqliteSaver(older, key=b"k" * 32) as older_saver:
        resolve(older_saver.copy_thread("t", "copy"))
        resolve(older_saver.delete_thread("t"))
    assert find_newer_work(older, saver.database.path.with_name("backup.db")) == (
        "a thread 'copy' that is not in the backup"
    )


# -- records


@pytest.mark.parametrize("kind", WORK, ids=lambda kind: kind.TABLE)
@pytest.mark.parametrize("make", [full_record, minimal_record])
@pytest.mark.sampled(4)
def test_records_of_all_classes_are_detected(
    saver: SqliteSaver, kind: type[Record], make: Callable[[type[Record], str], Record]
) -> None:
    unique = {name: "another" for group in kind.UNIQUE for name in group}
    for at in (LONG_AGO, datetime.now(UTC)):
        times = {field.name: at for field in columns_of(kind) if field.kind == "instant"}
        record = replace(make(kind, "2"), **unique, **times)
        SqliteLedger(saver.database).write([Insert(record)])
        assert "not in the backup" in str(newer_work(saver))
        SqliteLedger(saver.database).write([Delete(kind, where(id=record.id))])
    assert newer_work(saver) is None


def test_a_change_without_a_time_is_detected(saver: SqliteSaver) -> None:
    SqliteLedger(saver.database).write([Update(Schedule, full_record(Schedule, "1").id, {"paused": False})])
    assert newer_work(saver) == "rows of table schedules that are not in the backup, which ends at the same time"


def test_every_instant_is_in_the_past_or_listed_as_future() -> None:
    past = {"created_at", "updated_at", "started_at", "completed_at", "failed_at", "cancelled_at", "decided_at"}
    past |= {"delivered_at", "revoked_at", "filled_at", "used_at"}
    instants = {field.name for kind in RECORDS for field in columns_of(kind) if field.kind == "instant"}
    assert instants - FUTURE == past
    assert instants >= FUTURE


# -- changes that are not work


def prune(saver: SqliteSaver) -> None:
    resolve(saver.prune(PrunePolicy(keep_last=1)))


def delete(saver: SqliteSaver) -> None:
    resolve(saver.delete_thread("t"))


def vacuum(saver: SqliteSaver) -> None:
    saver.database.vacuum()


def cache(saver: SqliteSaver) -> None:
    SqliteCache(saver.database).put(CacheKey("node", "input"), 1)


def register_worker(saver: SqliteSaver) -> None:
    now = datetime.now(UTC)
    SqliteLedger(saver.database).write([Insert(replace(full_record(Worker, "1"), started_at=now, until=now))])


@pytest.mark.parametrize("write", [prune, delete, vacuum, cache, register_worker])
def test_housekeeping_is_not_work(saver: SqliteSaver, write: Callable[[SqliteSaver], None]) -> None:
    write(saver)
    assert newer_work(saver) is None


def test_an_older_state_of_a_database_has_no_newer_work(saver: SqliteSaver) -> None:
    older = back_up(saver, "older.db")
    ledger = SqliteLedger(saver.database)
    ledger.write([Delete(kind, where(id=full_record(kind, "1").id)) for kind in WORK])
    app(saver).invoke({}, thread_id="t")
    back_up(saver)
    assert find_newer_work(older, saver.database.path.with_name("backup.db")) is None


# -- older formats


@pytest.mark.parametrize("name", ["format1.db", "format1_service.db.gz"])
def test_a_database_in_an_older_format_is_compared(tmp_path: Path, name: str) -> None:
    content = (RECORDED / name).read_bytes()
    path, backup = tmp_path / "old.db", tmp_path / "backup.db"
    path.write_bytes(gzip.decompress(content) if name.endswith(".gz") else content)
    copy_database_file(path, backup)
    SqliteSaver(backup).close()  # upgrades it to the current format
    assert find_newer_work(path, backup) is None
    with closing(sqlite3.connect(backup)) as connection, connection:
        (thread,) = connection.execute("SELECT thread_id FROM threads ORDER BY id DESC").fetchone()
        connection.execute("DELETE FROM threads WHERE thread_id = ?", (thread,))
    assert find_newer_work(path, backup) == f"a thread {thread!r} that is not in the backup"
