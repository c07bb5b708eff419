"""The ledger in memory. That it keeps the promises of the port is seen in `tests/conformance/test_ledgers.py`."""

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


def test_a_job_is_done_when_it_is_called() -> None:
    ledger = InMemoryLedger()
    job = ledger.job([Insert(label("1"))])
    assert ledger.count(RunLabel) == 0
    job()
    assert ledger.count(RunLabel) == 1


def test_a_job_may_be_tried_again() -> None:
    ledger = InMemoryLedger()
    ledger.write([Insert(run("r1"))])
    change = Advance("r1", NOW, {"graph": "x"}, [NewEvent("A", {})], where(claim="mine"))
    job = ledger.job([change])
    with pytest.raises(RecordConflict):
        job()
    ledger.write([Update(Run, "r1", {"claim": "mine"})])
    job()
    assert [one.seq for one in change.written_events] == [1]
    assert ledger.events("r1") == change.written_events


def test_a_commit_that_fails_leaves_no_thread() -> None:
    ledger, saver = InMemoryLedger(), InMemorySaver()
    with pytest.raises(RecordConflict):
        saver.commit(commit_after(None), also=[ledger.job([Update(Run, "r1", {})])])
    assert list(saver.threads()) == []


def test_what_belongs_to_a_run_names_it() -> None:
    naming = {kind for kind in RECORDS if any(one.name == "run_id" for one in columns_of(kind))}
    assert naming - set(OF_RUNS) == {type(delivery_of(Announce("w", "a", {}, NOW), "h"))}


def test_a_delivery_is_what_is_announced() -> None:
    announced = Announce("w1", "run.ended", {"n": 1}, NOW, "r1")
    one, other = delivery_of(announced, "h1"), delivery_of(announced, "h2")
    assert (one.id, other.id) == (f"{announced.id}.h1", f"{announced.id}.h2")
    assert announced.id != Announce("w1", "run.ended", {"n": 1}, NOW, "r1").id
    assert one.body == {"type": "run.ended", "createdAt": "2026-01-01T12:00:00Z", "data": {"n": 1}}
    assert (one.webhook_id, one.workspace_id, one.run_id, one.due_at) == ("h1", "w1", "r1", NOW)
