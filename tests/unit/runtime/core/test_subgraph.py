"""What passes between a graph and one that it calls."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from statewright import START, InMemorySaver, RunControl
from statewright.checkpoint import Checkpoint
from statewright.errors import InvalidUpdateError, NamespaceBusy
from statewright.graph.answer import SubgraphResult
from statewright.runtime.core.subgraph import collect_changes, common_fields, subgraph_calls
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import SubgraphCall
from statewright.runtime.lifecycle.subgraph_call import CallInProgress, begin_call, call_line, take_namespace
from statewright.testing import FakeClock


class Undecided:
    """Cannot be told equal by one truth value, like an array."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("ambiguous")

    __hash__ = None


UNDECIDED = Undecided()


# -- what a result means to the caller


@pytest.mark.parametrize(
    ("result", "known", "meant"),
    [
        ({"x": 1, "own": 2}, {"x", "z"}, {"x": 1}),
        ({"own": 2}, {"x"}, {}),
        ({"x": 1, "own": 2}, None, {"x": 1, "own": 2}),
        ("bare", {"x"}, "bare"),
        (None, {"x"}, None),
    ],
)
def test_a_caller_sees_the_fields_that_both_have(result: Any, known: Any, meant: Any) -> None:
    assert common_fields(result, None if known is None else frozenset(known)) == meant


@pytest.mark.parametrize(
    ("result", "given", "update"),
    [
        ({"x": 1}, {"x": 1}, {}),
        ({"x": [1]}, {"x": [1]}, {}),
        ({"x": 2}, {"x": 1}, {"x": 2}),
        ({"x": None}, {}, {"x": None}),
        ({"x": None}, {"x": None}, {}),
        ({"x": 2, "y": 1}, {"x": 1, "y": 1}, {"x": 2}),
        ({"log": [1, 2]}, {"log": [1]}, {}),
        ({"x": UNDECIDED}, {"x": UNDECIDED}, {}),
        ({"x": Undecided()}, {"x": UNDECIDED}, ...),
        ({"x": 1}, "no mapping", {"x": 1}),
    ],
)
def test_what_is_new_is_what_is_not_simply_what_was_given(result: Any, given: Any, update: Any) -> None:
    found = collect_changes(result, given, [], frozenset({"log"}))

    assert type(found) is SubgraphResult
    if update is ...:
        assert found.update["x"] is result["x"]
    else:
        assert found.update == update


def test_fields_that_both_merge_are_told_as_they_were_written() -> None:
    written = [("log", [1]), ("own", 5), ("log", [2])]

    found = collect_changes({"log": [0, 1, 2], "x": 1}, {"log": [0]}, written, frozenset({"log"}))

    assert found.update == {"x": 1}
    assert found.writes == [("log", [1]), ("log", [2])]


@pytest.mark.parametrize("result", ["bare", None, 3])
def test_a_bare_result_is_passed_on(result: Any) -> None:
    assert collect_changes(result, {"x": 1}, [], frozenset()) is result


class Called:
    """A compiled graph, as far as the task that calls it is concerned: it counts, and reports what it wrote."""

    reported = frozenset({"log", "own"})
    passes_state_on = True

    def __init__(self, *, passes_state_on: bool = True) -> None:
        self.passes_state_on = passes_state_on

    def call_within(self, state: Any, memory: str) -> Any:
        return {"x": state["x"] + 1, "hidden": 0, "log": ["all"], "memory": memory}, [("log", ["new"]), ("own", [1])]


def test_calling_a_subgraph_answers_what_it_did_to_the_callers_state() -> None:
    call, _ = subgraph_calls(Called(), "thread", frozenset({"x", "log", "memory"}), frozenset({"log", "other"}))  # type: ignore[arg-type]  # all that is used of one

    answer = call({"x": 1, "log": []})

    assert answer.update == {"x": 2, "memory": "thread"}
    assert answer.writes == [("log", ["new"])]


def test_what_is_an_answer_as_a_whole_is_passed_on() -> None:
    called = Called(passes_state_on=False)
    call, _ = subgraph_calls(called, "call", frozenset({"x", "log"}), frozenset({"log"}))  # type: ignore[arg-type]

    assert call({"x": 1, "log": []}) == {"x": 2, "hidden": 0, "log": ["all"], "memory": "call"}


# -- namespaces


@pytest.fixture
def scope_in(make: Any) -> Any:
    """The scope of a task, in a run within a namespace."""
    program = make.program(make.graph("a").add_edge(START, "a"))

    def scope(namespace: str = "", **options: Any) -> Any:
        run = make.run(program, namespace=namespace, **options)
        return make.scope(run, make.task("a"), make.checkpoint())

    return scope


@pytest.mark.parametrize("outer", ["", "outer:1"])
@pytest.mark.parametrize(
    ("memory", "keys", "segments"),
    [
        ("call", [None], ["a:ID"]),
        ("call", [None, None, None], ["a:ID", "a:ID:#1", "a:ID:#2"]),
        ("call", ["key", None], ["a:ID:key", "a:ID"]),
        ("none", [None], ["a:ID"]),
        ("thread", [None], ["a"]),
        ("thread", [None, None], ["a", "a:#1"]),
        ("thread", ["key"], ["a:key"]),
    ],
)
def test_where_a_call_is_saved(scope_in: Any, outer: str, memory: Any, keys: Any, segments: list[str]) -> None:
    scope = scope_in(outer)
    prefix = f"{outer}|" if outer else ""

    found = [begin_call(scope, object(), memory, options={"call_key": key}).namespace for key in keys]

    assert found == [prefix + segment.replace("ID", scope.task.id) for segment in segments]


