"""Functions that run in other processes for tools and for iterations of workflows in YAML."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import remote_functions as nodes
from tests.ray_cluster import needs_ray, shared_executor
from tests.remote_functions import marks

from statewright.errors import InvalidConfig, RemoteCallError
from statewright.executors import Executor, ProcessExecutor, RemoteFunction
from statewright.workflow.states import load_workflow
from statewright.workflow.states.handlers import Call, Outcome
from statewright.workflow.states.nodes import NodeKinds

pytestmark = pytest.mark.filterwarnings("ignore::Warning:ray")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as pool:
        yield pool


@pytest.fixture(params=["process", pytest.param("ray", marks=[needs_ray, pytest.mark.sampled])])
def executor(request: pytest.FixtureRequest, pool: ProcessExecutor) -> Executor:
    return pool if request.param == "process" else shared_executor()


WORKFLOW = """
custom_nodes:
  - {id: list_numbers, custom_node_id: numbers}
  - {id: compute, custom_node_id: squares}
states:
  - {id: begin, custom_node_id: list_numbers, next: {state_id: square, iter_key: .}}
  - {id: square, custom_node_id: compute, next: {state_id: end, iter_key: .}}
"""


class Numbers:
    async def perform(self, call: Call) -> Outcome:
        return Outcome(list(range(40)))


class Squares:
    """Computes each item in another process."""

    def __init__(self, function: RemoteFunction[[int], Any]) -> None:
        self._function = function

    async def perform(self, call: Call) -> Outcome:
        return Outcome(await self._function(call.item))


def test_an_iteration_of_a_workflow_computes_its_items_elsewhere(executor: Executor) -> None:
    kinds = NodeKinds()
    kinds.register("numbers", lambda node, resources: Numbers())
    square = RemoteFunction(nodes.square_and_pid, executor)
    kinds.register("squares", lambda node, resources: Squares(square))
    app = load_workflow(WORKFLOW, node_kinds=kinds).compile(node_kinds=kinds)
    outputs = [visit["output"] for visit in app.invoke({"input": "go"})["visits"] if visit["state"] == "square"]
    assert [square for square, _ in outputs] == [number * number for number in range(40)]
    assert os.getpid() not in {pid for _, pid in outputs}


def test_a_remote_function_can_be_called_on_several_loops(executor: Executor) -> None:
    function = RemoteFunction(nodes.double, executor)

    async def call_many() -> list[int]:
        return await asyncio.gather(*(function(number) for number in range(20)))

    for _ in range(2):
        assert asyncio.run(call_many()) == list(range(0, 40, 2))


def test_an_error_of_a_remote_function_keeps_its_type(executor: Executor) -> None:
    with pytest.raises(nodes.Fragile, match="code 7 at here"):
        asyncio.run(call(RemoteFunction(nodes.fail, executor), "fragile"))


def test_a_result_that_cannot_be_sent_is_an_error_of_its_call_alone(pool: ProcessExecutor) -> None:
    function = RemoteFunction(nodes.return_unpicklable, pool)

    async def call_both() -> list[Any]:
        calls = [function(item) for item in ("good", "bad", "fine")]
        return await asyncio.gather(*calls, return_exceptions=True)

    good, bad, fine = asyncio.run(call_both())
    assert (good, fine) == ({"results": ["good"]}, {"results": ["fine"]})
    assert isinstance(bad, RemoteCallError)


def test_cancelling_the_coroutine_kills_the_call(executor: Executor, tmp_path: Path) -> None:
    function = RemoteFunction(nodes.block, executor)

    async def cancel() -> None:
        task = asyncio.create_task(call(function, (str(tmp_path), 0)))
        while not marks(tmp_path, 0):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (pid,) = marks(tmp_path, 0)
        while nodes.is_running(pid):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(cancel(), 60))


async def call(function: Any, item: Any) -> Any:
    return await function(item)


def test_mistakes_are_found_when_the_function_is_wrapped(pool: ProcessExecutor) -> None:
    with pytest.raises(InvalidConfig, match=r"no executor 'proces'.*Did you mean 'process'"):
        RemoteFunction(nodes.double, "proces")
    with pytest.raises(InvalidConfig, match="has no resource 'gpu'"):
        RemoteFunction(nodes.double, pool, resources={"gpu": 1})
    with pytest.raises(InvalidConfig, match="the resource 'cpu' is -1, which must be a finite number"):
        RemoteFunction(nodes.double, pool, resources={"cpu": -1})
    with pytest.raises(InvalidConfig, match="is a coroutine function"):
        RemoteFunction(nodes.square_async, pool)
