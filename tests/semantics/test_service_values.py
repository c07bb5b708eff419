"""Values of all kinds in inputs, states, questions and results of runs, and graphs of all kinds as runs."""

from __future__ import annotations

import asyncio
import json
import math
import operator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    RunStorage,
    events_of,
    run_until_idle,
    serving,
    types_of,
    wait_until,
)

from statewright import END, START, InMemorySaver, InMemoryStore, MessagesState, Runtime, StateGraph, interrupt
from statewright.agents import Agent, Network
from statewright.errors import InvalidRequest
from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.runs import ENDED, RunStatus
from statewright.service import Catalog, RunFilter, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
INSTANT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def graph_of(name: str, *nodes: Any) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def returning(value: Any) -> Any:
    def work(state: State) -> State:
        return {"log": [value]}

    return work


def finish(state: State) -> State:
    return {"log": ["end"]}


async def settled(service: Any, run: Any) -> Any:
    """Return the run once it has ended or waits, without a claim."""
    async with asyncio.timeout(PATIENCE):
        while True:
            current = await service.run(WS, run.id)
            if current.claim is None and current.status in (*ENDED, RunStatus.WAITING):
                return current
            await asyncio.sleep(0.005)


async def run_of(service: Any, graph: str) -> Any:
    return await settled(service, (await service.start(WS, StartRun(graph=graph))).run)


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    at: datetime
    n: int = 1


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1}, [1]),
        ((1, 2), [1, 2]),
        (b"\xff\xfe", "__4="),
        ({1: 2}, {"1": 2}),
        ({(1, 2): 3}, {"1,2": 3}),
        ("\U0001f600\u2028\x00é", "\U0001f600\u2028\x00é"),
        (2**200, 2**200),
        (1j, "1j"),
        (INSTANT, "2030-01-02T03:04:05Z"),
        (date(2030, 1, 2), "2030-01-02"),
        (timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([[[[]]], None, True, 0.1], [[[[]]], None, True, 0.1]),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
async def test_state_values_are_shown_as_json(run_storage: RunStorage, value: Any, expected: Any) -> None:
    async with serving(run_storage, graph_of("work", returning(value), finish), settings=QUICK) as service:
        run = await run_of(service, "work")
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": [expected, "end"]})
        assert await service.state(WS, run.id) == run.output


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_nan_and_infinity_are_shown_as_valid_json(run_storage: RunStorage, value: float) -> None:
    async with serving(run_storage, graph_of("work", returning(value)), settings=QUICK) as service:
        run = await run_of(service, "work")
        assert run.status is RunStatus.COMPLETED
        json.dumps(run.output, allow_nan=False)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="object"),
        pytest.param("\ud800", id="surrogate"),
        pytest.param(Point(1), id="class"),
    ],
)
async def test_a_result_that_cannot_be_saved_fails_the_run(tmp_path: Path, value: Any) -> None:
    run_storage = RunStorage(tmp_path / "runs.db")
    try:
        async with serving(run_storage, graph_of("work", returning(value)), settings=QUICK) as service:
            run = await run_of(service, "work")
            assert (run.status, run.error["message"] != "") == (RunStatus.FAILED, True)
    finally:
        run_storage.close()


async def test_a_circular_result_fails_the_run(run_storage: RunStorage) -> None:
    circular: list[Any] = []
    circular.append(circular)
    async with serving(run_storage, graph_of("work", returning(circular)), settings=QUICK) as service:
        run = await run_of(service, "work")
        assert (run.status, "ircular" in run.error["message"]) == (RunStatus.FAILED, True)


async def test_a_result_that_is_too_large_fails_the_run(run_storage: RunStorage) -> None:
    settings = ServiceSettings(max_output=1000, poll_interval=0.02)
    async with serving(run_storage, graph_of("work", returning("x" * 2000)), settings=settings) as service:
        assert (await run_of(service, "work")).status is RunStatus.FAILED


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("\ud800"), id="surrogate"),
        pytest.param(ValueError("\x00"), id="nul"),
        pytest.param(ErrorWithoutText(), id="no text"),
        pytest.param(ValueError("x" * 100_000), id="long"),
    ],
)
async def test_an_error_with_an_unusual_message_fails_the_run(tmp_path: Path, error: Exception) -> None:
    def fail(state: State) -> State:
        raise error

    run_storage = RunStorage(tmp_path / "runs.db")
    try:
        async with serving(run_storage, graph_of("fail", fail), settings=QUICK) as service:
            run = await run_of(service, "fail")
            assert (run.status, len(run.error["message"]) < 5000) == (RunStatus.FAILED, True)
    finally:
        run_storage.close()


