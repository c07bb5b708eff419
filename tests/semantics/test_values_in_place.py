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
PLACES = [("root", 0), *itertools.product(FORMS, (1, 2) if FULL else (2,))]
SAVINGS = list(itertools.product(("memory", "sqlite"), ("sync", "async", "exit")))
THREAD = {"thread_id": "1"}


@pytest.fixture(params=PLACES, ids=lambda place: f"{place[0]}-{place[1]}")
def placed(request: pytest.FixtureRequest, driver: Any) -> Callable[[Any], Any]:
    """Puts a compiled graph where it runs: by itself, or so many levels deep in other graphs."""
    form, depth = request.param
    return lambda app: nest(app, form, depth, awaits=driver.name == "async") if depth else app


# -- what a task returns is written, whether or not it is the object that it was given


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
def test_a_counter_that_is_changed_in_place_counts_on_the_saved_thread(
    driver: Any, placed: Any, kind: str, storage: str, durability: str, tmp_path: Path
) -> None:
    make, change, size = KINDS[kind]
    saver: Any = InMemorySaver() if storage == "memory" else SqliteSaver(tmp_path / "threads.db")
    saved: list[int] = []
    for number in range(3):
        app = placed(counter(change, saver))  # another process would build it anew
        given = {"box": make()} if not number else {"log": [0]}
        shown = driver.invoke(app, given, THREAD, durability=durability)
        saved.append(size(app.get_state(THREAD).values["box"]))
        assert size(shown["box"]) == saved[-1]
    saver.close()
    assert saved == [2, 4, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_a_subgraph_that_remembers_continues_with_what_it_changed_in_place(driver: Any, kind: str) -> None:
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


def test_changes_before_an_interrupt_are_part_of_the_update_after_it(driver: Any, placed: Any) -> None:
    def change(state: Any) -> Any:
        state["box"].count += 1
        return {"box": state["box"]}

    graph = StateGraph(Counted).add_node("change", change).add_node("ask", lambda s: {"log": [interrupt("?")]})
    graph.add_edge(START, "change").add_edge("change", "ask")
    app = placed(graph.compile(InMemorySaver()))

    driver.invoke(app, {"box": Record()}, THREAD)
    assert driver.invoke(app, Command(resume=1), THREAD) == {"box": Record(1), "log": [1]}
    assert app.get_state(THREAD).values["box"] == Record(1)


def test_two_that_write_what_they_were_given_are_in_conflict_as_nodes_and_as_subgraphs(driver: Any) -> None:
    child = StateGraph(Counted).add_node("write", lambda s: {"box": s["box"]}).add_edge(START, "write").compile()
    app = StateGraph(Counted).add_node("a", child).add_node("b", child).add_edge(START, "a").add_edge(START, "b")

    with pytest.raises(Exception, match="'box' was written by 'a' and 'b'"):
        driver.invoke(app.compile(), {"box": 1})


def test_a_subgraph_writes_nothing_that_its_tasks_did_not_write(driver: Any) -> None:
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
def test_subgraphs_that_get_an_instance_write_only_what_their_tasks_have_written(driver: Any, schema: Any) -> None:
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


# -- what a node does to its own list never shows elsewhere


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
GIVEN: dict[str, Any] = {"log": ["in"], "plain": ["in"], "table": {"in": 1}, "names": {"in"}}


def given() -> dict[str, Any]:
    return {name: value.copy() for name, value in GIVEN.items()}


def seen(state: Any) -> dict[str, Any]:
    """The fields that all schemas have, as they are now."""
    fields = state if isinstance(state, dict) else vars(state)
    return {name: fields[name].copy() for name in GIVEN}


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
def test_not_in_siblings_nor_in_the_result_nor_in_a_later_superstep(driver: Any, placed: Any, schema: str) -> None:
    looks: list[Any] = []
    graph = StateGraph(SCHEMAS[schema])
    for name in ("a", "b", "later"):
        graph.add_node(name, lambda state: (looks.append(seen(state)), spoil(state))[1])
    app = placed(graph.add_edge(START, "a").add_edge(START, "b").add_edge("a", "later").compile())

    assert seen(driver.invoke(app, given())) == GIVEN
    assert looks == [GIVEN] * 3


@schemas
def test_not_in_the_next_attempt_nor_in_the_error_handler(driver: Any, placed: Any, schema: str) -> None:
    looks: list[Any] = []

    def fails(state: Any) -> None:
        looks.append(seen(state))
        spoil(state)
        raise ConnectionError

    def handle(state: Any, error: NodeError) -> None:
        looks.extend((seen(state), seen(error.input)))

    policy = RetryPolicy(initial_interval=0, max_attempts=2, jitter=False)
    graph = StateGraph(SCHEMAS[schema]).add_node("fails", fails, retry_policy=policy, error_handler=handle)
    app = placed(graph.add_edge(START, "fails").compile())

    assert seen(driver.invoke(app, given())) == GIVEN
    assert looks == [GIVEN] * 4


@schemas
def test_not_on_the_thread_nor_in_its_history(driver: Any, placed: Any, schema: str) -> None:
    graph = StateGraph(SCHEMAS[schema]).add_node("a", spoil).add_node("b", spoil)
    app = placed(graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver()))
    given_by_caller = given()

    result = driver.invoke(app, given_by_caller, THREAD)
    for value in (result, given_by_caller, app.get_state(THREAD).values):
        spoil(value)
    for snapshot in app.get_state_history(THREAD):
        spoil(snapshot.values)

    assert [seen(one.values) for one in app.get_state_history(THREAD)] == [GIVEN] * len(
        list(app.get_state_history(THREAD))
    )
    assert seen(app.get_state(THREAD).values) == GIVEN


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints", "debug"])
def test_changes_of_stream_readers_stay_with_them(driver: Any, mode: str) -> None:
    def spoil_all(value: Any) -> None:
        inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
        for one in inner:
            spoil_all(one)
        spoil({"": value})

    graph = StateGraph(Shared).add_node("a", lambda s: {"plain": s["plain"], "table": s["table"]})
    graph.add_node("b", lambda s: {"log": list(s["plain"])}).add_edge(START, "a").add_edge("a", "b")
    app = graph.compile(InMemorySaver())
    if driver.name == "sync":
        for part in app.stream(given(), THREAD, stream_mode=mode):
            spoil_all(part)
    else:
        for part in driver.stream(app, given(), THREAD, stream_mode=mode):
            spoil_all(part)

    assert app.get_state(THREAD).values == {**GIVEN, "log": ["in", "in"], "custom": []}


