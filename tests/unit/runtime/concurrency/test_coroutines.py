"""Coroutine nodes of runs without an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.checkpoint import TaskResult
from statewright.runtime.concurrency.private_loop import borrow_loop, return_loop, start_coroutines
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.core.effects import RunTasks

TIMEOUT = 600.0
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")


def superstep(make: Any, functions: Sequence[Callable[..., Any]]) -> tuple[Superstep, threading.Event]:
    """Return a superstep with a task for each function, and an event that is set when it is closed."""
    graph = StateGraph(make.state)
    for number, function in enumerate(functions):
        graph.add_node(f"n{number}", function).add_edge(START, f"n{number}")
    tasks = make.tasks(*graph.nodes)
    closed = threading.Event()
    effect = RunTasks(make.checkpoint({"x": 1}, tasks), tasks)
    return Superstep(make.run(make.program(graph)), effect, closed.set), closed


def next_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that would be borrowed next."""
    loop = borrow_loop()
    return_loop(loop, idle=True)
    return loop


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_coroutines_of_a_superstep_run_on_one_loop(make: Any, limit: int | None) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def node(state: Any) -> dict[str, Any]:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return {"y": 1}

    step, closed = superstep(make, [node] * 5)
    coroutines = start_coroutines(step, range(5), limit)
    assert closed.wait(TIMEOUT)
    coroutines.end(wait=True)
    assert [outcome.writes for outcome in step.outcomes if isinstance(outcome, TaskResult)] == [{"y": 1}] * 5
    assert (len(set(loops)), len(loops)) == (1, 5)


def test_coroutines_have_copies_of_the_callers_context(make: Any) -> None:
    seen: list[str] = []

    async def read_context(state: Any) -> None:
        seen.append(CURRENT.get())
        CURRENT.set("a node")

    def run() -> str:
        CURRENT.set("the caller")
        step, closed = superstep(make, [read_context] * 3)
        coroutines = start_coroutines(step, range(3), 1)
        assert closed.wait(TIMEOUT)
        coroutines.end(wait=True)
        return CURRENT.get()

    assert contextvars.copy_context().run(run) == "the caller"
    assert seen == ["the caller"] * 3


def test_the_loop_is_returned_after_all_coroutines_have_ended(make: Any) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def node(state: Any) -> None:
        loops.append(asyncio.get_running_loop())

    step, closed = superstep(make, [node])
    coroutines = start_coroutines(step, [0], None)
    assert closed.wait(TIMEOUT)
    coroutines.end(wait=True)
    assert next_loop() is loops[0]


def test_ending_cancels_running_coroutines_and_waits_for_their_cleanup(make: Any) -> None:
    running, cleaned = threading.Event(), list[str]()

    async def forever(state: Any) -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            cleaned.append("clean")

    step, _ = superstep(make, [forever])
    coroutines = start_coroutines(step, [0], None)
    assert running.wait(TIMEOUT)
    step.close()
    coroutines.end(wait=True)
    assert cleaned == ["clean"]


def test_ending_without_waiting_leaves_the_cleanup_to_the_loop(make: Any) -> None:
    running, proceed, cleaned = threading.Event(), threading.Event(), threading.Event()

    async def forever(state: Any) -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            while not proceed.is_set():
                await asyncio.sleep(0)
            cleaned.set()

    step, _ = superstep(make, [forever])
    coroutines = start_coroutines(step, [0], None)
    assert running.wait(TIMEOUT)
    step.close()
    coroutines.end(wait=False)
    assert not cleaned.is_set()
    proceed.set()
    assert cleaned.wait(TIMEOUT)


def test_tasks_of_a_closed_superstep_are_not_started(make: Any) -> None:
    ran: list[str] = []

    async def node(state: Any) -> None:
        ran.append("ran")

    step, _ = superstep(make, [node])
    step.close()
    coroutines = start_coroutines(step, [0], None)
    coroutines.end(wait=True)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), next_loop()).result(TIMEOUT)
    assert ran == []
