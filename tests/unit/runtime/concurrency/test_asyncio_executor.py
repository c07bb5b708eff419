"""The executor on an event loop: one asyncio task per running task, up to a limit."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.checkpoint import TaskResult
from statewright.runtime.concurrency.asyncio_executor import LoopExecutor
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.invocation.outcome import Failure

CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")


class RunningSuperstep:
    """A superstep of coroutine functions on the running loop."""

    def __init__(self, make: Any, functions: Sequence[Callable[..., Any]]) -> None:
        graph = StateGraph(make.state)
        for number, function in enumerate(functions):
            graph.add_node(f"n{number}", function).add_edge(START, f"n{number}")
        tasks = make.tasks(*graph.nodes)
        loop = asyncio.get_running_loop()
        self._closed = loop.create_future()
        effect = RunTasks(make.checkpoint({"x": 1}, tasks), tasks)
        self.step = Superstep(make.run(make.program(graph)), effect, lambda: self._closed.set_result(None))
        self.executor = LoopExecutor(loop)

    def start(self, limit: int = 1000) -> None:
        self.executor.start(self.step, range(len(self.step.tasks)), limit)

    async def end(self) -> list[Any]:
        await asyncio.wait_for(self._closed, 600)
        await asyncio.sleep(0)
        return [outcome.writes if isinstance(outcome, TaskResult) else outcome for outcome in self.step.outcomes]


def returning(number: int) -> Callable[..., Any]:
    async def node(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"y": number}

    return node


def test_outcomes_are_in_task_order(make: Any) -> None:
    async def main() -> list[Any]:
        running = RunningSuperstep(make, [returning(number) for number in range(20)])
        running.start(3)
        return await running.end()

    assert asyncio.run(main()) == [{"y": number} for number in range(20)]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_tasks_run_concurrently_up_to_the_limit(make: Any, limit: int) -> None:
    running_count, most = 0, 0

    async def count_running(state: Any) -> None:
        nonlocal running_count, most
        running_count += 1
        most = max(most, running_count)
        for _ in range(5):
            await asyncio.sleep(0)
        running_count -= 1

    async def main() -> None:
        running = RunningSuperstep(make, [count_running] * 20)
        running.start(limit)
        await running.end()

    asyncio.run(main())
    assert most == min(limit, 20)


def test_waiting_tasks_have_no_asyncio_task(make: Any) -> None:
    async def main() -> int:
        before = len(asyncio.all_tasks())
        running = RunningSuperstep(make, [returning(number) for number in range(50)])
        running.start(4)
        count = len(asyncio.all_tasks()) - before
        await running.end()
        return count

    assert asyncio.run(main()) == 4


def test_a_long_queue_of_coroutines_needs_no_recursion(make: Any) -> None:
    async def node(state: Any) -> dict[str, Any]:
        return {"y": 1}

    async def main() -> int:
        running = RunningSuperstep(make, [node] * 3000)
        running.start(1)
        return len(await running.end())

    assert asyncio.run(main()) == 3000


def test_each_task_has_a_copy_of_the_callers_context(make: Any) -> None:
    seen: list[str] = []

    async def read_context(state: Any) -> None:
        seen.append(CURRENT.get())
        CURRENT.set("a node")

    async def main() -> str:
        CURRENT.set("the caller")
        running = RunningSuperstep(make, [read_context] * 5)
        running.start(1)
        await running.end()
        return CURRENT.get()

    assert asyncio.run(main()) == "the caller"
    assert seen == ["the caller"] * 5


def test_no_task_is_started_after_a_failure(make: Any) -> None:
    started: list[int] = []

    def node(number: int) -> Callable[..., Any]:
        async def start(state: Any) -> None:
            started.append(number)
            if number == 2:
                raise LookupError("no luck")

        return start

    async def main() -> list[Any]:
        running = RunningSuperstep(make, [node(number) for number in range(10)])
        running.start(1)
        outcomes = await running.end()
        for _ in range(10):
            await asyncio.sleep(0)
        return outcomes

    outcomes = asyncio.run(main())
    assert started == [0, 1, 2]
    assert isinstance(outcomes[2], Failure)
    assert outcomes[3:] == [None] * 7


def test_cancelling_waits_for_the_cleanup_of_all_tasks(make: Any) -> None:
    cleaned: list[str] = []

    async def forever(state: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")

    async def main() -> tuple[bool, bool]:
        running = RunningSuperstep(make, [forever] * 3)
        running.start()
        await asyncio.sleep(0)
        running.step.close()
        before = running.executor.has_running
        await running.executor.cancel()
        return before, running.executor.has_running

    assert asyncio.run(main()) == (True, False)
    assert cleaned == ["clean"] * 3


def test_has_running_is_false_after_all_tasks_have_ended(make: Any) -> None:
    async def main() -> bool:
        running = RunningSuperstep(make, [returning(1), returning(2)])
        running.start()
        await running.end()
        await running.executor.cancel()
        return running.executor.has_running

    assert asyncio.run(main()) is False


def test_plain_functions_run_in_another_thread(make: Any) -> None:
    import threading

    threads: list[threading.Thread] = []

    async def main() -> None:
        running = RunningSuperstep(make, [lambda state: threads.append(threading.current_thread()), returning(1)])
        running.start()
        await running.end()

    asyncio.run(main())
    assert threads[0] is not threading.current_thread()