def test_one_answer_that_is_changed_and_returned_again_is_two_answers(driver: Any, placed: Any) -> None:
    answer: list[int] = []

    def again(state: Any) -> Any:
        answer.append(len(answer))
        return {"log": answer, "plain": answer}

    graph = StateGraph(Shared).add_sequence([("a", again), ("b", again), ("c", again)]).add_edge(START, "a")
    app = placed(graph.compile(InMemorySaver()))

    assert driver.invoke(app, {"log": []}, THREAD)["log"] == [0, 0, 1, 0, 1, 2]
    answer.append(7)
    assert app.get_state(THREAD).values["plain"] == [0, 1, 2]


def test_the_arguments_of_sends_are_copied_for_tasks_and_attempts(driver: Any, placed: Any) -> None:
    looks: list[Any] = []
    shared = {"plain": ["in"]}

    def work(state: Any) -> None:
        looks.append(list(state["plain"]))
        state["plain"].append("dirt")
        if len(looks) == 1:
            raise ConnectionError

    graph = StateGraph(Shared).add_node("spread", lambda s: [Send("work", shared)] * 3, destinations=["work"])
    graph.add_node("work", work, retry_policy=RetryPolicy(initial_interval=0, max_attempts=2)).add_edge(START, "spread")

    driver.invoke(placed(graph.compile()), given())
    assert (looks, shared) == ([["in"]] * 4, {"plain": ["in"]})


def extend(old: list[int], new: list[int]) -> list[int]:
    old.extend(new)
    return old


class Extended(TypedDict, total=False):
    log: Annotated[list[int], extend]


@pytest.mark.parametrize("update", [Overwrite, lambda value: {"__overwrite__": value}, lambda value: value])
def test_a_reducer_that_changes_its_first_argument_changes_no_checkpoint(driver: Any, placed: Any, update: Any) -> None:
    kept = [1]
    graph = (
        StateGraph(Extended).add_node("set", lambda s: {"log": update(kept)}).add_node("add", lambda s: {"log": [2]})
    )
    app = placed(graph.add_edge(START, "set").add_edge("set", "add").compile(InMemorySaver()))

    first = driver.invoke(app, {"log": [0]}, THREAD)["log"]
    assert first[-2:] == [1, 2]
    assert kept == [1]
    driver.invoke(app, {"log": [3]}, THREAD)
    history = [one.values["log"] for one in app.get_state_history(THREAD) if one.next == ()]
    assert history[-1] == first


def test_the_state_in_the_runtime_is_a_copy(driver: Any, placed: Any) -> None:
    def look(state: Any, runtime: Runtime[Any]) -> Any:
        runtime.state["plain"].append("dirt")
        return {"log": [*runtime.state["plain"], len(runtime.state)]}

    app = placed(StateGraph(Shared).add_node("look", look).add_edge(START, "look").compile())

    assert driver.invoke(app, {"plain": ["in"], "log": []})["log"][0] == "in"


