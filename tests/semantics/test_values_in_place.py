"""Values changed in place: each reader has its own container, and only returned values are written.

Each rule is tested for a graph by itself and in every form of nesting, two levels deep.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel
from tests.semantics.nested import FORMS, nest

from statewright import (
    START,
    CachePolicy,
    Command,
    Ephemeral,
    InMemoryCache,
    InMemorySaver,
    NodeError,
    Overwrite,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    Untracked,
    append,
    entrypoint,
    interrupt,
    task,
    wait_for_event,
)
from statewright.errors import MutatedState
from statewright.storage.sqlite import SqliteSaver

FULL = os.environ.get("STATEWRIGHT_FULL") == "1"
NESTINGS = [("root", 0), *itertools.product(FORMS, (1, 2) if FULL else (2,))]
SAVINGS = list(itertools.product(("memory", "sqlite"), ("sync", "async", "exit")))
THREAD = {"thread_id": "1"}


@pytest.fixture(params=NESTINGS, ids=lambda nesting: f"{nesting[0]}-{nesting[1]}")
def nested(request: pytest.FixtureRequest, driver: Any) -> Callable[[Any], Any]:
    """Nests a compiled graph in other graphs, to the depth of the parameter."""
    form, depth = request.param
    return lambda app: nest(app, form, depth, awaits=driver.name == "async") if depth else app


# -- the result of a task is written, whether or not it is the object that the task received


@dataclass
class Record:
    count: int = 0


class Model(BaseModel):
    count: int = 0


class Counted(TypedDict, total=False):
    box: Any
    log: Annotated[list[int], append]


def add_to_list(box: list[int]) -> None:
    box.append(len(box))


def add_to_dict(box: dict[str, int]) -> None:
    box["count"] = box.get("count", 0) + 1


def add_to_set(box: set[int]) -> None:
    box.add(len(box))


def add_to_object(box: Record | Model) -> None:
    box.count += 1


def add_to_inner(box: list[Record] | dict[Any, Record]) -> None:
    box[0].count += 1


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], None], Callable[[Any], int]]] = {
    "list": (list, add_to_list, len),
    "dict": (dict, add_to_dict, lambda box: box.get("count", 0)),
    "set": (set, add_to_set, len),
    "dataclass": (Record, add_to_object, lambda box: box.count),
    "model": (Model, add_to_object, lambda box: box.count),
    "objects in a list": (lambda: [Record()], add_to_inner, lambda box: box[0].count),
    "objects in a dict": (lambda: {0: Record()}, add_to_inner, lambda box: box[0].count),
}


def counter(change: Callable[[Any], None], saver: Any) -> Any:
    """A graph that changes its box in place in each of two supersteps."""

    def count(state: Any) -> Any:
        change(state["box"])
        return {"box": state["box"], "log": [1]}

    graph = StateGraph(Counted).add_sequence([("first", count), ("second", count)]).add_edge(START, "first")
    saver.allow([Record, Model])
    return graph.compile(saver)


@pytest.mark.parametrize(("storage", "durability"), SAVINGS if FULL else [("memory", "async"), ("sqlite", "exit")])
@pytest.mark.parametrize("kind", KINDS)
def test_in_place_changes_that_a_node_returns_are_saved(
    driver: Any, nested: Any, kind: str, storage: str, durability: str, tmp_path: Path
) -> None:
    make, change, size = KINDS[kind]
    saver: Any = InMemorySaver() if storage == "memory" else SqliteSaver(tmp_path / "threads.db")
    saved: list[int] = []
    for number in range(3):
        app = nested(counter(change, saver))  # another process would build its own
        update = {"box": make()} if not number else {"log": [0]}
        result = driver.invoke(app, update, THREAD, durability=durability)
        saved.append(size(app.get_state(THREAD).values["box"]))
        assert size(result["box"]) == saved[-1]
    saver.close()
    assert saved == [2, 4, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_a_subgraph_with_thread_memory_keeps_its_in_place_changes(driver: Any, kind: str) -> None:
    make, change, size = KINDS[kind]

    def count(state: Any) -> Any:
        box = state.get("own") or make()
        change(box)
        return {"own": box}

    class Own(Counted, total=False):
        own: Any

    child = StateGraph(Own).add_node("count", count).add_edge(START, "count").compile()
    app = StateGraph(Own).add_node("child", child, memory="thread").add_edge(START, "child").compile(InMemorySaver())
    for expected in (1, 2, 3):
        assert size(driver.invoke(app, {"log": []}, THREAD)["own"]) == expected


def test_in_place_changes_before_an_interrupt_are_saved(driver: Any, nested: Any) -> None:
    def change(state: Any) -> Any:
        state["box"].count += 1
        return {"box": state["box"]}

    graph = StateGraph(Counted).add_node("change", change).add_node("ask", lambda s: {"log": [interrupt("?")]})
    graph.add_edge(START, "change").add_edge("change", "ask")
    app = nested(graph.compile(InMemorySaver()))

    driver.invoke(app, {"box": Record()}, THREAD)
    assert driver.invoke(app, Command(resume=1), THREAD) == {"box": Record(1), "log": [1]}
    assert app.get_state(THREAD).values["box"] == Record(1)


def test_parallel_subgraphs_that_return_the_same_value_unchanged_conflict(driver: Any) -> None:
    child = StateGraph(Counted).add_node("write", lambda s: {"box": s["box"]}).add_edge(START, "write").compile()
    app = StateGraph(Counted).add_node("a", child).add_node("b", child).add_edge(START, "a").add_edge(START, "b")

    with pytest.raises(Exception, match="'box' was written by 'a' and 'b'"):
        driver.invoke(app.compile(), {"box": 1})


def test_a_subgraph_writes_only_the_fields_that_its_tasks_wrote(driver: Any) -> None:
    child = StateGraph(Counted).add_node("write", lambda s: {"log": [1]}).add_edge(START, "write").compile()
    app = StateGraph(Counted).add_node("a", child).add_node("b", child).add_edge(START, "a").add_edge(START, "b")

    assert driver.invoke(app.compile(), {"box": [1]}) == {"box": [1], "log": [1, 1]}


class Instance(BaseModel):
    one: int = 0
    two: int | None = None
    box: list[int] = []
    log: Annotated[list[Any], append] = []


@dataclass
class Written:
    one: int = 0
    two: int | None = None
    box: list[int] = field(default_factory=list)
    log: Annotated[list[Any], append] = field(default_factory=list)


@pytest.mark.parametrize("schema", [Instance, Written])
def test_a_subgraph_with_an_instance_writes_only_the_fields_that_its_tasks_wrote(driver: Any, schema: Any) -> None:
    def child(name: str) -> Any:
        return (
            StateGraph(schema).add_node("write", lambda s: {name: 7, "log": [name]}).add_edge(START, "write").compile()
        )

    graph = StateGraph(schema).add_node("a", child("one")).add_node("b", child("two"))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    assert driver.invoke(app, {"box": [1]}) == {"one": 7, "two": 7, "box": [1], "log": ["one", "two"]}


def test_a_migration_that_changes_a_value_in_place_is_saved(driver: Any, tmp_path: Path) -> None:
    def version(name: str, saver: Any) -> Any:
        graph = StateGraph(Counted, version=name).add_node("a", lambda s: {"log": [1]}).add_edge(START, "a")

        @graph.migration(from_version="1", to_version="2")
        def up(values: dict[str, Any]) -> dict[str, Any]:
            values["box"]["inner"].append("migrated")
            return values

        return graph.compile(saver)

    with SqliteSaver(tmp_path / "threads.db") as saver:
        driver.invoke(version("1", saver), {"box": {"inner": []}}, THREAD)
        driver.invoke(version("2", saver), {"log": []}, THREAD)
        assert version("2", saver).get_state(THREAD).values["box"] == {"inner": ["migrated"]}


# -- in-place changes of a node's input do not appear anywhere else


class Shared(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    plain: list[Any]
    table: dict[str, Any]
    names: set[str]
    custom: Annotated[list[Any], lambda old, new: [*old, *new]]
    signal: Annotated[list[Any], Ephemeral]
    handle: Annotated[list[Any], Untracked]


@dataclass
class SharedRecord:
    log: Annotated[list[Any], operator.add] = field(default_factory=list)
    plain: list[Any] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class SharedModel(BaseModel):
    log: Annotated[list[Any], operator.add] = []
    plain: list[Any] = []
    table: dict[str, Any] = {}
    names: set[str] = set()


SCHEMAS = {"typed": Shared, "dataclass": SharedRecord, "model": SharedModel, "open": {"log": operator.add}}
INPUT: dict[str, Any] = {"log": ["in"], "plain": ["in"], "table": {"in": 1}, "names": {"in"}}


def new_input() -> dict[str, Any]:
    return {name: value.copy() for name, value in INPUT.items()}


def copied(state: Any) -> dict[str, Any]:
    """Copies of the fields that all schemas have."""
    fields = state if isinstance(state, dict) else vars(state)
    return {name: fields[name].copy() for name in INPUT}


def spoil(state: Any) -> None:
    """Change every container of a node's input, or of a result, in place."""
    fields = state if isinstance(state, dict) else vars(state)
    for value in fields.values():
        if type(value) is list:
            value.append("dirt")
        elif type(value) is dict:
            value["dirt"] = 1
        elif type(value) is set:
            value.add("dirt")


