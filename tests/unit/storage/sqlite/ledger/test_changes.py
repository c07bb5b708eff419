"""Changes of the ledger as jobs: early encoding, few statements, and atomic conflicts."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import CheckpointConflict, DuplicateRecord, RecordConflict
from statewright.runs import (
    Advance,
    Announce,
    Change,
    Condition,
    Insert,
    NewEvent,
    Run,
    RunLabel,
    StepRun,
    StepStatus,
    Update,
    Webhook,
    where,
)
from statewright.storage.sqlite import SqliteLedger, SqliteSaver
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import label, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def ledger(database: SqliteDatabase) -> SqliteLedger:
    return SqliteLedger(database)


def execute(ledger: SqliteLedger, changes: list[Change]) -> list[str]:
    """Return the SQL statements that a list of changes executes."""
    job, statements = ledger.job(changes), list[str]()

    def trace(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        try:
            job(connection)
        finally:
            connection.set_trace_callback(None)

    ledger.database.write(trace)
    return statements


def step(step_id: str) -> StepRun:
    return StepRun(id=step_id, run_id="r1", task_id=step_id, name="draft", type="task", status=StepStatus.RUNNING)


def test_the_changes_of_a_superstep_execute_four_statements(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run(claim="mine")), Insert(step("1"))])
    events = [NewEvent("STEP_COMPLETED", {"stepName": "draft"}, "1"), NewEvent("STEP_STARTED", {}, "2")]
    changes = [
        Advance("r1", NOW, {"current_step": "send"}, events, where(claim="mine")),
        Update(StepRun, "1", {"status": StepStatus.COMPLETED, "completed_at": NOW}),
        Insert(step("2")),
    ]
    statements = execute(ledger, changes)
    assert [statement.split()[0] for statement in statements] == ["UPDATE", "INSERT", "UPDATE", "INSERT"]
    assert execute(ledger, [Advance("r1", NOW)])[0].startswith("UPDATE")


def test_records_can_be_changed_after_the_job_was_made(ledger: SqliteLedger) -> None:
    record, payload = run(output={"list": [1]}), {"n": 1}
    job = ledger.job([Insert(record), Advance("r1", NOW, {}, [NewEvent("A", payload)])])
    record.output["list"].append(2)
    payload["n"] = 2
    ledger.database.write(job)
    runs: Any = ledger.find(Run)
    assert runs[0].output == {"list": [1]}
    events: Any = ledger.events("r1")
    assert events[0].payload == {"n": 1}


def test_guards_are_checked_before_anything_is_written(ledger: SqliteLedger) -> None:
    """A job that fails after a write makes the database repeat the other jobs of its transaction."""
    ledger.write([Insert(run("r1")), Insert(run("r2"))])
    cases: list[tuple[list[Change], str]] = [
        ([Update(Run, "r1", {}), Advance("r2", NOW, {}, (), where(version=9)), Insert(label("1"))], "r2"),
        ([Advance("r1", NOW, {}, (), where(version=1)), Update(Run, "r2", {}, where(claim="x"))], "r2"),
        ([Update(Run, "r1", {}, where(claim="x")), Update(Run, "r2", {}, where(claim="x"))], "r1"),
        ([Update(Run, "r9", {}), Update(Run, "r2", {}, where(claim="x"))], "r9"),
        ([Update(Run, "r1", {}, where(claim="x")), Insert(label("1"))], "r1"),
        ([Insert(run("r1")), Insert(label("1"))], ""),
    ]
    for changes, conflict in cases:
        written: list[int] = []

        def attempt(connection: sqlite3.Connection) -> None:
            before = connection.total_changes
            try:
                ledger.job(changes)(connection)  # noqa: B023
            finally:
                written.append(connection.total_changes - before)  # noqa: B023

        with pytest.raises(RecordConflict) as raised:
            ledger.database.write(attempt)
        assert (raised.value.id, written) == (conflict, [0])


def test_guards_take_earlier_changes_of_the_same_job_into_account(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run("r1")), Insert(run("r2"))])
    with pytest.raises(DuplicateRecord):
        ledger.write([Insert(run("r1")), Update(Run, "r2", {}, where(claim="x"))])
    ledger.write([Update(Run, "r1", {"claim": "x"}), Update(Run, "r1", {"graph": "y"}, where(claim="x"))])
    ledger.write([Insert(run("r3", claim="x")), Update(Run, "r3", {"graph": "y"}, where(claim="x"))])
    guarded = [
        Update(Run, "r1", {"graph": "z"}, where(graph="y")),
        Advance("r3", NOW, {"graph": "z"}, (), where(graph="y")),
    ]
    ledger.write(guarded)
    runs: Any = ledger.find(Run)
    assert [(record.graph, record.version) for record in runs] == [("z", 4), ("g", 1), ("z", 3)]


def test_a_failing_job_does_not_affect_the_others_of_its_transaction(database: SqliteDatabase) -> None:
    """One of several jobs in a shared transaction fails after it has written."""
    ledger, saver = SqliteLedger(database), SqliteSaver(database)
    ledger.write([Insert(run("r1"))])
    released, started = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        started.set()
        released.wait(600)

    first = database.submit(hold)
    assert started.wait(600)
    before = [
        database.submit(ledger.job([Insert(label(str(n))), Advance("r1", NOW, {}, [NewEvent("A", {})])]))
        for n in range(5)
    ]
    failing = database.submit(ledger.job([Insert(label("bad")), Update(Run, "r9", {})]))
    after = [database.submit(ledger.job([Insert(label(str(n)))])) for n in range(5, 9)]
    released.set()
    with pytest.raises(RecordConflict):
        failing.result(600)
    for future in (first, *before, *after):
        future.result(600)
    labels: Any = ledger.find(RunLabel)
    assert [label.id for label in labels] == [str(n) for n in range(9)]
    events: Any = ledger.events("r1")
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert saver.load("thread") is None


def test_the_jobs_of_a_commit_are_written_with_it_or_not_at_all(database: SqliteDatabase) -> None:
    ledger, saver = SqliteLedger(database), SqliteSaver(database)
    ledger.write([Insert(run("r1"))])
    jobs = [ledger.job([Insert(label("1"))]), ledger.job([Update(Run, "r9", {})])]
    with pytest.raises(RecordConflict):
        saver.commit(commit_after(None), also=jobs)
    assert ledger.count(RunLabel) == 0
    head: Any = saver.commit(commit_after(None), also=jobs[:1])
    with pytest.raises(CheckpointConflict):
        saver.commit(commit_after(None), also=[ledger.job([Insert(label("2"))])])
    assert ledger.count(RunLabel) == 1
    saver.commit(commit_after(head), also=[ledger.job([Insert(label("2"))]), ledger.job([Insert(label("3"))])])
    assert ledger.count(RunLabel) == 3


def test_a_duplicate_error_names_the_record_and_the_columns(ledger: SqliteLedger) -> None:
    hook = Webhook(id="h", workspace_id="w1", url="u", created_at=NOW)
    ledger.write([Insert(run("r1", idempotency_key="k")), Insert(run("r2")), Insert(hook), Insert(label("1"))])
    for change, message in (
        (Insert(run("r1")), r"A record of workflow_runs with id 'r1' already"),
        (Insert(run("r3", idempotency_key="k")), r"with workspace_id 'w1' and idempotency_key 'k' already"),
        (Update(Run, "r2", {"idempotency_key": "k"}), r"with workspace_id 'as before' and idempotency_key 'k' already"),
        (Insert(label("1")), r"A record of run_labels with id '1' already"),
    ):
        with pytest.raises(DuplicateRecord, match=message):
            ledger.write([change])


def test_a_conflict_error_names_the_expected_values(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run("r1"))])
    expected = [*where(claim="mine"), Condition("version", "<", 3)]
    with pytest.raises(
        RecordConflict, match=r"'r1' of workflow_runs does not exist with claim = 'mine' and version < 3"
    ):
        ledger.write([Advance("r1", NOW, {}, (), expected)])


def test_announcing_without_webhooks_executes_one_statement(ledger: SqliteLedger) -> None:
    assert len(execute(ledger, [Announce("w1", "a", {}, NOW)])) == 1