async def test_questions_and_answers_of_any_json_value_are_kept(run_storage: RunStorage) -> None:
    question: dict[str, Any] = {"at": INSTANT, "some": {1}, "letter": "ä\x00", "deep": [[{"a": None}]]}

    def ask(state: State) -> State:
        return {"log": [interrupt(question)]}

    async with serving(run_storage, graph_of("ask", ask, finish), settings=QUICK) as service:
        for answer in (None, False, 0, "", [], {}, {"a": [1, None]}, "ä\U0001f600", 1.5):
            run = await run_until_idle(service, "ask")
            [wait] = [wait for wait in (await service.waits(WS)).items if wait.run_id == run.id]
            assert wait.value == {"at": "2030-01-02T03:04:05Z", "some": [1], "letter": "ä\x00", "deep": [[{"a": None}]]}
            await service.answer(WS, run.id, {wait.id: answer})
            run = await wait_until(lambda run=run: _ended(service, run))
            assert run.output == {"log": [answer, "end"]}


async def _ended(service: Any, run: Any) -> Any:
    current = await service.run(WS, run.id)
    return current if current.status in ENDED else None


@pytest.mark.parametrize("run_input", ["text", 5, [1, 2], True])
async def test_an_input_that_is_not_a_mapping_fails_the_run_with_a_reason(
    run_storage: RunStorage, run_input: Any
) -> None:
    async with serving(run_storage, graph_of("finish", finish), settings=QUICK) as service:
        run = await run_until_idle(service, "finish", run_input)
        assert (run.status, run.input) == (RunStatus.FAILED, run_input)
        assert "mapping" in run.error["message"] or "log" in run.error["message"]


async def test_input_that_is_not_json_is_refused_on_arrival(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("finish", finish), settings=QUICK) as service:
        for run_input in ({"a": object()}, {"a": "\ud800"}):
            with pytest.raises(InvalidRequest, match="cannot be represented as JSON"):
                await service.start(WS, StartRun(graph="finish", input=run_input))
        assert (await service.runs(WS, RunFilter())).total == 0


async def test_a_start_time_without_a_time_zone_is_refused(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("finish", finish), settings=QUICK) as service:
        with pytest.raises(InvalidRequest):
            await service.start(WS, StartRun(graph="finish", after=datetime(2030, 1, 1)))


async def test_nodes_cannot_change_the_recorded_input(run_storage: RunStorage) -> None:
    run_input = {"log": [{"a": 1}]}

    def change_input(state: State) -> State:
        state["log"][0]["a"] = 2
        state["log"].append("more")
        return {}

    async with serving(run_storage, graph_of("change_input", change_input, finish), settings=QUICK) as service:
        run = await run_until_idle(service, "change_input", run_input)
        assert (await service.run(WS, run.id)).input == {"log": [{"a": 1}]}


# -- graphs of all kinds


async def test_messages_in_a_state_are_shown_as_objects(run_storage: RunStorage) -> None:
    def greet(state: MessagesState) -> dict[str, Any]:
        return {"messages": [Message(role="assistant", content="hello")]}

    graph = StateGraph(MessagesState, name="greet")
    graph.add_node("greet", greet)
    graph.add_edge(START, "greet")
    graph.add_edge("greet", END)
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "greet", {"messages": [{"role": "user", "content": "hi"}]})
        messages = run.output["messages"]
        assert [(message["role"], message["content"]) for message in messages] == [
            ("user", "hi"),
            ("assistant", "hello"),
        ]


async def test_the_state_may_be_a_model_or_a_dataclass(run_storage: RunStorage) -> None:
    @dataclass
    class Counter:
        n: int = 0

    def count_in_dataclass(state: Counter) -> dict[str, Any]:
        return {"n": state.n + 1}

    def count_in_model(state: Model) -> dict[str, Any]:
        return {"n": state.n + 1}

    dataclass_graph, model_graph = StateGraph(Counter, name="dataclass"), StateGraph(Model, name="model")
    for graph, node in ((dataclass_graph, count_in_dataclass), (model_graph, count_in_model)):
        graph.add_node("count", node)
        graph.add_edge(START, "count")
        graph.add_edge("count", END)
    async with serving(run_storage, dataclass_graph, model_graph, settings=QUICK) as service:
        assert (await run_until_idle(service, "dataclass", {"n": 1})).output == {"n": 2}
        run = await run_until_idle(service, "model", {"at": "2030-01-02T03:04:05Z"})
        assert run.output == {"at": "2030-01-02T03:04:05Z", "n": 2}
        failed = await run_until_idle(service, "model", {"at": "never"})
        assert (failed.status, "at" in failed.error["message"]) == (RunStatus.FAILED, True)


