"""The current task."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from statewright import START, InMemorySaver, Instrument, RetryPolicy, Runtime, StateGraph, append, entrypoint, task
from statewright.events import Event
from statewright.observe.capture import TaskAttempt, current_attempt


class TaskIds(Instrument):
    """The ids of the tasks of the run's own graph, by node."""

    def __init__(self) -> None:
        self.by_node: dict[str | None, str | None] = {}

    def on_task_started(self, event: Event) -> None:
        if not event.namespace:
            self.by_node[event.node] = event.task_id


def compile_graph(graph: StateGraph, ids: TaskIds, saver: Any = None) -> Any:
    return graph.compile(saver, instruments=[ids])


def parallel(**nodes: Any) -> StateGraph:
    graph = StateGraph({"log": append})
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph


def test_there_is_no_current_task_outside_of_tasks() -> None:
    assert current_attempt() is None


@pytest.mark.parametrize("drives_async", [False, True])
def test_concurrent_tasks_are_distinguished(drives_async: bool) -> None:
    result: dict[str, TaskAttempt | None] = {}
    ids = TaskIds()

    def plain(state: Any) -> None:
        result["plain"] = current_attempt()

    async def coroutine(state: Any) -> None:
        await asyncio.sleep(0)
        result["coroutine"] = current_attempt()

    app = compile_graph(parallel(plain=plain, coroutine=coroutine), ids)
    asyncio.run(app.ainvoke({})) if drives_async else app.invoke({})
    assert result == {name: TaskAttempt(ids.by_node[name] or "", name, 1) for name in ("plain", "coroutine")}
    assert current_attempt() is None


@pytest.mark.parametrize("saver", [None, InMemorySaver])
@pytest.mark.parametrize("memory", ["call", "none"])
def test_output_of_a_subgraph_belongs_to_the_calling_task(saver: Any, memory: Any) -> None:
    result: list[TaskAttempt | None] = []
    ids = TaskIds()
    innermost = parallel(deep=lambda state: result.append(current_attempt())).compile()
    inner = parallel(within=innermost).compile()
    graph = StateGraph({"log": append}).add_node("outer", inner, memory=memory).add_edge(START, "outer")
    compile_graph(graph, ids, saver and saver()).invoke({}, **({"thread_id": "t"} if saver else {}))
    assert result == [TaskAttempt(ids.by_node["outer"] or "", "deep", 1)]


def test_attempts_are_distinguished() -> None:
    result: list[TaskAttempt | None] = []

    def flaky(state: Any) -> None:
        result.append(current_attempt())
        if len(result) < 3:
            raise ValueError("no")

    policy = RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False, retry_on=ValueError)
    graph = StateGraph({"log": append}).add_node("n", flaky, retry_policy=policy).add_edge(START, "n")
    graph.compile().invoke({})
    assert [attempt and attempt.attempt for attempt in result] == [1, 2, 3]


def test_output_of_a_called_task_belongs_to_its_caller() -> None:
    result: list[TaskAttempt | None] = []
    ids: list[str] = []

    @task
    def part(number: int) -> int:
        result.append(current_attempt())
        return number

    @entrypoint()
    def whole(number: int, runtime: Runtime[Any]) -> int:
        ids.append(runtime.execution_info.task_id)
        return part(number).result()

    whole.invoke(1)
    assert [attempt and attempt.task_id for attempt in result] == ids


def test_a_thread_has_a_current_task_only_in_the_context_of_a_node() -> None:
    result: list[TaskAttempt | None] = []

    def node(state: Any) -> None:
        def record_task() -> None:
            result.append(current_attempt())

        for args in ((record_task,), (contextvars.copy_context().run, record_task)):
            thread = threading.Thread(target=args[0], args=args[1:])
            thread.start()
            thread.join()

    parallel(n=node).compile().invoke({})
    assert [attempt and attempt.node for attempt in result] == [None, "n"]


def test_an_abandoned_attempt_is_not_the_current_task() -> None:
    result: list[TaskAttempt | None] = []
    proceed, done = threading.Event(), threading.Event()

    def slow(state: Any) -> None:
        proceed.wait(600)
        result.append(current_attempt())
        done.set()

    graph = StateGraph({"log": append}).add_node("n", slow, timeout=0.01).add_edge(START, "n")
    with pytest.raises(TimeoutError):
        graph.compile().invoke({})
    proceed.set()
    assert done.wait(600)
    assert result == [None]