def test_the_result_of_a_step_is_the_same_whenever_the_node_runs_again(driver: Any, placed: Any) -> None:
    def node(state: Any, runtime: Runtime[Any]) -> Any:
        rows = runtime.step("rows", lambda: ["row"])
        rows.append("of the node")
        return {"log": [*rows, interrupt("?")]}

    app = placed(StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(InMemorySaver()))

    driver.invoke(app, {"log": []}, THREAD)
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["row", "of the node", 1]


AGAIN = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)


@pytest.mark.parametrize("ask", [interrupt, wait_for_event], ids=["question", "event"])
def test_an_answer_is_the_same_whenever_the_node_runs_again(driver: Any, placed: Any, saver: Any, ask: Any) -> None:
    attempts: list[list[str]] = []
    answer = ["of the caller"]

    def node(state: Any) -> Any:
        given = ask("first")
        given.append("of the node")
        attempts.append(given)
        if len(attempts) % 2:
            raise ConnectionError
        return {"log": [*given, interrupt("second")]}

    graph = StateGraph(Shared).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    app = placed(graph.compile(saver))

    (asked,) = driver.invoke(app, {"log": []}, THREAD)["__interrupt__"]
    driver.invoke(app, Command(resume={asked.id: answer}), THREAD)
    answer.append("dirt")
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["of the caller", "of the node", 1]
    assert attempts == [["of the caller", "of the node"]] * 4


@pytest.mark.parametrize(
    "policy", [{}, {"cache_policy": CachePolicy()}, {"retry_policy": AGAIN}], ids=["plain", "cached", "retried"]
)
@pytest.mark.parametrize("awaited", [False, True])
def test_the_result_of_a_called_task_is_the_same_whenever_the_node_runs_again(
    driver: Any, placed: Any, saver: Any, policy: Any, awaited: bool
) -> None:
    attempts: list[list[str]] = []
    table = ["row"]  # of the task, which goes on to change it

    @task(**policy)
    def rows() -> list[str]:
        return table

    @task(**policy)
    async def arows() -> list[str]:
        return table

    work = arows if awaited else rows

    def changed(given: list[str]) -> Any:
        given.append("of the node")
        attempts.append(list(given))
        if len(attempts) % 2:
            raise ConnectionError
        return {"log": [*given, interrupt("?")]}

    async def anode(state: Any) -> Any:
        return changed(await work())

    node = anode if driver.name == "async" else lambda state: changed(work().result())
    graph = StateGraph(Shared).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    app = placed(graph.compile(saver, cache=InMemoryCache()))
    assert not driver.invoke(app, {"log": []}, THREAD)["log"]
    table.append("dirt")
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["row", "of the node", 1]
    assert attempts == [["row", "of the node"]] * 4
    if "cache_policy" in policy:
        driver.invoke(app, {"log": []}, {"thread_id": "2"})
        assert attempts[-1] == ["row", "of the node"]


def test_changes_of_readers_to_a_question_stay_with_them(driver: Any, placed: Any, saver: Any) -> None:
    draft = {"text": "one"}

    def node(state: Any) -> Any:
        return {"log": [interrupt(draft), interrupt("second")]}

    app = placed(StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(saver))
    (asked,) = driver.invoke(app, {"log": []}, THREAD)["__interrupt__"]
    asked.value["text"] = "dirt"
    for part in driver.stream(app, None, THREAD, stream_mode=["tasks", "updates", "values"]):
        for one in [*part[1].get("interrupts", ()), *part[1].get("__interrupt__", ())]:
            (one["value"] if isinstance(one, dict) else one.value)["text"] = "dirt"
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


def test_a_cached_result_is_a_copy_for_the_node_and_for_callers(driver: Any, placed: Any) -> None:
    answer = ["first"]
    graph = StateGraph(Shared).add_node("a", lambda s: {"plain": answer}, cache_policy=CachePolicy())
    app = placed(graph.add_edge(START, "a").compile(cache=InMemoryCache()))

    driver.invoke(app, {"log": []})["plain"].append("of the caller")
    answer.append("of the node")
    assert driver.invoke(app, {"log": []})["plain"] == ["first"]


def test_objects_inside_are_shared_and_not_copied(driver: Any, placed: Any) -> None:
    inner = Record()
    app = placed(
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
def test_debug_reports_shared_objects_that_change_and_own_ones_that_are_lost(
    driver: Any, node: Any, is_reported: bool
) -> None:
    app = StateGraph(Shared).add_node("node", node).add_edge(START, "node").compile(debug=True)

    if is_reported:
        with pytest.raises(MutatedState, match="'table'"):
            driver.invoke(app, {"table": {"inner": []}})
    else:
        assert driver.invoke(app, {"table": {"inner": []}})["table"] == {"inner": [], "new": 1}
