"""Child runs: created once, in the transaction that saves the result of their node."""

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
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.engine.children import ChildStarter
from statewright.service.engine.progress import NO_GRAPH, Progress
from statewright.service.operations.starting import Starter
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
TASK = Task("starts", None, "c1", 0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


class Parent:
    """A run with one running task, which may start child runs."""

    def __init__(self, context: ServiceContext, run: Run) -> None:
        self.context, self.run = context, run
        self.progress = Progress(run, NO_GRAPH, steps=[step_of(run)])
        starter = Starter(context)
        self.children = ChildStarter(run, self.progress, context, starter)

    def start(self, run_id: str, graph: str = "kid", value: Any = None, *, awaited: bool = False, **more: Any) -> None:
        self.children.start(run_id, graph, value, work=[TASK.id], awaited=awaited, options=more)

    def save_result(self) -> Sequence[Change]:
        """Return the changes that save the result of the task."""
        return self.progress.result_changes(
            "", Pending(completed={TASK.id: TaskResult(TASK, {}, [])}), None, self.context.now()
        )

    def save_retry(self) -> Sequence[Change]:
        """Return the changes that save a failed attempt, which is retried."""
        pending = Pending(attempts={TASK.id: 1}, retries={TASK.id: self.context.now() + timedelta(seconds=1)})
        return self.progress.result_changes("", pending, None, self.context.now())

    def save_failure(self) -> Sequence[Change]:
        """Return the changes that save the final failure of the task."""
        return self.progress.result_changes("", Pending(errors={TASK.id: "ValueError: no"}), None, self.context.now())


def step_of(run: Run) -> StepRun:
    return StepRun(id="s", run_id=run.id, task_id=TASK.id, name="starts", type="node", status=StepStatus.RUNNING)


async def create_parent(context: ServiceContext, run: Run) -> Parent:
    graph = StateGraph(dict, name="kid")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    context.catalog.serve("kid", graph)
    await context.write(
        [Insert(run), Insert(step_of(run)), *(Insert(item) for item in context.catalog.to_records(context.now()))]
    )
    return Parent(context, run)


def inserted(changes: Sequence[Change], kind: type[Any] = Run) -> list[Any]:
    return [change.record for change in changes if isinstance(change, Insert) and isinstance(change.record, kind)]


async def test_a_child_is_created_with_the_result_of_its_task(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await create_parent(context, new_run(id="run_p"))
    parent.start("run_k", value={"at": context.now()}, awaited=True, tags=["red"], timeout=5)
    with pytest.raises(NotFound):
        await context.records.run("default", "run_k")
    changes = parent.save_result()
    [child], [label] = inserted(changes), inserted(changes, RunLabel)
    assert (child.id, child.parent_id, child.parent_waits, child.source) == ("run_k", "run_p", True, "run:run_p")
    assert (child.thread_id, child.on_busy, child.input) == ("run_k", "enqueue", {"at": "2026-01-01T00:00:00Z"})
    assert (child.deadline_at, label.value) == (context.now() + timedelta(seconds=5), "red")
    await context.write(changes)
    assert (await context.records.run("default", "run_k")).due_at == context.now()


async def test_a_child_is_not_created_if_its_node_fails(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    parent = await create_parent(context, new_run())
    parent.start("run_k")
    assert (inserted(parent.save_retry()), inserted(parent.save_failure())) == ([], [])


async def test_a_child_of_a_retried_node_is_created_once(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    parent = await create_parent(context, new_run())
    parent.start("run_k")
    parent.save_retry()
    parent.start("run_k")
    assert [child.id for child in inserted(parent.save_result())] == ["run_k"]


async def test_a_child_starts_once_however_often_its_node_is_executed(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    parent = await create_parent(context, run)
    for _ in range(3):
        parent.start("run_k")
    changes = parent.save_result()
    assert [child.id for child in inserted(changes)] == ["run_k"]
    await context.write(changes)
    restarted = Parent(context, run)
    restarted.start("run_k")
    assert inserted(restarted.save_result()) == []


async def test_invalid_children_are_refused_when_they_are_started(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await create_parent(context, new_run(thread_id="mine"))
    context.settings = ServiceSettings(max_input=10)
    with pytest.raises(InvalidRequest, match="Did you mean 'thread_id'"):
        parent.start("a", awaited=True, thread_ids="t")
    with pytest.raises(NotFound, match="Did you mean 'kid'"):
        parent.start("b", "kit", awaited=True)
    with pytest.raises(PayloadTooLarge):
        parent.start("c", value="x" * 20, awaited=True)
    with pytest.raises(InvalidRequest, match="'mine', which its parent holds"):
        parent.start("d", awaited=True, thread_id="mine")
    assert inserted(parent.save_result()) == []


async def test_a_child_that_is_not_awaited_may_use_the_thread_of_its_parent(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    parent = await create_parent(context, new_run(thread_id="mine"))
    parent.start("run_k", thread_id="mine")
    [child] = inserted(parent.save_result())
    assert (child.thread_id, child.on_busy, child.parent_waits) == ("mine", "enqueue", False)


@pytest.mark.parametrize(
    ("waits", "is_refused"), [((True, True), True), ((False, True), False), ((True, False), False)]
)
async def test_a_child_may_not_use_the_thread_of_any_run_that_waits_for_it(
    context: ServiceContext, new_run: Callable[..., Run], waits: tuple[bool, bool], is_refused: bool
) -> None:
    top = new_run(thread_id="top", status=RunStatus.WAITING)
    middle = new_run(parent_id=top.id, parent_waits=waits[0], status=RunStatus.WAITING)
    await context.write([Insert(top), Insert(middle)])
    parent = await create_parent(context, new_run(parent_id=middle.id, parent_waits=waits[1]))
    if is_refused:
        with pytest.raises(InvalidRequest, match=f"'top', which run {top.id}"):
            parent.start("run_k", awaited=True, thread_id="top")
    else:
        parent.start("run_k", awaited=True, thread_id="top")
    parent.start("run_other", awaited=True, thread_id="free")
    assert len(inserted(parent.save_result())) == (1 if is_refused else 2)


def earlier_report(run: Run, child: Run, n: int) -> Signal:
    """Return a report of the end of a child which its parent has not handled."""
    return Signal(
        id=f"old_{n}", run_id=run.id, type=f"__run_ended:{child.id}", payload={"status": "failed"}, created_at=NOW
    )


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
async def test_an_ended_child_is_reported_again_to_a_parent_that_repeats_its_call(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    run = new_run(id="run_p")
    parent = await create_parent(context, run)
    child = new_run(id="run_k", parent_id=run.id, status=status, output=7, error={"message": "no"})
    setattr(child, f"{status}_at", context.now())
    other = earlier_report(run, new_run(id="run_o"), 3)
    await context.write(
        [Insert(item) for item in (child, earlier_report(run, child, 1), earlier_report(run, child, 2), other)]
    )
    for _ in range(2):  # the node may be executed again before the report is saved
        parent.start("run_k", awaited=True)
    await context.write(parent.save_result())
    inbox = await aresolve(context.ledger.find(Signal, where(run_id=run.id, taken=False)))
    [report] = [item for item in inbox if item.id != other.id]
    error = {"message": "no"}
    assert report.payload == {"runId": "run_k", "status": str(status), "output": 7, "error": error}
    assert len(inbox) == 2


async def test_only_the_next_end_of_an_unfinished_child_is_reported(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run(id="run_p")
    parent = await create_parent(context, run)
    child = new_run(id="run_k", parent_id=run.id, status=RunStatus.RUNNING)
    await context.write([Insert(child), Insert(earlier_report(run, child, 1))])
    parent.start("run_k", awaited=True)
    later_report = earlier_report(run, child, 2)
    await context.write([Insert(later_report)])  # the child ends before the result of the node is saved
    await context.write(parent.save_result())
    assert [signal.id for signal in await aresolve(context.ledger.find(Signal, where(taken=False)))] == [
        later_report.id
    ]
