"""The executors without an event loop: inline and in threads."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.checkpoint import TaskResult
from statewright.runtime.concurrency.executors import InlineExecutor, ThreadExecutor
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.invocation.outcome import Failure
from statewright.runtime.tasks.scope import current_scope

TIMEOUT = 600.0
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")
Function = Callable[[Any], Any]


def superstep(make: Any, functions: Sequence[Function]) -> tuple[Superstep, threading.Event]:
    """Return a superstep with a task for each function, and an event that is set when it is closed."""
    graph = StateGraph(make.state)
    for number, function in enumerate(functions):
        graph.add_node(f"n{number}", function).add_edge(START, f"n{number}")
    tasks = make.tasks(*graph.nodes)
    closed = threading.Event()
    effect = RunTasks(make.checkpoint({"x": 1}, tasks), tasks)
    return Superstep(make.run(make.program(graph)), effect, closed.set), closed


def outcome_writes(step: Superstep) -> list[Any]:
    return [outcome.writes if isinstance(outcome, TaskResult) else outcome for outcome in step.outcomes]


def fail(state: Any) -> Any:
    raise LookupError("no luck")


# -- inline


def test_inline_tasks_run_in_sequence_in_the_thread_of_the_caller(make: Any) -> None:
    ran: list[tuple[int, threading.Thread]] = []
    functions = [lambda state, n=n: ran.append((n, threading.current_thread())) for n in range(4)]
    step, closed = superstep(make, functions)
    InlineExecutor().start(step, range(4), 1)
    assert ran == [(n, threading.current_thread()) for n in range(4)]
    assert closed.is_set()


def test_inline_tasks_share_the_context_of_the_caller(make: Any) -> None:
    seen: list[str] = []

    def read_context(state: Any) -> None:
        seen.append(CURRENT.get())
        CURRENT.set("the node")

    step, _ = superstep(make, [read_context])
    context = contextvars.copy_context()
    context.run(CURRENT.set, "the caller")
    context.run(InlineExecutor().start, step, [0], 1)
    assert (seen, context[CURRENT]) == (["the caller"], "the node")


def test_inline_tasks_after_a_failure_are_not_run(make: Any) -> None:
    ran: list[str] = []
    step, _ = superstep(make, [lambda state: {"y": 1}, fail, lambda state: ran.append("ran")])
    InlineExecutor().start(step, range(3), 1)
    first, second, third = step.outcomes
    assert isinstance(first, TaskResult)
    assert isinstance(second, Failure)
    assert (third, ran) == (None, [])


def test_each_inline_task_enters_and_leaves_its_scope(make: Any) -> None:
    scopes: list[Any] = []
    step, _ = superstep(make, [lambda state: scopes.append(current_scope().task.node)] * 2)
    before = current_scope()
    InlineExecutor().start(step, range(2), 1)
    assert scopes == ["n0", "n1"]
    assert current_scope() is before


# -- in threads


def test_outcomes_of_threads_are_in_task_order(make: Any) -> None:
    step, closed = superstep(make, [lambda state, n=n: {"y": n} for n in range(30)])
    ThreadExecutor().start(step, range(30), 4)
    assert closed.wait(TIMEOUT)
    assert outcome_writes(step) == [{"y": n} for n in range(30)]


def test_an_executor_runs_only_the_given_indices(make: Any) -> None:
    ran: list[int] = []
    step, closed = superstep(make, [lambda state, n=n: ran.append(n) for n in range(6)])
    ThreadExecutor().start(step, [1, 3, 5], 2)
    InlineExecutor().start(step, [0, 2, 4], 1)
    assert closed.wait(TIMEOUT)
    assert sorted(ran) == list(range(6))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_limit_of_running_tasks_is_kept(make: Any, limit: int) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def count_running(state: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.001)
        with lock:
            running -= 1

    step, closed = superstep(make, [count_running] * 20)
    ThreadExecutor().start(step, range(20), limit)
    assert closed.wait(TIMEOUT)
    assert 1 <= most <= limit


def test_tasks_run_concurrently_up_to_the_limit(make: Any) -> None:
    barrier = threading.Barrier(5)
    step, closed = superstep(make, [lambda state: {"y": barrier.wait(TIMEOUT)}] * 5)
    ThreadExecutor().start(step, range(5), 5)
    assert closed.wait(TIMEOUT)
    assert [outcome for outcome in step.outcomes if not isinstance(outcome, TaskResult)] == []


def test_each_task_in_a_thread_has_a_copy_of_the_callers_context(make: Any) -> None:
    seen: list[str] = []

    def read_context(state: Any) -> None:
        seen.append(CURRENT.get())
        CURRENT.set("a node")

    step, closed = superstep(make, [read_context] * 5)
    context = contextvars.copy_context()
    context.run(CURRENT.set, "the caller")
    context.run(ThreadExecutor().start, step, range(5), 1)
    assert closed.wait(TIMEOUT)
    assert (seen, context[CURRENT]) == (["the caller"] * 5, "the caller")


def test_waiting_tasks_are_not_started_after_a_failure(make: Any) -> None:
    ran: list[str] = []
    step, closed = superstep(make, [fail, *[lambda state: ran.append("ran")] * 10])
    ThreadExecutor().start(step, range(11), 1)
    assert closed.wait(TIMEOUT)
    other, ended = superstep(make, [lambda state: None])
    ThreadExecutor().start(other, [0], 1)
    assert ended.wait(TIMEOUT)
    assert ran == []
    assert isinstance(step.outcomes[0], Failure)


def test_the_result_of_a_task_is_dropped_after_a_failure(make: Any) -> None:
    running, proceed, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(state: Any) -> dict[str, Any]:
        running.set()
        proceed.wait(TIMEOUT)
        ended.set()
        return {"y": "too late"}

    def quick(state: Any) -> Any:
        running.wait(TIMEOUT)
        raise LookupError("no luck")

    step, closed = superstep(make, [slow, quick])
    ThreadExecutor().start(step, range(2), 2)
    assert closed.wait(TIMEOUT)
    proceed.set()
    assert ended.wait(TIMEOUT)
    assert step.outcomes[0] is None


def test_tasks_of_a_closed_superstep_are_not_started(make: Any) -> None:
    ran: list[str] = []
    step, _ = superstep(make, [lambda state: ran.append("ran")] * 3)
    step.close()
    ThreadExecutor().start(step, range(3), 3)
    InlineExecutor().start(step, range(3), 1)
    other, ended = superstep(make, [lambda state: None])
    ThreadExecutor().start(other, [0], 1)
    assert ended.wait(TIMEOUT)
    assert ran == []