schemas = pytest.mark.parametrize("schema", SCHEMAS)


@schemas
def test_in_place_changes_do_not_reach_siblings_results_or_later_supersteps(
    driver: Any, nested: Any, schema: str
) -> None:
    states_seen: list[Any] = []
    graph = StateGraph(SCHEMAS[schema])
    for name in ("a", "b", "later"):
        graph.add_node(name, lambda state: (states_seen.append(copied(state)), spoil(state))[1])
    app = nested(graph.add_edge(START, "a").add_edge(START, "b").add_edge("a", "later").compile())

    assert copied(driver.invoke(app, new_input())) == INPUT
    assert states_seen == [INPUT] * 3


@schemas
def test_in_place_changes_do_not_reach_the_next_attempt_or_the_error_handler(
    driver: Any, nested: Any, schema: str
) -> None:
    states_seen: list[Any] = []

    def fails(state: Any) -> None:
        states_seen.append(copied(state))
        spoil(state)
        raise ConnectionError

    def handle(state: Any, error: NodeError) -> None:
        states_seen.extend((copied(state), copied(error.input)))

    policy = RetryPolicy(initial_interval=0, max_attempts=2, jitter=False)
    graph = StateGraph(SCHEMAS[schema]).add_node("fails", fails, retry_policy=policy, error_handler=handle)
    app = nested(graph.add_edge(START, "fails").compile())

    assert copied(driver.invoke(app, new_input())) == INPUT
    assert states_seen == [INPUT] * 4