@pytest.mark.parametrize("memory", ["call", "thread"])
def test_a_call_key_is_no_ordinal(scope_in: Any, memory: Any) -> None:
    scope = scope_in()
    keys = (None, "1", None, None, "", "#1", "#2", "%", "%#1", "a|b", "a%7Cb", "a", "a:b")
    found = [begin_call(scope, object(), memory, options={"call_key": key}).namespace for key in keys]

    assert len(set(found)) == len(keys)
    assert not any("|" in namespace for namespace in found), "no key is a path"


GRAPH, CONTEXT = object(), threading.Lock()
FAILED = RunOutcome("failed", Checkpoint("c", 0, {}, ()), error=ValueError("x"))
CALL: dict[str, Any] = {
    "program": GRAPH,
    "memory": "call",
    "graph_input": {"item": ["shoes"]},
    "config": {"tags": ["a"]},
    "options": {"context": CONTEXT, "recursion_limit": 3},
}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"graph_input": {"item": ["shoes"]}}, True),
        ({"program": object()}, False),
        ({"memory": "thread"}, False),
        ({"graph_input": {"item": ["hat"]}}, False),
        ({"config": {"tags": []}}, False),
        ({"options": {"context": CONTEXT, "recursion_limit": 4}}, False),
        ({"options": {"context": threading.Lock(), "recursion_limit": 3}}, False),
        ({"options": {"context": CONTEXT, "recursion_limit": 3, "control": RunControl()}}, True),
    ],
)
def test_only_the_same_call_takes_the_place_of_a_failed_one(
    scope_in: Any, make: Any, change: dict[str, Any], is_same: bool
) -> None:
    scope = scope_in()

    def call(**changed: Any) -> SubgraphCall:
        terms = {**CALL, **changed}
        return begin_call(scope, **{**terms, "options": {**terms["options"], "call_key": "k"}})

    first = call()
    run = make.run(scope.run.program)
    run.parent, run.call = scope, first
    run.outcome = FAILED
    with CallInProgress(run):
        pass
    if not is_same:
        with pytest.raises(InvalidUpdateError, match="used the call_key 'k' twice"):
            call(**change)
        return
    again = call(**change)

    assert again.is_retry
    assert again.namespace == first.namespace

    run.call = again
    with pytest.raises(asyncio.CancelledError), CallInProgress(run):
        raise asyncio.CancelledError
    resumed = call(**change)
    assert not resumed.is_retry
    assert resumed.namespace == first.namespace


def test_a_call_without_a_key_is_never_a_retry(scope_in: Any, make: Any) -> None:
    scope = scope_in()
    run = make.run(scope.run.program)
    run.parent, run.call = scope, begin_call(scope, GRAPH, graph_input={"item": "shoes"})
    run.outcome = FAILED
    with CallInProgress(run):
        pass

    again = begin_call(scope, GRAPH, graph_input={"item": "shoes"})
    assert not again.is_retry
    assert again.namespace == f"{run.call.namespace}:#1"


def test_two_live_calls_with_one_memory_are_refused(scope_in: Any) -> None:
    scope = scope_in()
    take_namespace(scope.copy(), "a")
    take_namespace(scope.copy(), "a:key")

    with pytest.raises(NamespaceBusy) as caught:
        take_namespace(scope.copy(), "a")
    assert caught.value.namespace == "a"


def test_a_call_whose_attempt_was_given_up_has_its_namespace_no_more(scope_in: Any) -> None:
    scope = scope_in()
    scope.begin_attempt(Attempt(1, FakeClock()))
    first = scope.copy()
    take_namespace(first, "a")
    scope.attempt.abandoned = True
    scope.begin_attempt(Attempt(2, FakeClock()))
    second = scope.copy()
    take_namespace(second, "a")

    with CallInProgress(SimpleNamespace(live=scope.run.live, namespace="a", parent=first, call=None)):  # type: ignore[arg-type]
        pass
    assert scope.run.live == {"a": second}
    with CallInProgress(SimpleNamespace(live=scope.run.live, namespace="a", parent=second, call=None)):  # type: ignore[arg-type]
        pass
    assert scope.run.live == {}


@pytest.mark.parametrize(
    ("memory", "keep", "saved", "dropped"),
    [
        ("call", False, True, True),
        ("call", True, True, False),
        ("thread", False, True, False),
        ("none", False, False, False),
    ],
)
def test_which_calls_are_saved_and_which_go_with_their_task(
    scope_in: Any, memory: Any, keep: bool, saved: bool, dropped: bool
) -> None:
    scope = scope_in(saver=InMemorySaver(), branch="side")

    line = call_line(scope, "a:1", memory, keep=keep)

    assert (line == ("thread", "a:1", "side")) is saved
    assert (line is None) is not saved
    assert ("a:1" in scope.run.open_namespaces) is dropped


def test_nothing_is_saved_where_the_caller_saves_nothing(scope_in: Any) -> None:
    assert call_line(scope_in(), "a:1", "call", keep=False) is None
