"""Calls of subgraphs: results, namespaces and retries."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from statewright import START, InMemorySaver, RunControl
from statewright.checkpoint import Checkpoint
from statewright.errors import InvalidUpdateError, NamespaceBusy
from statewright.graph.node_output import SubgraphResult
from statewright.runtime.core.subgraph import collect_changes, common_fields, subgraph_calls
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import SubgraphCall
from statewright.runtime.lifecycle.subgraph_call import CallInProgress, begin_call, call_branch_key, take_namespace
from statewright.testing import FakeClock


class Incomparable:
    """Cannot be compared by one truth value, like an array."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("ambiguous")

    __hash__ = None


INCOMPARABLE = Incomparable()


# -- the result for the caller


@pytest.mark.parametrize(
    ("result", "fields", "expected"),
    [
        ({"x": 1, "own": 2}, {"x", "z"}, {"x": 1}),
        ({"own": 2}, {"x"}, {}),
        ({"x": 1, "own": 2}, None, {"x": 1, "own": 2}),
        ("bare", {"x"}, "bare"),
        (None, {"x"}, None),
    ],
)
def test_a_caller_receives_the_common_fields(result: Any, fields: Any, expected: Any) -> None:
    assert common_fields(result, None if fields is None else frozenset(fields)) == expected


@pytest.mark.parametrize(
    ("result", "graph_input", "update"),
    [
        ({"x": 1}, {"x": 1}, {}),
        ({"x": [1]}, {"x": [1]}, {}),
        ({"x": 2}, {"x": 1}, {"x": 2}),
        ({"x": None}, {}, {"x": None}),
        ({"x": None}, {"x": None}, {}),
        ({"x": 2, "y": 1}, {"x": 1, "y": 1}, {"x": 2}),
        ({"log": [1, 2]}, {"log": [1]}, {}),
        ({"x": INCOMPARABLE}, {"x": INCOMPARABLE}, {}),
        ({"x": Incomparable()}, {"x": INCOMPARABLE}, ...),
        ({"x": 1}, "no mapping", {"x": 1}),
    ],
)
def test_collect_changes_returns_the_values_that_differ_from_the_input(
    result: Any, graph_input: Any, update: Any
) -> None:
    changes = collect_changes(result, graph_input, [], frozenset({"log"}))

    assert type(changes) is SubgraphResult
    if update is ...:
        assert changes.update["x"] is result["x"]
    else:
        assert changes.update == update


def test_common_fields_with_reducers_are_returned_as_writes() -> None:
    written = [("log", [1]), ("own", 5), ("log", [2])]

    changes = collect_changes({"log": [0, 1, 2], "x": 1}, {"log": [0]}, written, frozenset({"log"}))

    assert changes.update == {"x": 1}
    assert changes.writes == [("log", [1]), ("log", [2])]


@pytest.mark.parametrize("result", ["bare", None, 3])
def test_a_bare_result_is_returned_unchanged(result: Any) -> None:
    assert collect_changes(result, {"x": 1}, [], frozenset()) is result


class FakeSubgraph:
    """A compiled graph as its caller sees it: increments a number, and reports its writes."""

    reported = frozenset({"log", "own"})
    passes_state_on = True

    def __init__(self, *, passes_state_on: bool = True) -> None:
        self.passes_state_on = passes_state_on

    def call_within(self, state: Any, memory: str) -> Any:
        return {"x": state["x"] + 1, "hidden": 0, "log": ["all"], "memory": memory}, [("log", ["new"]), ("own", [1])]


def test_calling_a_subgraph_returns_its_changes_of_the_callers_state() -> None:
    call, _ = subgraph_calls(FakeSubgraph(), "thread", frozenset({"x", "log", "memory"}), frozenset({"log", "other"}))  # type: ignore[arg-type]

    answer = call({"x": 1, "log": []})

    assert answer.update == {"x": 2, "memory": "thread"}
    assert answer.writes == [("log", ["new"])]


def test_a_subgraph_without_common_state_returns_its_whole_result() -> None:
    subgraph = FakeSubgraph(passes_state_on=False)
    call, _ = subgraph_calls(subgraph, "call", frozenset({"x", "log"}), frozenset({"log"}))  # type: ignore[arg-type]

    assert call({"x": 1, "log": []}) == {"x": 2, "hidden": 0, "log": ["all"], "memory": "call"}