@schemas
def test_in_place_changes_do_not_reach_the_thread_or_its_history(driver: Any, nested: Any, schema: str) -> None:
    graph = StateGraph(SCHEMAS[schema]).add_node("a", spoil).add_node("b", spoil)
    app = nested(graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver()))
    caller_input = new_input()

    result = driver.invoke(app, caller_input, THREAD)
    for value in (result, caller_input, app.get_state(THREAD).values):
        spoil(value)
    for snapshot in app.get_state_history(THREAD):
        spoil(snapshot.values)

    assert [copied(snapshot.values) for snapshot in app.get_state_history(THREAD)] == [INPUT] * len(
        list(app.get_state_history(THREAD))
    )
    assert copied(app.get_state(THREAD).values) == INPUT


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints", "debug"])
def test_in_place_changes_of_a_stream_reader_do_not_reach_the_thread(driver: Any, mode: str) -> None:
    def spoil_all(value: Any) -> None:
        inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
        for item in inner:
            spoil_all(item)
        spoil({"": value})

    graph = StateGraph(Shared).add_node("a", lambda s: {"plain": s["plain"], "table": s["table"]})
    graph.add_node("b", lambda s: {"log": list(s["plain"])}).add_edge(START, "a").add_edge("a", "b")
    app = graph.compile(InMemorySaver())
    if driver.name == "sync":
        for part in app.stream(new_input(), THREAD, stream_mode=mode):
            spoil_all(part)
    else:
        for part in driver.stream(app, new_input(), THREAD, stream_mode=mode):
            spoil_all(part)

    assert app.get_state(THREAD).values == {**INPUT, "log": ["in", "in"], "custom": []}


def test_returning_one_changed_list_twice_writes_two_values(driver: Any, nested: Any) -> None:
    returned: list[int] = []

    def again(state: Any) -> Any:
        returned.append(len(returned))
        return {"log": returned, "plain": returned}

    graph = StateGraph(Shared).add_sequence([("a", again), ("b", again), ("c", again)]).add_edge(START, "a")
    app = nested(graph.compile(InMemorySaver()))

    assert driver.invoke(app, {"log": []}, THREAD)["log"] == [0, 0, 1, 0, 1, 2]
    returned.append(7)
    assert app.get_state(THREAD).values["plain"] == [0, 1, 2]


