"""Inputs with keys that the graph does not know: refused wherever a run of one graph can be started."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import END, START, MessagesState, Runtime, StateGraph, entrypoint
from statewright.agents import Agent, Network
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.errors import InvalidRequest, InvalidUpdateError, UnknownKeyWarning
from statewright.models import ScriptedModel
from statewright.runs import Insert, Ledger, Run, RunStatus, StoredDefinition, Trigger, where
from statewright.runtime import CompiledGraph
from statewright.service import Catalog, Service, StartRun
from statewright.service.catalog.catalog import PROJECT, definition_id
from statewright.service.following.follow import wait_until_settled
from statewright.service.operations.input_check import check_begin, check_input
from statewright.service.schedules import NewSchedule, add_schedule, change_schedule
from statewright.workflow.states import load_workflow
from statewright.workflow.steps import compile_steps, read_definition


class Fields(TypedDict, total=False):
    name: str
    age: int


class OnlyName(TypedDict, total=False):
    name: str


@dataclass
class Instance:
    name: str = ""
    age: int = 0


class Model(BaseModel):
    name: str = ""
    age: int = 0


class Lenient(BaseModel, extra="allow"):
    name: str = ""


def nothing(state: Any) -> None: ...


def graph_of(schema: Any, *, input_schema: Any = None, **options: Any) -> CompiledGraph:
    graph: Any = StateGraph(schema, input_schema=input_schema, name="g")
    return graph.add_node("nothing", nothing).add_edge(START, "nothing").add_edge("nothing", END).compile(**options)


@entrypoint()
def echo(value: Any) -> Any:
    return value


def agent() -> CompiledGraph:
    return Agent("a", system="You greet.", model=ScriptedModel(["hello"] * 9)).alone().compile()


def network() -> CompiledGraph:
    greeter = Agent("a", system="You greet.", model=ScriptedModel(["hello"] * 9))
    return Network(
        "n", agents=[greeter], router=lambda call_count: None if call_count else "a", state=Instance
    ).compile()


def yaml_workflow() -> CompiledGraph:
    text = (
        "assistants:\n  - id: a\n    system_prompt: Greet.\n"
        "states:\n  - id: greet\n    assistant_id: a\n    task: Greet.\n    next: {state_id: end}\n"
    )
    return load_workflow(text).compile(script={"greet": "hello"})


def json_workflow() -> CompiledGraph:
    step = {"name": "choose", "type": "condition", "expression": "a", "trueStep": "end", "falseStep": "end"}
    end = {"name": "end", "type": "wait", "durationMs": 1}
    return compile_steps(read_definition({"name": "flow", "version": "1", "steps": [step, end]}))


GRAPHS: dict[str, Callable[[], Any]] = {
    "a TypedDict": lambda: graph_of(Fields),
    "a dataclass": lambda: graph_of(Instance),
    "a pydantic model": lambda: graph_of(Model),
    "a pydantic model with extra fields": lambda: graph_of(Lenient),
    "an input schema": lambda: graph_of(Fields, input_schema=OnlyName),
    "a dict of types": lambda: graph_of({"name": str}),
    "any keys": lambda: graph_of(dict),
    "a single value": lambda: graph_of(int),
    "messages": lambda: graph_of(MessagesState),
    "unknown keys as errors": lambda: graph_of(Fields, unknown_keys="error"),
    "unknown keys dropped": lambda: graph_of(Fields, unknown_keys="drop"),
    "a function": lambda: echo,
    "an agent": agent,
    "a network with a class of data": network,
    "states in YAML": yaml_workflow,
    "steps in JSON": json_workflow,
}
INPUTS: list[Any] = [
    {},
    {"name": "Ann"},
    {"name": "Ann", "age": 3},
    {"nmae": "Ann"},
    {"name": "Ann", "agge": 3},
    {"input": "hi"},
    {"inptu": "hi"},
    {"data.name": "Ann"},
    {"input": "hi", "data.name": "Ann"},
    {"input": "hi", "data.nmae": "Ann"},
    {"messages": [{"role": "user", "content": "hi"}]},
    {"role": "user", "content": "hi"},
    [{"name": "Ann"}, {"nmae": "Ann"}],
    [],
    [{"role": "user", "content": "hi"}],
    3,
]


def mentions_unknown_key(app: CompiledGraph, value: Any) -> bool:
    """Return whether a call in Python warns about, or refuses, an unknown key."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            app.with_services(checkpointer=InMemorySaver()).invoke(value, thread_id="t")
        except InvalidUpdateError as error:
            return "unknown key" in str(error) or "has no field" in str(error)
        except Exception:
            return False
    return any(warning.category is UnknownKeyWarning for warning in caught)


