"""Cancelling, pausing, resuming and retrying runs, guarded by their versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.service.conftest import Overtaken

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidTransition, NotFound, RequestConflict
from statewright.runs import (
    ENDED,
    Advance,
    Approval,
    Condition,
    Insert,
    Ledger,
    Run,
    RunStatus,
    StepRun,
    StepStatus,
    Wait,
    where,
)
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.control import ControlOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


async def insert(context: ServiceContext, run: Run, *more: Any) -> Run:
    await context.write([Insert(run), *(Insert(item) for item in more)])
    return run


async def event_types(context: ServiceContext, run: Run) -> list[str]:
    return [event.type for event in await aresolve(context.ledger.events(run.id))]


def step(run: Run, status: StepStatus, name: str = "s") -> StepRun:
    return StepRun(id=f"{run.id}/{name}", run_id=run.id, task_id=name, name=name, type="node", status=status)


async def test_a_cancelled_run_has_no_open_steps_waits_or_approvals(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    now = context.now()
    run = new_run(status=RunStatus.WAITING, claim="c", due_at=now)
    fields = {"workspace_id": "default", "step_id": "s", "step_name": "s", "created_at": now, "run_id": run.id}
    wait, approval = Wait(id="w", interrupt_id="i", kind="question", **fields), Approval(id="w", **fields)
    steps = [
        step(run, StepStatus.COMPLETED, "a"),
        step(run, StepStatus.WAITING, "b"),
        step(run, StepStatus.PENDING, "c"),
    ]
    await insert(context, run, wait, approval, *steps)
    after = await ControlOperations(context).cancel("default", run.id, "why")
    assert (after.status, after.claim, after.due_at, after.cancelled_at) == (RunStatus.CANCELLED, None, None, now)
    result = await aresolve(context.ledger.find(StepRun))
    assert [item.status for item in result] == [StepStatus.COMPLETED, StepStatus.CANCELLED, StepStatus.CANCELLED]
    assert await aresolve(context.ledger.count(Wait)) == 0
    assert [approval.decision for approval in await aresolve(context.ledger.find(Approval))] == ["cancelled"]
    assert await event_types(context, run) == ["WORKFLOW_CANCELLED"]


async def test_descendants_are_cancelled_with_their_parent(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    await insert(context, new_run(id="run_1"))
    await insert(context, new_run(id="run_2", parent_id="run_1"))
    await insert(context, new_run(id="run_3", parent_id="run_2"))
    await insert(context, new_run(id="run_4", parent_id="run_1", status=RunStatus.COMPLETED))
    await ControlOperations(context).cancel("default", "run_1")
    result = {run.id: run.status for run in await aresolve(context.ledger.find(Run))}
    assert [result[f"run_{n}"] for n in range(1, 5)] == ["cancelled", "cancelled", "cancelled", "completed"]
    [event] = await aresolve(context.ledger.events("run_3"))
    assert event.payload == {"reason": "run run_1, which has started it, was cancelled"}


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
async def test_cancelling_a_run_that_has_ended_changes_nothing(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    run = await insert(context, new_run(id="run_1", status=status))
    await insert(context, new_run(id="run_2", parent_id="run_1", status=RunStatus.WAITING))
    before = await aresolve(context.ledger.find(Run))
    assert await ControlOperations(context).cancel("default", run.id, "why") == before[0]
    assert await aresolve(context.ledger.find(Run)) == before


async def test_a_child_that_begins_while_its_parent_is_cancelled_is_cancelled_too(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await insert(context, new_run(id="run_1"))
    child = new_run(id="run_2", parent_id="run_1")
    context.ledger = Overtaken(context.ledger, Insert(child), Advance("run_1", context.now()))  # type: ignore[assignment]
    await ControlOperations(context).cancel("default", parent.id)
    result = {run.id: run.status for run in await aresolve(context.ledger.find(Run))}
    assert result == {"run_1": RunStatus.CANCELLED, "run_2": RunStatus.CANCELLED}


async def test_a_claimed_run_is_asked_to_pause_and_an_unclaimed_run_is_paused_at_once(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    control = ControlOperations(context)
    claimed = await insert(context, new_run(status=RunStatus.RUNNING, claim="c"))
    unclaimed = await insert(context, new_run(status=RunStatus.RUNNING, due_at=context.now()))
    requested, paused = await control.pause("default", claimed.id), await control.pause("default", unclaimed.id)
    assert (requested.status, requested.settings, requested.claim) == (RunStatus.RUNNING, {"pause": True}, "c")
    assert (paused.status, paused.due_at, await event_types(context, unclaimed)) == (
        RunStatus.PAUSED,
        None,
        ["WORKFLOW_PAUSED"],
    )
    assert (await control.pause("default", claimed.id)).version == requested.version
    again = await control.resume("default", unclaimed.id)
    assert (again.status, again.due_at) == (RunStatus.RUNNING, context.now())


async def test_a_retried_run_starts_with_the_first_attempt_and_no_deadline(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    now = context.now()
    run = new_run(
        status=RunStatus.FAILED, error={"message": "m"}, failed_at=now, deadline_at=now, settings={"pause": True}
    )
    failed = step(run, StepStatus.FAILED)
    failed.attempt, failed.error, failed.completed_at = 3, {"message": "m"}, now
    await insert(context, run, failed)
    after = await ControlOperations(context).retry("default", run.id)
    assert (after.status, after.due_at, after.error) == (RunStatus.RUNNING, now, None)
    assert (after.failed_at, after.deadline_at, "pause" in after.settings) == (None, None, False)
    [again] = await aresolve(context.ledger.find(StepRun))
    assert (again.status, again.attempt, again.error, again.completed_at) == (StepStatus.RUNNING, 1, None, None)


async def test_a_run_whose_thread_was_advanced_is_not_retried(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    now = context.now()
    for failed, later, began in (("run_1", "run_2", now), ("run_2", "run_1", now + timedelta(seconds=1))):
        thread = {"thread_id": failed, "begun": True}
        await insert(context, new_run(id=f"{failed}_f", status=RunStatus.FAILED, started_at=now, **thread))
        await insert(context, new_run(id=f"{later}_l", status=RunStatus.CANCELLED, started_at=began, **thread))
        with pytest.raises(RequestConflict, match=f"was advanced by run {later}_l"):
            await ControlOperations(context).retry("default", f"{failed}_f")


async def test_earlier_runs_on_a_thread_do_not_prevent_a_retry(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    now, thread = context.now(), {"thread_id": "t", "begun": True}
    await insert(context, new_run(id="run_0", status=RunStatus.COMPLETED, started_at=now, **thread))
    await insert(
        context, new_run(id="run_2", status=RunStatus.CANCELLED, started_at=now - timedelta(seconds=1), **thread)
    )
    await insert(context, new_run(id="run_1", status=RunStatus.FAILED, started_at=now, **thread))
    await insert(context, new_run(id="run_3", status=RunStatus.CANCELLED, thread_id="t"))  # it never began
    assert (await ControlOperations(context).retry("default", "run_1")).status is RunStatus.RUNNING


@pytest.mark.parametrize("status", [status for status in RunStatus if status not in ENDED])
async def test_a_run_whose_thread_belongs_to_another_is_not_retried(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    await insert(context, new_run(id="run_2", thread_id="t", status=RunStatus.FAILED, started_at=context.now()))
    await insert(context, new_run(id="run_1", thread_id="t", status=status))
    with pytest.raises(RequestConflict, match=f"is in use by run run_1, which is {status}"):
        await ControlOperations(context).retry("default", "run_2")


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.COMPLETED])
async def test_a_run_that_takes_the_thread_during_a_retry_keeps_it(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    now = context.now()
    await insert(context, new_run(id="run_2", thread_id="t", status=RunStatus.FAILED, started_at=now))
    begun = {"begun": True, "started_at": now + timedelta(seconds=1)} if status is RunStatus.COMPLETED else {}
    other = new_run(id="run_1", thread_id="t", status=status, **begun)
    context.ledger = Overtaken(context.ledger, Insert(other))  # type: ignore[assignment]
    with pytest.raises(RequestConflict, match=r"cannot be retried.* run_1"):
        await ControlOperations(context).retry("default", "run_2")
    assert (await context.records.run("default", "run_2")).status is RunStatus.FAILED


async def test_a_parent_and_a_child_that_it_waits_for_are_cancelled_in_one_write(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    child = await insert(context, new_run(id="run_1", parent_id="run_2", parent_waits=True))
    parent = await insert(context, new_run(id="run_2", status=RunStatus.WAITING))
    cancellation = await ControlOperations(context).prepare_cancellation([child, parent], "why")
    await aresolve(context.ledger.write(cancellation.changes))
    cancellation.publish()
    result = await aresolve(context.ledger.find(Run))
    assert [run.status for run in result] == [RunStatus.CANCELLED] * 2
    assert [await event_types(context, run) for run in result] == [["WORKFLOW_CANCELLED"]] * 2


async def test_a_cancellation_is_repeated_after_concurrent_changes(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = await insert(context, new_run())
    context.ledger = RepeatedlyOvertaken(context.ledger, run.id, 3)  # type: ignore[assignment]
    after = await ControlOperations(context).cancel("default", run.id)
    assert (after.status, after.version) == (RunStatus.CANCELLED, 5)
    busy = await insert(context, new_run())
    context.ledger = RepeatedlyOvertaken(context.ledger, busy.id, 10_000)  # type: ignore[assignment]
    with pytest.raises(RequestConflict, match="changed concurrently"):
        await ControlOperations(context).cancel("default", busy.id)


class RepeatedlyOvertaken:
    """A ledger in which another process changes a run just before each of a number of writes."""

    def __init__(self, ledger: Any, run_id: str, times: int) -> None:
        self._ledger, self._run_id, self._times = ledger, run_id, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        if self._times and isinstance(changes[0], Advance) and changes[0].run_id == self._run_id:
            self._times -= 1
            stale = [Condition("version", "=", -1)]
            other = Advance(self._run_id, changes[0].at)
            first = self._ledger.write([other])
            if hasattr(first, "result"):
                first.result()
            return self._ledger.write([Advance(self._run_id, changes[0].at, {}, (), stale)])
        return self._ledger.write(changes)


async def test_other_workspaces_cannot_stop_a_run(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = await insert(context, new_run())
    control = ControlOperations(context)
    for operation in (control.cancel, control.pause, control.resume, control.retry):
        with pytest.raises(NotFound):
            await operation("other", run.id)
    for operation in (control.pause, control.resume, control.retry):
        with pytest.raises(InvalidTransition):
            await operation("default", run.id)
    assert await aresolve(context.ledger.count(Run, where(version=1))) == 1