def test_every_task_and_attempt_gets_its_own_copy_of_a_send(driver: Any, nested: Any) -> None:
    states_seen: list[Any] = []
    shared = {"plain": ["in"]}

    def work(state: Any) -> None:
        states_seen.append(list(state["plain"]))
        state["plain"].append("dirt")
        if len(states_seen) == 1:
            raise ConnectionError

    graph = StateGraph(Shared).add_node("spread", lambda s: [Send("work", shared)] * 3, destinations=["work"])
    graph.add_node("work", work, retry_policy=RetryPolicy(initial_interval=0, max_attempts=2)).add_edge(START, "spread")

    driver.invoke(nested(graph.compile()), new_input())
    assert (states_seen, shared) == ([["in"]] * 4, {"plain": ["in"]})


def extend(old: list[int], new: list[int]) -> list[int]:
    old.extend(new)
    return old


class Extended(TypedDict, total=False):
    log: Annotated[list[int], extend]


@pytest.mark.parametrize("update", [Overwrite, lambda value: {"__overwrite__": value}, lambda value: value])
def test_a_reducer_that_changes_its_argument_does_not_change_checkpoints(driver: Any, nested: Any, update: Any) -> None:
    kept = [1]
    graph = (
        StateGraph(Extended).add_node("set", lambda s: {"log": update(kept)}).add_node("add", lambda s: {"log": [2]})
    )
    app = nested(graph.add_edge(START, "set").add_edge("set", "add").compile(InMemorySaver()))

    first = driver.invoke(app, {"log": [0]}, THREAD)["log"]
    assert first[-2:] == [1, 2]
    assert kept == [1]
    driver.invoke(app, {"log": [3]}, THREAD)
    history = [snapshot.values["log"] for snapshot in app.get_state_history(THREAD) if snapshot.next == ()]
    assert history[-1] == first


def test_the_state_in_the_runtime_is_a_copy(driver: Any, nested: Any) -> None:
    def look(state: Any, runtime: Runtime[Any]) -> Any:
        runtime.state["plain"].append("dirt")
        return {"log": [*runtime.state["plain"], len(runtime.state)]}

    app = nested(StateGraph(Shared).add_node("look", look).add_edge(START, "look").compile())

    assert driver.invoke(app, {"plain": ["in"], "log": []})["log"][0] == "in"


def test_a_step_result_is_unchanged_when_the_node_runs_again(driver: Any, nested: Any) -> None:
    def node(state: Any, runtime: Runtime[Any]) -> Any:
        rows = runtime.step("rows", lambda: ["row"])
        rows.append("of the node")
        return {"log": [*rows, interrupt("?")]}

    app = nested(StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(InMemorySaver()))

    driver.invoke(app, {"log": []}, THREAD)
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["row", "of the node", 1]


AGAIN = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)


@pytest.mark.parametrize("ask", [interrupt, wait_for_event], ids=["question", "event"])
def test_an_answer_is_unchanged_when_the_node_runs_again(driver: Any, nested: Any, saver: Any, ask: Any) -> None:
    attempts: list[list[str]] = []
    answer = ["of the caller"]

    def node(state: Any) -> Any:
        received = ask("first")
        received.append("of the node")
        attempts.append(received)
        if len(attempts) % 2:
            raise ConnectionError
        return {"log": [*received, interrupt("second")]}

    graph = StateGraph(Shared).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    app = nested(graph.compile(saver))

    (question,) = driver.invoke(app, {"log": []}, THREAD)["__interrupt__"]
    driver.invoke(app, Command(resume={question.id: answer}), THREAD)
    answer.append("dirt")
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["of the caller", "of the node", 1]
    assert attempts == [["of the caller", "of the node"]] * 4