def definition_of(kind: Any = "graph") -> StoredDefinition:
    fields: Any = {"version": "1", "kind": kind, "digest": "1", "created_at": None}
    return StoredDefinition(id="def_1", workspace_id=PROJECT, name="g", **fields)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_service_refuses_the_inputs_about_which_python_warns_and_no_others(name: str) -> None:
    for value in INPUTS:
        app = GRAPHS[name]()  # a graph warns only once about a key
        is_refused = False
        try:
            check_input(definition_of(), app, value, "api")
        except InvalidRequest:
            is_refused = True
        assert is_refused == mentions_unknown_key(app, value), value


def test_the_table_of_graphs_has_both_kinds() -> None:
    refusing = {name for name in GRAPHS if mentions_unknown_key(GRAPHS[name](), {"inptu": 1})}
    assert {"a TypedDict", "an agent", "states in YAML"} <= refusing
    assert {"any keys", "unknown keys dropped", "steps in JSON"} <= GRAPHS.keys() - refusing


def test_all_unknown_keys_are_reported_together_with_their_places_and_similar_names() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_input(definition_of(), graph_of(Fields), {"nmae": "Ann", "agge": 3}, "api")
    message = str(caught.value)
    for part in ("Graph 'g'", "'nmae'", "Did you mean 'name'?", "'agge'", "Did you mean 'age'?", "Fields: age, name."):
        assert part in message
    problems = caught.value.details["problems"]
    assert [problem["path"] for problem in problems] == ["input.nmae", "input.agge"]
    assert all(problem["message"] in message for problem in problems)


def test_a_run_that_begins_is_refused_with_the_same_message(new_run: Callable[..., Run]) -> None:
    app, value = graph_of(Fields), {"nmae": "Ann"}
    with pytest.raises(InvalidRequest) as at_start:
        check_input(definition_of(), app, value, "api")
    with pytest.raises(InvalidUpdateError) as at_begin:
        check_begin(new_run(graph="g", input=value), app)
    assert str(at_begin.value) == str(at_start.value)


@pytest.mark.parametrize("source", ["event:evt_1", "failure:run_1"])
def test_input_that_is_not_written_for_one_graph_may_have_further_keys(
    source: str, new_run: Callable[..., Run]
) -> None:
    app, value = graph_of(Fields), {"name": "Ann", "order": 7}
    check_input(definition_of(), app, value, source)
    check_begin(new_run(input=value, source=source), app)


# -- the doors


class Doors:
    """A service with a graph, and everything by which runs of it can be started."""

    def __init__(self, storage: tuple[Ledger, Checkpointer]) -> None:
        self.ledger, self._saver = storage
        catalog = Catalog()
        catalog.serve("g", graph_of(Fields))
        catalog.serve("parent", self._parent())
        self.service = Service(catalog, ledger=self.ledger, saver=self._saver)  # type: ignore[arg-type]

    def _parent(self) -> StateGraph:
        def starts(state: Any, runtime: Runtime[Any]) -> None:
            runtime.start_run("g", state["for_child"])

        graph: Any = StateGraph({"for_child": dict}, name="parent")
        return graph.add_node("starts", starts).add_edge(START, "starts").add_edge("starts", END)

    async def run_to_end(self, graph: str, value: Any) -> Run:
        return (await self.service.start_and_wait("default", StartRun(graph=graph, input=value), 600)).run

    async def runs_of(self, graph: str) -> list[Run]:
        return list(await aresolve(self.ledger.find(Run, where(graph=graph))))


@pytest.fixture
def doors(storage: tuple[Ledger, Checkpointer]) -> Doors:
    return Doors(storage)


WRONG: dict[str, Any] = {"name": "Ann", "agge": 3}


