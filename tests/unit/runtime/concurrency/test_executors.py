"""The executors that need no event loop: in the driver's own context, and on threads."""

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

LONG = 600.0
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
Function = Callable[[Any], Any]


def superstep(make: Any, functions: Sequence[Function]) -> tuple[Superstep, threading.Event]:
    """A superstep with a task for each function, and what is set when it is closed."""
    graph = StateGraph(make.state)
    for number, function in enumerate(functions):
        graph.add_node(f"n{number}", function).add_edge(START, f"n{number}")
    tasks = make.tasks(*graph.nodes)
    closed = threading.Event()
    effect = RunTasks(make.checkpoint({"x": 1}, tasks), tasks)
    return Superstep(make.run(make.program(graph)), effect, closed.set), closed


def written(step: Superstep) -> list[Any]:
    return [outcome.writes if isinstance(outcome, TaskResult) else outcome for outcome in step.outcomes]


def fail(state: Any) -> Any:
    raise LookupError("no luck")


# -- inline


def test_inline_tasks_run_one_after_another_on_the_thread_of_the_caller(make: Any) -> None:
    ran: list[tuple[int, threading.Thread]] = []
    functions = [lambda state, n=n: ran.append((n, threading.current_thread())) for n in range(4)]
    step, closed = superstep(make, functions)
    InlineExecutor().start(step, range(4), 1)
    assert ran == [(n, threading.current_thread()) for n in range(4)]
    assert closed.is_set()


def test_inline_tasks_share_the_context_of_the_caller(make: Any) -> None:
    seen: list[str] = []

    def look(state: Any) -> None:
        seen.append(WHO.get())
        WHO.set("the node")

    step, _ = superstep(make, [look])
    context = contextvars.copy_context()
    context.run(WHO.set, "the caller")
    context.run(InlineExecutor().start, step, [0], 1)
    assert (seen, context[WHO]) == (["the caller"], "the node")


def test_inline_tasks_after_a_failure_are_not_run(make: Any) -> None:
    ran: list[str] = []
    step, _ = superstep(make, [lambda state: {"y": 1}, fail, lambda state: ran.append("ran")])
    InlineExecutor().start(step, range(3), 1)
    first, second, third = step.outcomes
    assert isinstance(first, TaskResult)
    assert isinstance(second, Failure)
    assert (third, ran) == (None, [])


def test_a_scope_is_entered_for_each_inline_task_and_left_afterwards(make: Any) -> None:
    scopes: list[Any] = []
    step, _ = superstep(make, [lambda state: scopes.append(current_scope().task.node)] * 2)
    before = current_scope()
    InlineExecutor().start(step, range(2), 1)
    assert scopes == ["n0", "n1"]
    assert current_scope() is before


# -- on threads


def test_tasks_on_threads_land_in_their_places(make: Any) -> None:
    step, closed = superstep(make, [lambda state, n=n: {"y": n} for n in range(30)])
    ThreadExecutor().start(step, range(30), 4)
    assert closed.wait(LONG)
    assert written(step) == [{"y": n} for n in range(30)]


def test_only_the_places_that_are_given_are_run(make: Any) -> None:
    ran: list[int] = []
    step, closed = superstep(make, [lambda state, n=n: ran.append(n) for n in range(6)])
    ThreadExecutor().start(step, [1, 3, 5], 2)
    InlineExecutor().start(step, [0, 2, 4], 1)
    assert closed.wait(LONG)
    assert sorted(ran) == list(range(6))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_never_more_tasks_are_in_flight_than_may_be(make: Any, limit: int) -> None:
    lock, flying, most = threading.Lock(), 0, 0

    def fly(state: Any) -> None:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        threading.Event().wait(0.001)
        with lock:
            flying -= 1

    step, closed = superstep(make, [fly] * 20)
    ThreadExecutor().start(step, range(20), limit)
    assert closed.wait(LONG)
    assert 1 <= most <= limit


def test_as_many_tasks_are_in_flight_as_may_be(make: Any) -> None:
    together = threading.Barrier(5)
    step, closed = superstep(make, [lambda state: {"y": together.wait(LONG)}] * 5)
    ThreadExecutor().start(step, range(5), 5)
    assert closed.wait(LONG)
    assert [outcome for outcome in step.outcomes if not isinstance(outcome, TaskResult)] == []


def test_a_task_on_a_thread_sees_the_context_of_the_caller_and_none_of_the_others(make: Any) -> None:
    seen: list[str] = []

    def look(state: Any) -> None:
        seen.append(WHO.get())
        WHO.set("a node")

    step, closed = superstep(make, [look] * 5)
    context = contextvars.copy_context()
    context.run(WHO.set, "the caller")
    context.run(ThreadExecutor().start, step, range(5), 1)
    assert closed.wait(LONG)
    assert (seen, context[WHO]) == (["the caller"] * 5, "the caller")


def test_what_waits_when_the_first_one_fails_is_not_started(make: Any) -> None:
    ran: list[str] = []
    step, closed = superstep(make, [fail, *[lambda state: ran.append("ran")] * 10])
    ThreadExecutor().start(step, range(11), 1)
    assert closed.wait(LONG)
    other, ended = superstep(make, [lambda state: None])
    ThreadExecutor().start(other, [0], 1)
    assert ended.wait(LONG)
    assert ran == []
    assert isinstance(step.outcomes[0], Failure)


def test_what_is_left_running_cannot_write_any_more(make: Any) -> None:
    running, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(state: Any) -> dict[str, Any]:
        running.set()
        go_on.wait(LONG)
        ended.set()
        return {"y": "too late"}

    def quick(state: Any) -> Any:
        running.wait(LONG)
        raise LookupError("no luck")

    step, closed = superstep(make, [slow, quick])
    ThreadExecutor().start(step, range(2), 2)
    assert closed.wait(LONG)
    go_on.set()
    assert ended.wait(LONG)
    assert step.outcomes[0] is None


def test_nothing_is_started_of_a_superstep_that_is_closed(make: Any) -> None:
    ran: list[str] = []
    step, _ = superstep(make, [lambda state: ran.append("ran")] * 3)
    step.close()
    ThreadExecutor().start(step, range(3), 3)
    InlineExecutor().start(step, range(3), 1)
    other, ended = superstep(make, [lambda state: None])
    ThreadExecutor().start(other, [0], 1)
    assert ended.wait(LONG)
    assert ran == []