@pytest.mark.parametrize(
    "policy", [{}, {"cache_policy": CachePolicy()}, {"retry_policy": AGAIN}], ids=["plain", "cached", "retried"]
)
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.sampled(4)
def test_a_task_result_is_unchanged_when_the_node_runs_again(
    driver: Any, nested: Any, saver: Any, policy: Any, awaited: bool
) -> None:
    attempts: list[list[str]] = []
    table = ["row"]  # changed later by the task

    @task(**policy)
    def rows() -> list[str]:
        return table

    @task(**policy)
    async def arows() -> list[str]:
        return table

    work = arows if awaited else rows

    def change_and_fail(result: list[str]) -> Any:
        result.append("of the node")
        attempts.append(list(result))
        if len(attempts) % 2:
            raise ConnectionError
        return {"log": [*result, interrupt("?")]}

    async def anode(state: Any) -> Any:
        return change_and_fail(await work())

    node = anode if driver.name == "async" else lambda state: change_and_fail(work().result())
    graph = StateGraph(Shared).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    app = nested(graph.compile(saver, cache=InMemoryCache()))
    assert not driver.invoke(app, {"log": []}, THREAD)["log"]
    table.append("dirt")
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["row", "of the node", 1]
    assert attempts == [["row", "of the node"]] * 4
    if "cache_policy" in policy:
        driver.invoke(app, {"log": []}, {"thread_id": "2"})
        assert attempts[-1] == ["row", "of the node"]


def test_readers_cannot_change_an_open_question(driver: Any, nested: Any, saver: Any) -> None:
    draft = {"text": "one"}

    def node(state: Any) -> Any:
        return {"log": [interrupt(draft), interrupt("second")]}

    app = nested(StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(saver))
    (question,) = driver.invoke(app, {"log": []}, THREAD)["__interrupt__"]
    question.value["text"] = "dirt"
    for part in driver.stream(app, None, THREAD, stream_mode=["tasks", "updates", "values"]):
        for shown in [*part[1].get("interrupts", ()), *part[1].get("__interrupt__", ())]:
            (shown["value"] if isinstance(shown, dict) else shown.value)["text"] = "dirt"
    state = app.get_state(THREAD)
    state.interrupts[0].value["text"] = state.tasks[0].interrupts[0].value["text"] = "dirt"
    assert app.get_state(THREAD).interrupts[0].value == {"text": "one"}
    driver.invoke(app, Command(resume=1), THREAD)  # no QuestionChanged
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == [1, 2]


def test_the_memory_of_an_entrypoint_is_a_copy(driver: Any) -> None:
    @entrypoint(InMemorySaver())
    def remember(value: list[int], *, previous: list[int] | None = None) -> entrypoint.final[list[int], list[int]]:
        known = previous or []
        known.append(1)
        value.append(0)
        return entrypoint.final(value=known, save=known)

    result = driver.invoke(remember, [], THREAD)
    result.append("of the caller")
    assert driver.invoke(remember, [], THREAD) == [1, 1]


def test_a_cached_result_is_a_copy_for_the_node_and_for_callers(driver: Any, nested: Any) -> None:
    returned = ["first"]
    graph = StateGraph(Shared).add_node("a", lambda s: {"plain": returned}, cache_policy=CachePolicy())
    app = nested(graph.add_edge(START, "a").compile(cache=InMemoryCache()))

    driver.invoke(app, {"log": []})["plain"].append("of the caller")
    returned.append("of the node")
    assert driver.invoke(app, {"log": []})["plain"] == ["first"]


def test_objects_within_a_container_are_shared(driver: Any, nested: Any) -> None:
    inner = Record()
    app = nested(
        StateGraph(Shared).add_node("a", lambda s: {"table": {"inner": s["plain"][0]}}).add_edge(START, "a").compile()
    )

    result = driver.invoke(app, {"plain": [inner]})
    assert result["plain"][0] is inner
    assert result["table"]["inner"] is inner


# -- debug


def change_inner_and_return(state: Any) -> Any:
    state["table"]["inner"].append(1)
    return {"table": state["table"]}


def change_inner(state: Any) -> None:
    state["table"]["inner"].append(1)


def lose_own(state: Any) -> None:
    state["table"]["new"] = 1


def return_own(state: Any) -> Any:
    state["table"]["new"] = 1
    return {"table": state["table"]}


@pytest.mark.parametrize(
    ("node", "is_reported"),
    [(change_inner_and_return, True), (change_inner, True), (lose_own, True), (return_own, False)],
)
def test_debug_reports_changed_shared_objects_and_lost_changes(driver: Any, node: Any, is_reported: bool) -> None:
    app = StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(debug=True)

    if is_reported:
        with pytest.raises(MutatedState, match="'table'"):
            driver.invoke(app, {"table": {"inner": []}})
    else:
        assert driver.invoke(app, {"table": {"inner": []}})["table"] == {"inner": [], "new": 1}
