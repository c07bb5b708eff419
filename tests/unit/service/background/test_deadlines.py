"""Runs without a claim fail at their deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.futures import is_future
from statewright.runs import (
    Advance,
    Announce,
    Approval,
    Change,
    Insert,
    Ledger,
    Run,
    RunStatus,
    StepRun,
    StepStatus,
    Wait,
)
from statewright.service.background.deadlines import Deadlines
from statewright.service.engine.completion import Ending

pytestmark = pytest.mark.anyio
SECOND = timedelta(seconds=1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class DeadlinesBench:
    """Deadlines of a ledger, with recorded changes and ends."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.published: list[Change] = []
        self.ended: list[tuple[str, Any]] = []
        self.deadlines = Deadlines(ledger, self.published.extend, self._on_end)

    def _on_end(self, run: Run, ending: Ending, now: datetime) -> Sequence[Change]:
        self.ended.append((run.id, ending.status))
        return ()

    async def insert(self, *records: Any) -> None:
        await aresolve(self.ledger.write([Insert(record) for record in records]))

    async def statuses(self) -> list[str]:
        return [str(run.status) for run in await aresolve(self.ledger.find(Run))]


@pytest.fixture
def bench(ledger: Ledger) -> DeadlinesBench:
    return DeadlinesBench(ledger)


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING])
async def test_an_unclaimed_run_fails_at_its_deadline(
    bench: DeadlinesBench, new_run: Callable[..., Run], now: datetime, status: RunStatus
) -> None:
    await bench.insert(new_run(id="run_1", status=status, deadline_at=now, due_at=now))
    assert await bench.deadlines.sweep(now - SECOND) == now
    assert await bench.statuses() == [status]
    assert await bench.deadlines.sweep(now) is None
    [run] = await aresolve(bench.ledger.find(Run))
    assert (run.status, run.failed_at, run.due_at, run.deadline_at) == (RunStatus.FAILED, now, None, None)
    assert run.error["code"] == "RUN_TIMEOUT"
    assert "2026-03-02T12:00:00Z" in run.error["message"]
    assert [event.type for event in await aresolve(bench.ledger.events("run_1"))][-1] == "WORKFLOW_FAILED"
    assert bench.ended == [("run_1", RunStatus.FAILED)]
    assert [item.event_type for item in bench.published if isinstance(item, Announce)] == ["workflow.failed"]


async def test_the_waits_of_a_late_run_are_closed(
    bench: DeadlinesBench, new_run: Callable[..., Run], now: datetime
) -> None:
    run = new_run(id="run_1", status=RunStatus.WAITING, deadline_at=now, begun=True, started_at=now)
    fields = {"run_id": "run_1", "workspace_id": "default", "step_id": "s", "step_name": "s", "created_at": now}
    step = StepRun(id="s", run_id="run_1", task_id="t", name="s", type="node", status=StepStatus.WAITING)
    await bench.insert(run, step, Wait(id="w", interrupt_id="i", kind="question", **fields), Approval(id="w", **fields))
    await bench.deadlines.sweep(now)
    [result] = await aresolve(bench.ledger.find(StepRun))
    assert (result.status, await bench.statuses()) == (StepStatus.FAILED, ["failed"])
    assert [approval.decision for approval in await aresolve(bench.ledger.find(Approval))] == ["expired"]
    assert await aresolve(bench.ledger.count(Wait)) == 0


async def test_claimed_and_paused_runs_are_not_failed(
    bench: DeadlinesBench, new_run: Callable[..., Run], now: datetime
) -> None:
    unaffected = [
        new_run(id="run_1", status=RunStatus.RUNNING, claim="c", deadline_at=now),
        new_run(id="run_2", status=RunStatus.PAUSED, deadline_at=now),
        new_run(id="run_3", status=RunStatus.PENDING),
        new_run(id="run_4", status=RunStatus.CANCELLED, deadline_at=now),
    ]
    await bench.insert(*unaffected)
    assert await bench.deadlines.sweep(now + SECOND) is None
    assert await bench.statuses() == [run.status for run in unaffected]
    assert bench.published == []


async def test_a_sweep_returns_the_next_deadline(
    bench: DeadlinesBench, new_run: Callable[..., Run], now: datetime
) -> None:
    await bench.insert(*(new_run(deadline_at=now + n * SECOND) for n in (3, 0, 2)))
    assert await bench.deadlines.sweep(now) == now + 2 * SECOND
    assert sorted(await bench.statuses()) == ["failed", "pending", "pending"]


async def test_a_run_that_changes_concurrently_is_not_failed(
    ledger: Ledger, new_run: Callable[..., Run], now: datetime
) -> None:
    claim = Advance("run_1", now, {"claim": "c", "worker_id": "w"})
    overtaken: Any = OvertakenLedger(ledger, claim)
    bench = DeadlinesBench(overtaken)
    await bench.insert(new_run(id="run_1", deadline_at=now), new_run(id="run_2", deadline_at=now))
    await bench.deadlines.sweep(now)
    assert await bench.statuses() == ["pending", "failed"]
    assert [item.run_id for item in bench.published if isinstance(item, Advance)] == ["run_2"]


class OvertakenLedger:
    """A ledger to which another process writes a change right after the first read."""

    def __init__(self, ledger: Any, change: Change) -> None:
        self._ledger, self._changes = ledger, [change]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, *args: Any, **options: Any) -> Any:
        result = self._ledger.find(*args, **options)
        result = result.result() if is_future(result) else result
        if self._changes:
            written = self._ledger.write([self._changes.pop()])
            if is_future(written):
                written.result()
        return result


async def test_many_late_runs_fail_without_delay(
    bench: DeadlinesBench, new_run: Callable[..., Run], now: datetime
) -> None:
    await bench.insert(*(new_run(deadline_at=now) for _ in range(250)))
    due: datetime | None = now
    for _ in range(10):
        due = await bench.deadlines.sweep(now)
        if due is None or due > now:
            break
    assert set(await bench.statuses()) == {"failed"}