def test_nothing_is_stored_for_a_request_with_an_unknown_key(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            requests: list[dict[str, Any]] = [{}, {"idempotency_key": "k"}, {"thread_id": "t", "on_busy": "interrupt"}]
            for options in requests:
                with pytest.raises(InvalidRequest, match="Did you mean 'age'"):
                    await service.start("default", StartRun(graph="g", input=WRONG, **options))
            assert await doors.runs_of("g") == []
            assert (await doors.run_to_end("g", {"name": "Ann"})).status is RunStatus.COMPLETED

    asyncio.run(run())


def test_a_repeated_request_returns_its_run_whatever_its_input(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            first = await service.start("default", StartRun(graph="g", input={}, idempotency_key="k"))
            again = await service.start("default", StartRun(graph="g", input=WRONG, idempotency_key="k"))
            assert (again.run.id, again.created) == (first.run.id, False)

    asyncio.run(run())


def test_a_node_cannot_start_a_child_with_an_unknown_key(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service:
            parent = await doors.run_to_end("parent", {"for_child": WRONG})
            assert parent.status is RunStatus.FAILED
            assert "Did you mean 'age'" in parent.error["message"]
            assert await doors.runs_of("g") == []

    asyncio.run(run())


def test_a_schedule_with_an_unknown_key_is_neither_created_nor_changed_to_it(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            check, now = service.starter.check_later_input, service.context.now()
            wrong = NewSchedule(name="s", cron="0 9 * * *", graph="g", input=WRONG)
            with pytest.raises(InvalidRequest, match="Did you mean 'age'"):
                await add_schedule(doors.ledger, "default", wrong, now, check_input=check)
            planned = NewSchedule(name="s", cron="0 9 * * *", graph="planned", input=WRONG)
            schedule = await add_schedule(doors.ledger, "default", planned, now, check_input=check)
            for changes in ({"graph": "g"}, {"graph": "g", "input": {"nmae": 1}}):
                with pytest.raises(InvalidRequest, match="Did you mean"):
                    await change_schedule(doors.ledger, "default", schedule.id, changes, now, check_input=check)
            right = {"graph": "g", "input": {"age": 3}}
            await change_schedule(doors.ledger, "default", schedule.id, right, now, check_input=check)

    asyncio.run(run())


def test_a_schedule_whose_graph_has_changed_since_can_still_be_paused(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            check, now = service.starter.check_later_input, service.context.now()
            stored = NewSchedule(name="s", cron="0 9 * * *", graph="g", input=WRONG)
            schedule = await add_schedule(doors.ledger, "default", stored, now)
            paused = await change_schedule(
                doors.ledger, "default", schedule.id, {"paused": True}, now, check_input=check
            )
            assert paused.paused

    asyncio.run(run())


def test_an_update_of_a_thread_with_an_unknown_key_is_refused_and_changes_nothing(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            thread = (await doors.run_to_end("g", {"name": "Ann"})).thread_id
            before = await service.threads.state("default", thread)
            for values, as_node in ((WRONG, None), (WRONG, "nothing"), ([{"name": "Bob"}, WRONG], "nothing")):
                with pytest.raises(InvalidRequest, match="Did you mean 'age'") as caught:
                    await service.threads.update("default", thread, values, as_node=as_node)
                assert [problem["path"] for problem in caught.value.details["problems"]] == ["values.agge"]
            assert await service.threads.state("default", thread) == before
            updated = await service.threads.update("default", thread, {"age": 3})
            assert updated["values"] == {"name": "Ann", "age": 3}

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore::statewright.errors.UnknownKeyWarning")
def test_an_event_starts_a_run_that_reads_the_keys_it_declares(doors: Doors) -> None:
    async def run() -> None:
        async with doors.service as service:
            trigger: Any = {"event": "joined", "graph": "g", "created_at": service.context.now()}
            await aresolve(doors.ledger.write([Insert(Trigger(id="trg_1", workspace_id="default", **trigger))]))
            event = await service.send_event("default", "joined", {"name": "Ann", "order": 7})
            (run_id,) = event.started
            assert await ended(service, run_id) is RunStatus.COMPLETED

    asyncio.run(run())


async def ended(service: Service, run_id: str) -> RunStatus:
    """Wait until a run has ended, and return its status."""
    return (await wait_until_settled(service.context, "default", run_id, 600)).status


def test_a_run_of_a_version_that_the_starting_process_does_not_have_fails_when_it_begins(doors: Doors) -> None:
    """Only the worker, here with current code for an older version, can check such an input."""

    async def run() -> None:
        async with doors.service as service:
            now = service.context.now()
            older = StoredDefinition(
                id=definition_id(PROJECT, "g", "older"), workspace_id=PROJECT, name="g", version="older",
                kind="graph", description="", digest="older", body=None, created_at=now,
            )  # fmt: skip
            await aresolve(doors.ledger.write([Insert(older)]))
            started = await service.start_and_wait("default", StartRun(definition_id=older.id, input=WRONG), 600)
            assert started.run.status is RunStatus.FAILED
            with pytest.raises(InvalidRequest) as refused:
                await service.start("default", StartRun(graph="g", input=WRONG))
            assert (started.run.error["message"], started.run.output) == (str(refused.value), None)

    asyncio.run(run())
