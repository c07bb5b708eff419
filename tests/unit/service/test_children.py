"""Runs that nodes start: with the write that keeps what their node has done, and once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.service.conftest import NOW

from statewright import END, START, StateGraph
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, Pending, Task, TaskResult
from statewright.errors import InvalidRequest, NotFound, PayloadTooLarge
from statewright.runs import Change, Insert, Ledger, Run, RunLabel, RunStatus, Signal, StepRun, StepStatus, where
from statewright.service.catalog import Catalog
from statewright.service.children import ChildStarter
from statewright.service.desk import ServiceContext
from statewright.service.progress import NO_GRAPH, Progress
from statewright.service.settings import ServiceSettings
from statewright.service.starting import Starter
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
TASK = Task("starts", None, "c1", 0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def desk(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


class Parent:
    """A run with one task at work, which may start others."""

    def __init__(self, desk: ServiceContext, run: Run) -> None:
        self.desk, self.run = desk, run
        self.progress = Progress(run, NO_GRAPH, steps=[step_of(run)])
        starter = Starter(desk.ledger, desk.catalog, desk.clock, desk.settings)
        self.children = ChildStarter(run, self.progress, desk, starter)

    def start(self, run_id: str, graph: str = "kid", given: Any = None, *, awaited: bool = False, **more: Any) -> None:
        self.children.start(run_id, graph, given, work=[TASK.id], awaited=awaited, options=more)

    def done(self) -> Sequence[Change]:
        """The changes of the write that keeps the task."""
        return self.progress.landed("", Pending(completed={TASK.id: TaskResult(TASK, {}, [])}), None, self.desk.now())

    def tried_again(self) -> Sequence[Change]:
        """The changes of the write that notes that the task has failed."""
        again = Pending(attempts={TASK.id: 1}, retries={TASK.id: self.desk.now() + timedelta(seconds=1)})
        return self.progress.landed("", again, None, self.desk.now())

    def failed(self) -> Sequence[Change]:
        """The changes of the write that notes that the task has failed for good."""
        return self.progress.landed("", Pending(errors={TASK.id: "ValueError: no"}), None, self.desk.now())


def step_of(run: Run) -> StepRun:
    return StepRun(id="s", run_id=run.id, task_id=TASK.id, name="starts", type="node", status=StepStatus.RUNNING)


async def parent_of(desk: ServiceContext, run: Run) -> Parent:
    graph = StateGraph(dict, name="kid")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    desk.catalog.serve("kid", graph)
    await desk.write([Insert(run), Insert(step_of(run)), *(Insert(one) for one in desk.catalog.stored(desk.now()))])
    return Parent(desk, run)


def new(changes: Sequence[Change], kind: type[Any] = Run) -> list[Any]:
    return [one.record for one in changes if isinstance(one, Insert) and isinstance(one.record, kind)]


async def test_a_child_is_a_change_of_the_write_that_keeps_its_task(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await parent_of(desk, new_run(id="run_p"))
    parent.start("run_k", given={"at": desk.now()}, awaited=True, tags=["red"], timeout=5)
    with pytest.raises(NotFound):
        await desk.records.run("default", "run_k")
    changes = parent.done()
    [kid], [label] = new(changes), new(changes, RunLabel)
    assert (kid.id, kid.parent_id, kid.parent_waits, kid.source) == ("run_k", "run_p", True, "run:run_p")
    assert (kid.thread_id, kid.on_busy, kid.input) == ("run_k", "enqueue", {"at": "2026-01-01T00:00:00Z"})
    assert (kid.deadline_at, label.value) == (desk.now() + timedelta(seconds=5), "red")
    await desk.write(changes)
    assert (await desk.records.run("default", "run_k")).due_at == desk.now()


async def test_a_child_does_not_begin_when_its_node_fails(desk: ServiceContext, new_run: Callable[..., Run]) -> None:
    parent = await parent_of(desk, new_run())
    parent.start("run_k")
    assert (new(parent.tried_again()), new(parent.failed())) == ([], [])


async def test_a_child_of_a_node_that_is_tried_again_begins_once(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await parent_of(desk, new_run())
    parent.start("run_k")
    parent.tried_again()
    parent.start("run_k")
    assert [kid.id for kid in new(parent.done())] == ["run_k"]


async def test_a_child_starts_once_however_often_its_node_is_executed(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    parent = await parent_of(desk, run)
    for _ in range(3):
        parent.start("run_k")
    changes = parent.done()
    assert [kid.id for kid in new(changes)] == ["run_k"]
    await desk.write(changes)
    later = Parent(desk, run)
    later.start("run_k")
    assert new(later.done()) == []


async def test_what_cannot_be_started_is_refused_where_it_is_called(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await parent_of(desk, new_run(thread_id="mine"))
    desk.settings = ServiceSettings(max_input=10)
    with pytest.raises(InvalidRequest, match="Did you mean 'thread_id'"):
        parent.start("a", awaited=True, thread_ids="t")
    with pytest.raises(NotFound, match="Did you mean 'kid'"):
        parent.start("b", "kit", awaited=True)
    with pytest.raises(PayloadTooLarge):
        parent.start("c", given="x" * 20, awaited=True)
    with pytest.raises(InvalidRequest, match="'mine', which its parent holds"):
        parent.start("d", awaited=True, thread_id="mine")
    assert new(parent.done()) == []


async def test_a_child_that_is_not_awaited_may_follow_on_the_thread_of_its_parent(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await parent_of(desk, new_run(thread_id="mine"))
    parent.start("run_k", thread_id="mine")
    [kid] = new(parent.done())
    assert (kid.thread_id, kid.on_busy, kid.parent_waits) == ("mine", "enqueue", False)


def ended_before(run: Run, child: Run, n: int) -> Signal:
    """What the parent was told of an end, and has not taken."""
    return Signal(
        id=f"old_{n}", run_id=run.id, type=f"__run_ended:{child.id}", payload={"status": "failed"}, created_at=NOW
    )


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
async def test_a_child_that_has_ended_is_told_as_it_stands_to_a_parent_that_asks_anew(
    desk: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    run = new_run(id="run_p")
    parent = await parent_of(desk, run)
    child = new_run(id="run_k", parent_id=run.id, status=status, output=7, error={"message": "no"})
    setattr(child, f"{status}_at", desk.now())
    other = ended_before(run, new_run(id="run_o"), 3)
    await desk.write([Insert(one) for one in (child, ended_before(run, child, 1), ended_before(run, child, 2), other)])
    for _ in range(2):  # also if the node is executed once more before that is saved
        parent.start("run_k", awaited=True)
    await desk.write(parent.done())
    inbox = await aresolve(desk.ledger.find(Signal, where(run_id=run.id, taken=False)))
    [told] = [one for one in inbox if one.id != other.id]
    error = {"message": "no"}
    assert told.payload == {"runId": "run_k", "status": str(status), "output": 7, "error": error}
    assert len(inbox) == 2


async def test_of_a_child_that_goes_on_only_the_end_to_come_counts(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run(id="run_p")
    parent = await parent_of(desk, run)
    child = new_run(id="run_k", parent_id=run.id, status=RunStatus.RUNNING)
    await desk.write([Insert(child), Insert(ended_before(run, child, 1))])
    parent.start("run_k", awaited=True)
    late = ended_before(run, child, 2)
    await desk.write([Insert(late)])  # the child ends before that is saved
    await desk.write(parent.done())
    assert [one.id for one in await aresolve(desk.ledger.find(Signal, where(taken=False)))] == [late.id]
