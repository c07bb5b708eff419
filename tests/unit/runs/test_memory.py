"""The ledger in memory. The conformance suite, in `tests/conformance/test_ledgers.py`, tests it further."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statewright import InMemorySaver
from statewright.errors import RecordConflict
from statewright.runs import (
    OF_RUNS,
    RECORDS,
    Advance,
    Announce,
    InMemoryLedger,
    Insert,
    NewEvent,
    Run,
    RunLabel,
    Update,
    columns_of,
    delivery_of,
    where,
)
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import label, run

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_job_writes_when_it_is_called() -> None:
    ledger = InMemoryLedger()
    job = ledger.job([Insert(label("1"))])
    assert ledger.count(RunLabel) == 0
    job()
    assert ledger.count(RunLabel) == 1


def test_a_failed_job_can_be_called_again() -> None:
    ledger = InMemoryLedger()
    ledger.write([Insert(run("r1"))])
    change = Advance("r1", NOW, {"graph": "x"}, [NewEvent("A", {})], where(claim="mine"))
    job = ledger.job([change])
    with pytest.raises(RecordConflict):
        job()
    ledger.write([Update(Run, "r1", {"claim": "mine"})])
    job()
    assert [written_event.seq for written_event in change.written_events] == [1]
    assert ledger.events("r1") == change.written_events


def test_a_commit_with_a_failing_job_saves_no_thread() -> None:
    ledger, saver = InMemoryLedger(), InMemorySaver()
    with pytest.raises(RecordConflict):
        saver.commit(commit_after(None), also=[ledger.job([Update(Run, "r1", {})])])
    assert list(saver.threads()) == []


def test_records_of_runs_are_those_with_a_run_id_except_deliveries() -> None:
    with_run_id = {kind for kind in RECORDS if any(column.name == "run_id" for column in columns_of(kind))}
    assert with_run_id - set(OF_RUNS) == {type(delivery_of(Announce("w", "a", {}, NOW), "h"))}


def test_a_delivery_contains_the_announced_event() -> None:
    announcement = Announce("w1", "run.ended", {"n": 1}, NOW, "r1")
    first, second = delivery_of(announcement, "h1"), delivery_of(announcement, "h2")
    assert (first.id, second.id) == (f"{announcement.id}.h1", f"{announcement.id}.h2")
    assert announcement.id != Announce("w1", "run.ended", {"n": 1}, NOW, "r1").id
    assert first.body == {"type": "run.ended", "createdAt": "2026-01-01T12:00:00Z", "data": {"n": 1}}
    assert (first.webhook_id, first.workspace_id, first.run_id, first.due_at) == ("h1", "w1", "r1", NOW)
