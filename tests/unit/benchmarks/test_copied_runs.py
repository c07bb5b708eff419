"""Copies of runs in the database of a benchmark, which claims and followers take for runs like any other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks.scale.copied_runs import copy_run
from benchmarks.scale.spending import Database
from tests.postgres_server import new_schema_url, shared_url

from statewright.futures import resolve
from statewright.runs import Advance, Insert, NewEvent, Run, StepRun
from statewright.storage.postgres import PostgresDatabase, PostgresLedger

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "copied_runs"


@pytest.fixture
def ledger() -> Iterator[Any]:
    """Return a ledger with one due run, which has a step and two events."""
    with PostgresDatabase(new_schema_url(SCHEMA), trusts_clocks=True) as database:
        ledger = PostgresLedger(database)
        run = Run(id="run", workspace_id="w", graph="g", thread_id="t", due_at=NOW, created_at=NOW, updated_at=NOW)
        step = StepRun(id="step", run_id="run", task_id="task", name="step", type="node")
        events = [NewEvent("run.created", {}), NewEvent("step.started", {}, "step")]
        resolve(ledger.write([Insert(run), Insert(step), Advance("run", NOW, events=events)]))
        yield ledger


def copy(count: int, **changes: str) -> None:
    copy_run(Database(shared_url(), Path()), SCHEMA, "run", count, changes=changes)


def test_a_copy_has_everything_of_its_run_but_the_ids(ledger: Any) -> None:
    copy(3)
    original, *copies = resolve(ledger.find(Run))
    assert [run.id for run in copies] == ["run-1", "run-2", "run-3"]
    assert [run.thread_id for run in copies] == ["t-1", "t-2", "t-3"]
    for run in copies:
        assert (run.due_at, run.version, run.last_event) == (original.due_at, original.version, original.last_event)
        events = [event._replace(run_id="run") for event in resolve(ledger.events(run.id))]
        assert events == list(resolve(ledger.events("run")))
    assert {(step.id, step.run_id) for step in resolve(ledger.find(StepRun))} == {
        ("step", "run"), ("step-1", "run-1"), ("step-2", "run-2"), ("step-3", "run-3"),
    }  # fmt: skip


def test_copies_are_claimed_like_other_runs(ledger: Any) -> None:
    copy(3)
    claimed = resolve(ledger.claim("worker", NOW, 10))
    assert [run.id for run in claimed] == ["run", "run-1", "run-2", "run-3"]


def test_copies_on_one_thread_wait_for_each_other(ledger: Any) -> None:
    copy(3, thread_id="original.thread_id")
    assert [run.id for run in resolve(ledger.claim("worker", NOW, 10))] == ["run"]
    assert resolve(ledger.next_due()).has_blocked
