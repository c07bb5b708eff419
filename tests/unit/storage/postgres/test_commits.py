"""Commits: how many round trips to the server they need, and what is left of completed calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.postgres_server import empty_database, execute, new_schema_url, shared_url

from statewright.checkpoint import BranchKey, LeaseRequest, Pending
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.runs import Advance, Insert, Run, RunStatus
from statewright.storage.checkpoints import segments
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver
from statewright.storage.postgres import compaction as compaction_module
from statewright.storage.postgres.connection import Session
from statewright.testing.conformance.checkpointer.samples import commit_after, make_log
from statewright.testing.conformance.ledger.samples import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAIN = BranchKey("thread")
CALL = MAIN._replace(namespace="a:1")


@pytest.fixture
def database() -> PostgresDatabase:
    return empty_database()


@dataclass
class Trips:
    """Counts the round trips of all sessions."""

    count: int = 0

    def of(self, action: Callable[[], Any]) -> int:
        """Return the number of round trips of a write."""
        self.count = 0
        resolve(action())
        return self.count


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trips]:
    trips = Trips()
    send = Session._send_queue

    def count_and_send(session: Session, *, commits: bool = False) -> None:
        trips.count += 1
        send(session, commits=commits)

    monkeypatch.setattr(Session, "_send_queue", count_and_send)
    return trips


def write_call(saver: PostgresSaver, count: int = 2) -> CheckpointId:
    """Commit a checkpoint of the thread, and some in a call of a subgraph. Return the id of the first."""
    head = resolve(saver.commit(commit_after(None, run_id="run", created_at=NOW)))
    parent: CheckpointId | None = None
    for number in range(count):
        log = make_log("run", f"n{number}")
        parent = resolve(
            saver.commit(commit_after(parent, branch_key=CALL, n=number, run_id="run", created_at=NOW, log=log))
        )
    return head


def rows_of_calls() -> str:
    tables = ("records", "segments", "pending")
    counts = [
        f"(SELECT count(*) FROM {table} JOIN lines ON lines.id = {table}.place >> 28 WHERE namespace <> '')"
        for table in tables
    ]
    return f"SELECT {' + '.join(counts)} + (SELECT count(*) FROM lines WHERE namespace <> '')"


def count_rows_of_calls(database: PostgresDatabase) -> int:
    return database.query(lambda connection: connection.execute(rows_of_calls()).fetchone()[0])


def test_a_commit_is_one_round_trip(database: PostgresDatabase, trips: Trips) -> None:
    saver, ledger = PostgresSaver(database), PostgresLedger(database)
    head = resolve(saver.commit(commit_after(None)))
    ledger.write([Insert(run("r"))])
    hold = LeaseRequest("owner", NOW, NOW.replace(minute=1), claims=True)
    commit = commit_after(head, hold=hold, log=make_log("run"), pending=Pending(paused=True))
    advance = ledger.job([Advance("r", NOW, {"status": RunStatus.RUNNING})])
    assert trips.of(lambda: saver.commit(commit, also=[advance])) == 1
    assert trips.of(lambda: saver.save_results(MAIN, commit.checkpoint.id, Pending(), log=make_log("run"))) == 1
    assert trips.of(lambda: saver.renew("thread", hold)) == 2  # it returns the lease
    stored = resolve(ledger.get(Run, "r"))
    assert stored is not None
    assert stored.status == RunStatus.RUNNING


def test_a_commit_that_completes_a_call_is_one_round_trip(database: PostgresDatabase, trips: Trips) -> None:
    saver = PostgresSaver(database)
    head = write_call(saver)
    events = list(resolve(saver.events("thread", run_id="run")))
    assert len(events) == 2
    assert count_rows_of_calls(database) > 0
    assert trips.of(lambda: saver.commit(commit_after(head, dropped_namespaces=("a:1",)))) == 1
    assert count_rows_of_calls(database) == 0
    assert list(resolve(saver.events("thread", run_id="run"))) == events


@pytest.mark.parametrize("count", [2, 100], ids=["with a fork", "compacted"])
def test_what_must_be_kept_of_a_call_is_read_before_it_is_deleted(database: PostgresDatabase, count: int) -> None:
    saver = PostgresSaver(database)
    head = write_call(saver, count)
    fork = CALL._replace(branch="b")
    if count == 2:
        first = resolve(saver.history("thread", namespace="a:1"))[-1].id
        resolve(saver.commit(commit_after(first, branch_key=fork, n=7, expected=None)))
    events = list(resolve(saver.events("thread", run_id="run")))
    resolve(saver.commit(commit_after(head, dropped_namespaces=("a:1",))))
    assert resolve(saver.load("thread", namespace="a:1")) is None
    assert list(resolve(saver.events("thread", run_id="run"))) == events
    remaining = resolve(saver.load("thread", namespace="a:1", branch="b"))
    assert (remaining is not None) == (count == 2)


# -- compaction


def test_a_compaction_that_fails_is_reported_and_not_attempted_after_each_commit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(segments, "LONGEST", 3)
    for module in (segments, compaction_module):
        monkeypatch.setattr(module, "RECENT", 5)
    caplog.set_level(logging.WARNING, "statewright.storage")
    failures: list[int] = []
    with PostgresDatabase(new_schema_url("compacted")) as database:
        execute(
            shared_url(),
            """CREATE FUNCTION compacted.fill() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full';
            END $$""",
            "CREATE TRIGGER fill BEFORE INSERT ON compacted.segments EXECUTE FUNCTION compacted.fill()",
        )
        head = None
        for n in range(1, 21):
            if n == 12:
                execute(shared_url(), "DROP TRIGGER fill ON compacted.segments")
            head = resolve(PostgresSaver(database).commit(commit_after(head)))  # each run of a service has its own
            database.write(lambda connection: None)  # after the compaction, which was queued before
            failures += [n] * len(caplog.records)
            caplog.clear()
        assert failures == [5, 10]
        assert execute(shared_url(), "SELECT count(*) FROM compacted.segments")[0][0] > 0
        assert len(resolve(PostgresSaver(database).history("thread"))) == 20
