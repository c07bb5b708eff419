"""A node starts a child run exactly once, whatever fails, times out or changes."""

from __future__ import annotations

import asyncio
import itertools
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, RunStorage, run_until_idle, serving, wait_until_idle

from statewright import START, RetryPolicy, Runtime, StateGraph, get_runtime, interrupt, task
from statewright.errors import RunCancelled
from statewright.runs import Run, RunStatus
from statewright.service import RunFilter, Service

pytestmark = pytest.mark.anyio


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], operator.add]


def graph_of(name: str, node: Any, **options: Any) -> StateGraph:
    return StateGraph(State, name=name).add_node("node", node, **options).add_edge(START, "node")


def child(state: State) -> State:
    return {"log": ["child", state.get("n")]}


async def children(service: Service, run: Run) -> list[Run]:
    """The runs that a run has started, once they have ended or wait."""
    started = (await service.runs(WS, RunFilter(parent_id=run.id))).items
    return sorted([await wait_until_idle(service, kid) for kid in started], key=lambda kid: kid.input["n"])


def start(number: int = 1) -> str:
    return get_runtime().start_run("child", {"n": number}, wait=False)


class FailsOnce:
    """Fails the first time."""

    def __init__(self) -> None:
        self.times = 0

    def fail_once(self) -> None:
        self.times += 1
        if self.times == 1:
            raise ConnectionError("once")


def by_task() -> Any:
    return task(start)().result()


def by_task_of_task() -> Any:
    return task(by_task)().result()


def by_step() -> Any:
    return get_runtime().step("start", start)


def by_step_of_step() -> Any:
    return get_runtime().step("outer", by_step)


def by_step_of_task() -> Any:
    return task(by_step)().result()


def by_task_of_step() -> Any:
    return get_runtime().step("outer", by_task)


def by_graph() -> Any:
    return graph_of("inner", lambda state: {"log": [start()]}).compile().invoke({})["log"][0]


def by_task_of_graph() -> Any:
    return task(by_graph)().result()


def by_step_of_graph() -> Any:
    return get_runtime().step("outer", by_graph)


def by_graph_that_saves_nothing() -> Any:
    inner = graph_of("inner", lambda state: {"log": [start()]}).compile()
    return graph_of("middle", inner, memory="none").compile().invoke({})["log"][0]


def by_graph_of_task() -> Any:
    return graph_of("inner", lambda state: {"log": [by_task()]}).compile().invoke({})["log"][0]


CALLERS = [
    start,
    by_task,
    by_task_of_task,
    by_step,
    by_step_of_step,
    by_step_of_task,
    by_task_of_step,
    by_graph,
    by_task_of_graph,
    by_step_of_graph,
    by_graph_that_saves_nothing,
    by_graph_of_task,
]


@pytest.mark.parametrize("pauses", [False, True], ids=["", "after a question"])
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.sampled(4)
async def test_a_retry_does_not_start_a_child_run_again(run_storage: RunStorage, caller: Any, pauses: bool) -> None:
    fails = FailsOnce()

    def parent(state: State) -> State:
        started = caller()
        if pauses:
            interrupt("go on?")
        fails.fail_once()
        return {"log": [started]}

    async with serving(run_storage, graph_of("parent", parent), graph_of("child", child)) as service:
        run = await run_until_idle(service, "parent")
        if pauses:
            [wait] = (await service.waits(WS)).items
            await service.answer(WS, run.id, {wait.id: "yes"})
            run = await wait_until_idle(service, run)
        assert run.status is RunStatus.FAILED
        await service.retry(WS, run.id)
        run = await wait_until_idle(service, run)
        [kid] = await children(service, run)
        assert (run.status, kid.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
        assert run.output["log"] == [kid.id]


KEYS = [None, "0", "=0"]


@pytest.mark.parametrize("waits", list(itertools.product([False, True], repeat=2)), ids=str)
@pytest.mark.parametrize("keys", list(itertools.permutations(KEYS, 2)), ids=str)
@pytest.mark.sampled(4)
async def test_a_key_does_not_collide_with_the_position_of_a_call(
    run_storage: RunStorage, keys: Any, waits: Any
) -> None:
    def parent(state: State, runtime: Runtime[Any]) -> State:
        for number, (key, wait) in enumerate(zip(keys, waits, strict=True)):
            runtime.start_run("child", {"n": number}, key=key, wait=wait)
        return {}

    async with serving(run_storage, graph_of("parent", parent), graph_of("child", child)) as service:
        run = await service.wait(WS, (await run_until_idle(service, "parent")).id, PATIENCE)
        while run.status is not RunStatus.COMPLETED:
            assert run.status is not RunStatus.FAILED
            run = await service.wait(WS, run.id, PATIENCE)
        assert [kid.output["log"] for kid in await children(service, run)] == [["child", 0], ["child", 1]]


async def test_an_abandoned_attempt_cannot_start_a_run(run_storage: RunStorage) -> None:
    gone, refused, attempts = threading.Event(), list[Any](), list[int]()

    def parent(state: State) -> State:
        attempts.append(1)
        if len(attempts) == 1:
            gone.wait(PATIENCE)
            try:
                start()
            except RunCancelled as error:
                refused.append(error)
            ended.set()
        gone.set()
        ended.wait(PATIENCE)
        return {"log": ["second"]}

    ended = threading.Event()
    retries = RetryPolicy(max_attempts=100_000, initial_interval=0.001, backoff_factor=1, jitter=False)
    async with serving(
        run_storage, graph_of("parent", parent, timeout=1, retry_policy=retries), graph_of("child", child)
    ) as service:
        run = await wait_until_idle(service, await run_until_idle(service, "parent"))
        assert (run.status, run.output["log"]) == (RunStatus.COMPLETED, ["second"])
        assert len(refused) == 1
        assert await children(service, run) == []


@pytest.mark.parametrize("wait", [False, True])
async def test_starting_the_same_run_with_other_input_fails(run_storage: RunStorage, wait: bool) -> None:
    numbers = itertools.count()

    def parent(state: State, runtime: Runtime[Any]) -> State:
        runtime.start_run("child", {"n": next(numbers)}, wait=wait)
        interrupt("go on?")
        return {}

    async with serving(run_storage, graph_of("parent", parent), graph_of("child", child)) as service:
        run = await run_until_idle(service, "parent")
        if not wait:
            [question] = (await service.waits(WS)).items
            await service.answer(WS, run.id, {question.id: "yes"})
        while run.status is not RunStatus.FAILED:
            await asyncio.sleep(0.01)
            run = await service.run(WS, run.id)
        assert "with different arguments" in run.error["message"]
        assert [kid.input for kid in await children(service, run)] == [{"n": 0}]