# -- namespaces


@pytest.fixture
def scope_in(make: Any) -> Any:
    """Return a function that returns the scope of a task, in a run in a namespace."""
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
def test_the_namespace_of_a_call_depends_on_memory_key_and_number(
    scope_in: Any, outer: str, memory: Any, keys: Any, segments: list[str]
) -> None:
    scope = scope_in(outer)
    prefix = f"{outer}|" if outer else ""

    namespaces = [begin_call(scope, object(), memory, options={"call_key": key}).namespace for key in keys]

    assert namespaces == [prefix + segment.replace("ID", scope.task.id) for segment in segments]


@pytest.mark.parametrize("memory", ["call", "thread"])
def test_call_keys_and_numbers_have_different_namespaces(scope_in: Any, memory: Any) -> None:
    scope = scope_in()
    keys = (None, "1", None, None, "", "#1", "#2", "%", "%#1", "a|b", "a%7Cb", "a", "a:b")
    namespaces = [begin_call(scope, object(), memory, options={"call_key": key}).namespace for key in keys]

    assert len(set(namespaces)) == len(keys)
    assert not any("|" in namespace for namespace in namespaces), "no key is a path"


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
def test_only_the_same_call_can_retry_a_failed_one(
    scope_in: Any, make: Any, change: dict[str, Any], is_same: bool
) -> None:
    scope = scope_in()

    def call(**changed: Any) -> SubgraphCall:
        arguments = {**CALL, **changed}
        return begin_call(scope, **{**arguments, "options": {**arguments["options"], "call_key": "k"}})

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
    retry = call(**change)

    assert retry.is_retry
    assert retry.namespace == first.namespace

    run.call = retry
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

    second = begin_call(scope, GRAPH, graph_input={"item": "shoes"})
    assert not second.is_retry
    assert second.namespace == f"{run.call.namespace}:#1"


def test_two_running_calls_in_one_namespace_are_refused(scope_in: Any) -> None:
    scope = scope_in()
    take_namespace(scope.pinned_copy(), "a")
    take_namespace(scope.pinned_copy(), "a:key")

    with pytest.raises(NamespaceBusy) as caught:
        take_namespace(scope.pinned_copy(), "a")
    assert caught.value.namespace == "a"


def test_a_call_of_an_abandoned_attempt_loses_its_namespace(scope_in: Any) -> None:
    scope = scope_in()
    scope.begin_attempt(Attempt(1, FakeClock()))
    first = scope.pinned_copy()
    take_namespace(first, "a")
    scope.attempt.abandoned = True
    scope.begin_attempt(Attempt(2, FakeClock()))
    second = scope.pinned_copy()
    take_namespace(second, "a")

    callers = scope.run.thread_memory_callers
    with CallInProgress(SimpleNamespace(thread_memory_callers=callers, namespace="a", parent=first, call=None)):  # type: ignore[arg-type]
        pass
    assert callers == {"a": second}
    with CallInProgress(SimpleNamespace(thread_memory_callers=callers, namespace="a", parent=second, call=None)):  # type: ignore[arg-type]
        pass
    assert callers == {}


@pytest.mark.parametrize(
    ("memory", "keep", "saved", "dropped"),
    [
        ("call", False, True, True),
        ("call", True, True, False),
        ("thread", False, True, False),
        ("none", False, False, False),
    ],
)
def test_memory_and_keep_decide_if_a_call_is_saved_and_dropped(
    scope_in: Any, memory: Any, keep: bool, saved: bool, dropped: bool
) -> None:
    scope = scope_in(saver=InMemorySaver(), branch="side")

    branch_key = call_branch_key(scope, "a:1", memory, keep=keep)

    assert (branch_key == ("thread", "a:1", "side")) is saved
    assert (branch_key is None) is not saved
    assert ("a:1" in scope.run.open_namespaces) is dropped


def test_a_call_is_not_saved_if_its_caller_is_not(scope_in: Any) -> None:
    assert call_branch_key(scope_in(), "a:1", "call", keep=False) is None
