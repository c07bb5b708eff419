"""Values of all kinds in inputs, states, questions and results of runs; and graphs of all kinds as runs."""

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
from tests.semantics.on_services import PATIENCE, WS, Places, events_of, run_to_rest, serving, types_of, until

from statewright import END, START, InMemorySaver, InMemoryStore, MessagesState, Runtime, StateGraph, interrupt
from statewright.agents import Agent, Network
from statewright.errors import InvalidRequest
from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.runs import ENDED, RunStatus
from statewright.service import Catalog, RunFilter, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(look_every=0.02, drain=0.2)
FULL = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


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


def giving(value: Any) -> Any:
    def gives(state: State) -> State:
        return {"log": [value]}

    return gives


def ends(state: State) -> State:
    return {"log": ["end"]}


async def settled(service: Any, run: Any) -> Any:
    """The run once it has ended or waits, and nobody has it in hand."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await service.run(WS, run.id)
            if found.claim is None and found.status in (*ENDED, RunStatus.WAITING):
                return found
            await asyncio.sleep(0.005)


async def result_of(service: Any, graph: str) -> Any:
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
    ("value", "shown"),
    [
        ({1}, [1]),
        ((1, 2), [1, 2]),
        (b"\xff\xfe", "__4="),
        ({1: 2}, {"1": 2}),
        ({(1, 2): 3}, {"1,2": 3}),
        ("\U0001f600\u2028\x00é", "\U0001f600\u2028\x00é"),
        (2**200, 2**200),
        (1j, "1j"),
        (FULL, "2030-01-02T03:04:05Z"),
        (date(2030, 1, 2), "2030-01-02"),
        (timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([[[[]]], None, True, 0.1], [[[[]]], None, True, 0.1]),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
async def test_values_of_a_state_are_shown_as_json(place: Places, value: Any, shown: Any) -> None:
    async with serving(place, graph_of("gives", giving(value), ends), settings=QUICK) as service:
        run = await result_of(service, "gives")
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": [shown, "end"]})
        assert await service.state(WS, run.id) == run.output


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_numbers_that_json_does_not_know_are_shown_as_texts(place: Places, value: float) -> None:
    async with serving(place, graph_of("gives", giving(value)), settings=QUICK) as service:
        run = await result_of(service, "gives")
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
    place = Places(tmp_path / "runs.db")
    try:
        async with serving(place, graph_of("gives", giving(value)), settings=QUICK) as service:
            run = await result_of(service, "gives")
            assert (run.status, run.error["message"] != "") == (RunStatus.FAILED, True)
    finally:
        place.close()


async def test_a_result_that_has_no_end_fails_the_run(place: Places) -> None:
    endless: list[Any] = []
    endless.append(endless)
    async with serving(place, graph_of("gives", giving(endless)), settings=QUICK) as service:
        run = await result_of(service, "gives")
        assert (run.status, "ircular" in run.error["message"]) == (RunStatus.FAILED, True)


async def test_a_result_that_is_too_large_fails_the_run(place: Places) -> None:
    settings = ServiceSettings(max_output=1000, look_every=0.02)
    async with serving(place, graph_of("gives", giving("x" * 2000)), settings=settings) as service:
        assert (await result_of(service, "gives")).status is RunStatus.FAILED


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("\ud800"), id="surrogate"),
        pytest.param(ValueError("\x00"), id="nul"),
        pytest.param(Mute(), id="mute"),
        pytest.param(ValueError("x" * 100_000), id="long"),
    ],
)
async def test_an_error_fails_the_run_whatever_it_says(tmp_path: Path, error: Exception) -> None:
    def breaks(state: State) -> State:
        raise error

    place = Places(tmp_path / "runs.db")
    try:
        async with serving(place, graph_of("breaks", breaks), settings=QUICK) as service:
            run = await result_of(service, "breaks")
            assert (run.status, len(run.error["message"]) < 5000) == (RunStatus.FAILED, True)
    finally:
        place.close()


async def test_questions_and_answers_of_any_form_are_kept(place: Places) -> None:
    question: dict[str, Any] = {"at": FULL, "some": {1}, "letter": "ä\x00", "deep": [[{"a": None}]]}

    def asks(state: State) -> State:
        return {"log": [interrupt(question)]}

    async with serving(place, graph_of("asks", asks, ends), settings=QUICK) as service:
        for given in (None, False, 0, "", [], {}, {"a": [1, None]}, "ä\U0001f600", 1.5):
            run = await run_to_rest(service, "asks")
            [wait] = [one for one in (await service.waits(WS)).items if one.run_id == run.id]
            assert wait.value == {"at": "2030-01-02T03:04:05Z", "some": [1], "letter": "ä\x00", "deep": [[{"a": None}]]}
            await service.answer(WS, run.id, {wait.id: given})
            run = await until(lambda run=run: _ended(service, run))
            assert run.output == {"log": [given, "end"]}


async def _ended(service: Any, run: Any) -> Any:
    found = await service.run(WS, run.id)
    return found if found.status in ENDED else None


@pytest.mark.parametrize("given", ["text", 5, [1, 2], True])
async def test_an_input_that_is_not_a_map_fails_the_run_with_a_reason(place: Places, given: Any) -> None:
    async with serving(place, graph_of("ends", ends), settings=QUICK) as service:
        run = await run_to_rest(service, "ends", given)
        assert (run.status, run.input) == (RunStatus.FAILED, given)
        assert "mapping" in run.error["message"] or "log" in run.error["message"]


async def test_input_that_is_not_json_is_refused_on_arrival(place: Places) -> None:
    async with serving(place, graph_of("ends", ends), settings=QUICK) as service:
        for given in ({"a": object()}, {"a": "\ud800"}):
            with pytest.raises(InvalidRequest, match="cannot be represented as JSON"):
                await service.start(WS, StartRun(graph="ends", input=given))
        assert (await service.runs(WS, RunFilter())).total == 0


async def test_an_instant_without_a_time_zone_is_refused(place: Places) -> None:
    async with serving(place, graph_of("ends", ends), settings=QUICK) as service:
        with pytest.raises(InvalidRequest):
            await service.start(WS, StartRun(graph="ends", after=datetime(2030, 1, 1)))


async def test_the_input_is_not_changed_by_nodes(place: Places) -> None:
    given = {"log": [{"a": 1}]}

    def changes(state: State) -> State:
        state["log"][0]["a"] = 2
        state["log"].append("more")
        return {}

    async with serving(place, graph_of("changes", changes, ends), settings=QUICK) as service:
        run = await run_to_rest(service, "changes", given)
        assert (await service.run(WS, run.id)).input == {"log": [{"a": 1}]}


# -- graphs of all kinds


async def test_a_state_with_messages_is_shown_as_maps(place: Places) -> None:
    def says(state: MessagesState) -> dict[str, Any]:
        return {"messages": [Message(role="assistant", content="hello")]}

    graph = StateGraph(MessagesState, name="says")
    graph.add_node("says", says)
    graph.add_edge(START, "says")
    graph.add_edge("says", END)
    async with serving(place, graph, settings=QUICK) as service:
        run = await run_to_rest(service, "says", {"messages": [{"role": "user", "content": "hi"}]})
        told = run.output["messages"]
        assert [(one["role"], one["content"]) for one in told] == [("user", "hi"), ("assistant", "hello")]


async def test_the_state_may_be_a_model_or_a_dataclass(place: Places) -> None:
    @dataclass
    class Counted:
        n: int = 0

    def dataclassed(state: Counted) -> dict[str, Any]:
        return {"n": state.n + 1}

    def modelled(state: Model) -> dict[str, Any]:
        return {"n": state.n + 1}

    one, other = StateGraph(Counted, name="dataclass"), StateGraph(Model, name="model")
    for graph, node in ((one, dataclassed), (other, modelled)):
        graph.add_node("counts", node)
        graph.add_edge(START, "counts")
        graph.add_edge("counts", END)
    async with serving(place, one, other, settings=QUICK) as service:
        assert (await run_to_rest(service, "dataclass", {"n": 1})).output == {"n": 2}
        run = await run_to_rest(service, "model", {"at": "2030-01-02T03:04:05Z"})
        assert run.output == {"at": "2030-01-02T03:04:05Z", "n": 2}
        failed = await run_to_rest(service, "model", {"at": "never"})
        assert (failed.status, "at" in failed.error["message"]) == (RunStatus.FAILED, True)


async def test_an_agent_and_a_network_are_runs_that_cost(place: Places) -> None:
    agent = Agent("writer", model=ScriptedModel(["dear", "all"]), system="Write.")
    one = Agent("one", model=ScriptedModel(["done"]), system="Work.")
    network = Network("net", agents=[one], router=lambda call_count: one if not call_count else None)
    catalog = Catalog()
    catalog.serve("writer", agent)
    catalog.serve("net", network)
    async with Service(catalog, **place.views(), settings=QUICK) as service:
        for graph, given in (("writer", {"input": "a letter"}), ("net", {"input": "go"})):
            run = await run_to_rest(service, graph, given)
            assert run.status is RunStatus.COMPLETED, run.error
            assert len(await events_of(service, run, "LLM_CALL_COMPLETED")) == 1
            assert len(await service.model_calls(WS, run.id)) == 1
            assert (await service.cost(WS, run.id)).total.calls == 1
            json.dumps(run.output)


async def test_a_graph_with_its_own_saver_is_saved_by_the_service(place: Places) -> None:
    own, store = InMemorySaver(), InMemoryStore()

    def remembers(state: State, runtime: Runtime[Any]) -> State:
        assert runtime.store is not None
        runtime.store.put(("seen",), "run", {"n": 1})
        return {"log": ["kept"]}

    def asks(state: State) -> State:
        return {"log": [interrupt("go on?")]}

    app = graph_of("own", remembers, asks).compile(checkpointer=own, store=store, clock=FakeClock())
    catalog = Catalog()
    catalog.serve("own", app)
    async with Service(catalog, **place.views(), settings=QUICK) as service:
        run = await run_to_rest(service, "own")
        assert list(own.history(run.thread_id)) == []
        found = store.get(("seen",), "run")
        assert found is not None
        assert found.value == {"n": 1}
        assert abs((run.updated_at - datetime.now(UTC)).total_seconds()) < 60
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await until(lambda: _ended(service, run))).output == {"log": ["kept", "yes"]}


async def test_a_child_begins_only_with_the_step_that_has_started_it(place: Places) -> None:
    def starts(state: State, runtime: Runtime[Any]) -> State:
        runtime.start_run("ends", wait=False)
        return {"log": ["started"]}

    async def awaits(state: State, runtime: Runtime[Any]) -> State:
        return {"log": runtime.start_run("ends", {"log": ["given"]}, key="mine")["log"]}

    async with serving(
        place, graph_of("starts", starts, ends), graph_of("awaits", awaits), graph_of("ends", ends), settings=QUICK
    ) as service:
        run = await run_to_rest(service, "starts")
        assert run.status is RunStatus.COMPLETED
        [kid] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        assert (await until(lambda: _ended(service, kid))).output == {"log": ["end"]}
        waiting = (await service.start(WS, StartRun(graph="awaits"))).run
        assert (await until(lambda: _ended(service, waiting))).output == {"log": ["given", "end"]}


async def test_a_child_of_a_step_that_fails_does_not_begin(place: Places) -> None:
    def starts(state: State, runtime: Runtime[Any]) -> State:
        runtime.start_run("ends", wait=False)
        raise ValueError("no luck")

    async with serving(place, graph_of("starts", starts), graph_of("ends", ends), settings=QUICK) as service:
        run = await run_to_rest(service, "starts")
        assert run.status is RunStatus.FAILED
        assert (await service.runs(WS, RunFilter(parent_id=run.id))).total == 0


async def test_a_child_that_is_not_served_fails_its_parent_with_the_nearest_name(place: Places) -> None:
    def starts(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("endz")]}

    def given_too_much(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("ends", thread="t")]}

    graphs = (graph_of("starts", starts), graph_of("wrong", given_too_much), graph_of("ends", ends))
    async with serving(place, *graphs, settings=QUICK) as service:
        run = await run_to_rest(service, "starts")
        assert (run.status, "Did you mean 'ends'" in run.error["message"]) == (RunStatus.FAILED, True)
        run = await run_to_rest(service, "wrong")
        assert "thread_id" in run.error["message"]
        assert "WORKFLOW_FAILED" in await types_of(service, run)