async def test_runs_of_agents_and_networks_record_their_cost(run_storage: RunStorage) -> None:
    agent = Agent("writer", model=ScriptedModel(["dear", "all"]), system="Write.")
    worker = Agent("worker", model=ScriptedModel(["done"]), system="Work.")
    network = Network("net", agents=[worker], router=lambda call_count: worker if not call_count else None)
    catalog = Catalog()
    catalog.serve("writer", agent)
    catalog.serve("net", network)
    async with Service(catalog, **run_storage.views(), settings=QUICK) as service:
        for graph, run_input in (("writer", {"input": "a letter"}), ("net", {"input": "go"})):
            run = await run_until_idle(service, graph, run_input)
            assert run.status is RunStatus.COMPLETED, run.error
            assert len(await events_of(service, run, "LLM_CALL_COMPLETED")) == 1
            assert len(await service.model_calls(WS, run.id)) == 1
            assert (await service.cost(WS, run.id)).total.calls == 1
            json.dumps(run.output)


async def test_a_graph_with_its_own_saver_is_saved_by_the_service(run_storage: RunStorage) -> None:
    own, store = InMemorySaver(), InMemoryStore()

    def remember(state: State, runtime: Runtime[Any]) -> State:
        assert runtime.store is not None
        runtime.store.put(("seen",), "run", {"n": 1})
        return {"log": ["kept"]}

    def ask(state: State) -> State:
        return {"log": [interrupt("go on?")]}

    app = graph_of("own", remember, ask).compile(checkpointer=own, store=store, clock=FakeClock())
    catalog = Catalog()
    catalog.serve("own", app)
    async with Service(catalog, **run_storage.views(), settings=QUICK) as service:
        run = await run_until_idle(service, "own")
        assert list(own.history(run.thread_id)) == []
        item = store.get(("seen",), "run")
        assert item is not None
        assert item.value == {"n": 1}
        assert abs((run.updated_at - datetime.now(UTC)).total_seconds()) < 60
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await wait_until(lambda: _ended(service, run))).output == {"log": ["kept", "yes"]}


async def test_a_step_can_start_a_child_run_with_or_without_waiting_for_it(run_storage: RunStorage) -> None:
    def start_child(state: State, runtime: Runtime[Any]) -> State:
        runtime.start_run("finish", wait=False)
        return {"log": ["started"]}

    async def await_child(state: State, runtime: Runtime[Any]) -> State:
        return {"log": runtime.start_run("finish", {"log": ["given"]}, key="mine")["log"]}

    async with serving(
        run_storage,
        graph_of("start_child", start_child, finish),
        graph_of("await_child", await_child),
        graph_of("finish", finish),
        settings=QUICK,
    ) as service:
        run = await run_until_idle(service, "start_child")
        assert run.status is RunStatus.COMPLETED
        [child] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        assert (await wait_until(lambda: _ended(service, child))).output == {"log": ["end"]}
        waiting = (await service.start(WS, StartRun(graph="await_child"))).run
        assert (await wait_until(lambda: _ended(service, waiting))).output == {"log": ["given", "end"]}


async def test_a_child_run_of_a_failed_step_does_not_start(run_storage: RunStorage) -> None:
    def start_child(state: State, runtime: Runtime[Any]) -> State:
        runtime.start_run("finish", wait=False)
        raise ValueError("no luck")

    async with serving(
        run_storage, graph_of("start_child", start_child), graph_of("finish", finish), settings=QUICK
    ) as service:
        run = await run_until_idle(service, "start_child")
        assert run.status is RunStatus.FAILED
        assert (await service.runs(WS, RunFilter(parent_id=run.id))).total == 0


async def test_starting_an_unknown_child_fails_the_parent_with_a_suggestion(run_storage: RunStorage) -> None:
    def start_child(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("finsh")]}

    def start_with_unknown_option(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("finish", thread="t")]}

    graphs = (
        graph_of("start_child", start_child),
        graph_of("wrong", start_with_unknown_option),
        graph_of("finish", finish),
    )
    async with serving(run_storage, *graphs, settings=QUICK) as service:
        run = await run_until_idle(service, "start_child")
        assert (run.status, "Did you mean 'finish'" in run.error["message"]) == (RunStatus.FAILED, True)
        run = await run_until_idle(service, "wrong")
        assert "thread_id" in run.error["message"]
        assert "WORKFLOW_FAILED" in await types_of(service, run)
