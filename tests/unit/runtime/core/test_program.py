"""Graphs with every question answered that can be answered before they run."""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Message, Overwrite, RetryPolicy, Send, StateSchema, add_messages, append
from statewright.channels import Ephemeral, LastValue, Reduced, Topic, Untracked
from statewright.checkpoint import NO_ARG
from statewright.errors import InvalidUpdateError, UnknownKeyWarning
from statewright.graph import STOP
from statewright.runtime.core.program import display_name, is_error_handled, is_hidden
from statewright.state import IsLastStep


class Fields(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]
    total: Annotated[int, lambda old, new: old + new]
    signal: Annotated[str, Ephemeral()]
    brief: Annotated[str, Ephemeral(lifetime="step")]
    handle: Annotated[Any, Untracked()]
    topic: Annotated[list[Any], Topic()]


class Output(TypedDict, total=False):
    x: int
    signal: Annotated[str, Ephemeral()]


@dataclass
class Result:
    x: int
    y: int = 7


async def awaits(state: Any) -> None:
    """A coroutine function."""


def plain(state: Any) -> None:
    """A plain function."""


def goes(state: Any) -> str:
    return END


async def asks(state: Any) -> str:
    return END


def single(
    make: Any, action: Any = plain, *, compiled: dict[str, Any] | None = None, path: Any = None, **options: Any
) -> Any:
    """A program with the one node `a`."""
    graph = make.graph(schema=options.pop("schema", Fields)).add_node("a", action, **options).add_edge(START, "a")
    if path is not None:
        graph.add_conditional_edges("a", path, ["a", END])
    return make.program(graph, **(compiled or {}))


# -- values


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (Fields, {"log": [], "total": 0, "topic": []}),
        ({"log": append, "x": int}, {"log": []}),
        ({"n": Reduced(max)}, {}),
        ({"n": Reduced(max, start=lambda: 3)}, {"n": 3}),
        (Result, {"y": 7}),
        ({}, {}),
    ],
)
def test_the_values_that_a_state_has_before_its_first_update(make: Any, schema: Any, values: dict[str, Any]) -> None:
    assert single(make, schema=schema).start_values() == values


def test_start_values_are_made_afresh(make: Any) -> None:
    program = single(make)
    program.start_values()["log"].append("mine")

    assert program.start_values()["log"] == []


@pytest.mark.parametrize(
    ("schema", "output", "shown"),
    [
        (Fields, None, {"x": 1, "log": [2], "total": 3, "topic": [4], "handle": "h"}),
        (Fields, Output, {"x": 1}),
        (
            {"x": int, "signal": Ephemeral()},
            None,
            {"x": 1, "log": [2], "total": 3, "topic": [4], "brief": "b", "handle": "h"},
        ),
    ],
    ids=["closed", "an output schema", "open"],
)
def test_what_a_caller_sees_of_the_state(make: Any, schema: Any, output: Any, shown: dict[str, Any]) -> None:
    graph = make.graph("a", schema=schema).add_edge(START, "a")
    graph.output_schema = output
    values = {"x": 1, "log": [2], "total": 3, "topic": [4], "signal": "s", "brief": "b", "handle": "h"}

    assert make.program(graph).output(values) == shown


def test_a_caller_sees_the_fields_that_have_a_value_and_may_change_the_mapping(make: Any) -> None:
    program, values = single(make), {"x": 1}
    shown = program.output(values)
    shown["x"] = 2

    assert (shown, values) == ({"x": 2}, {"x": 1})


@pytest.mark.parametrize("values", [{"__root__": [1]}, {}])
def test_a_caller_sees_a_bare_state_bare(make: Any, values: dict[str, Any]) -> None:
    assert single(make, schema=Annotated[list[Any], append]).output(values) == values.get("__root__")


@pytest.mark.parametrize(("validate", "result"), [("input", {"x": 1}), ("all", Result(1)), ("off", {"x": 1})])
def test_a_result_is_an_instance_where_everything_is_validated(make: Any, validate: str, result: Any) -> None:
    assert single(make, schema=Result, compiled={"validate": validate}).output({"x": 1}) == result


@pytest.mark.parametrize(
    ("writes", "shown"),
    [
        ({"x": 1}, {"x": 1}),
        ({}, None),
        ([("x", 1), ("log", [2])], [{"x": 1}, {"log": [2]}]),
        ([("log", [1]), ("log", [2])], [{"log": [1]}, {"log": [2]}]),
        ([], None),
    ],
)
def test_readers_of_updates_see_writes_pair_by_pair_where_a_field_was_written_twice(
    make: Any, writes: Any, shown: Any
) -> None:
    assert single(make).visible_writes(make.result("a", writes)) == shown


# -- channels


def test_channels_are_known_by_how_they_merge_and_how_long_they_keep(make: Any) -> None:
    program = single(make)

    assert set(program.merging) == {"log", "total", "signal", "brief", "handle", "topic"}
    assert set(program.transient) == {"signal", "brief", "topic"}
    assert program.step_only == {"brief"}
    assert program.untracked == {"handle"}
    assert program.hidden == {"signal", "brief"}


@pytest.mark.parametrize(("output", "reported"), [(None, {"log", "total", "handle", "topic"}), (Output, set())])
def test_a_caller_is_told_of_fields_that_merge_and_that_it_is_shown(make: Any, output: Any, reported: set[str]) -> None:
    graph = make.graph("a", schema=Fields).add_edge(START, "a")
    graph.output_schema = output

    assert make.program(graph).reported == reported


def test_input_is_read_by_the_input_schema(make: Any) -> None:
    graph = make.graph("a", schema=Fields).add_edge(START, "a")
    graph.input_schema = Output
    program, task = make.program(graph), make.task(START)

    assert program.start.updates.read({"x": 1}, START, task) == {"x": 1}
    with pytest.warns(UnknownKeyWarning, match="'log'"):
        assert program.start.updates.read({"log": [1]}, START, task) == {}


@pytest.mark.parametrize(
    ("validate", "input_is", "answers_are"), [("input", True, False), ("all", True, True), ("off", False, False)]
)
def test_what_is_checked_against_the_types(make: Any, validate: str, input_is: bool, answers_are: bool) -> None:
    program, task = single(make, compiled={"validate": validate}), make.task("a")

    for reader, is_checked in ((program.start.updates, input_is), (program.updates, answers_are)):
        if is_checked:
            with pytest.raises(InvalidUpdateError, match="x"):
                reader.read({"x": "text"}, "a", task)
        else:
            assert reader.read({"x": "text"}, "a", task) == {"x": "text"}


def test_a_default_is_there_in_the_form_that_its_channel_keeps(make: Any) -> None:
    @dataclass
    class Talk:
        messages: Annotated[list[Any], add_messages] = field(
            default_factory=lambda: [{"role": "user", "content": "hi"}]
        )

    values = single(make, schema=Talk).start_values()

    assert [(type(message), message.role) for message in values["messages"]] == [(Message, "user")]


def test_those_who_watch_a_field_are_known_by_declaration(make: Any) -> None:
    graph = make.graph("a", "b", "c", schema=Fields, b={"on": ["log", "x"]}, c={"on": ["x"]}).add_edge(START, "a")

    assert make.program(graph).subscribers == {"x": ("b", "c"), "log": ("b",)}


# -- what follows a node


def test_what_follows_a_node_are_its_edges_without_the_end(make: Any) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge("a", "c").add_edge("a", "b").add_edge("a", END)
    program = make.program(graph)

    assert program.nodes["a"].successors == ("c", "b")
    assert program.nodes["b"].successors == ()
    assert program.nodes[START].successors == ("a",)


@pytest.mark.parametrize(("edge", "joined"), [(None, {"c": True, "b": False}), (("a", "c"), {"c": False, "b": False})])
def test_a_goto_to_the_end_of_a_join_is_known_unless_an_edge_leads_there_too(
    make: Any, edge: Any, joined: dict[str, bool]
) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    if edge is not None:
        graph.add_edge(*edge)
    node = make.program(graph).nodes["a"]

    assert {target: bool(node.joined_to(target)) for target in joined} == joined


def test_an_error_handler_is_a_hidden_node_that_goes_on_where_its_node_does(make: Any) -> None:
    graph = make.graph("b", "c").add_node("a", plain, error_handler=lambda state, error: None, writes=["x"])
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge(["a", "b"], "c")
    program = make.program(graph)
    node = program.nodes["a"]
    handler = program.nodes[node.handler]

    assert "a" in program.graph.nodes
    assert handler.name not in program.graph.nodes
    assert (handler.successors, handler.joins) == (node.successors, node.joins)
    assert (handler.edge_source, handler.writes) == ("a", frozenset({"x"}))


def test_where_a_node_may_go_is_what_it_declares_and_where_its_edges_lead(make: Any) -> None:
    graph = make.graph("a", "b", "c", "d", a={"destinations": ["c"]}).add_edge(START, "a").add_edge("a", "b")
    program = make.program(graph.add_edge("b", "d"))

    assert program.nodes["a"].allowed_targets == {"b", "c", END, STOP}
    assert program.nodes["b"].allowed_targets is None
    assert program.targets == {"a", "b", "c", "d", END, STOP}


def test_a_conditional_edge_reads_the_schema_that_it_names(make: Any) -> None:
    def by_class(result: Result) -> str:
        return END

    def by_state(state: Fields) -> str:
        return END

    def by_nothing(state: Any) -> str:
        return END

    graph = make.graph("a", "b", schema=Fields, b={"input_schema": Result}).add_edge(START, "a").add_edge("a", "b")
    for path in (by_class, by_state, by_nothing):
        graph.add_conditional_edges("a", path, ["b", END])
    routes = make.program(graph).nodes["a"].routes

    assert [type(route.read({"x": 1}, NO_ARG)) for route in routes] == [Result, dict, dict]


@pytest.mark.parametrize(
    ("path_map", "meanings"),
    [({"go": "a", True: END}, {"go": "a", True: END}), (["a"], {"a": "a"}), (None, {"a": "a", END: END, STOP: STOP})],
)
def test_what_a_conditional_edge_may_mean(make: Any, path_map: Any, meanings: dict[Any, str]) -> None:
    graph = make.graph("a").add_edge(START, "a").add_conditional_edges("a", goes, path_map)
    (route,) = make.program(graph).nodes["a"].routes

    assert dict(route.targets_by_choice) == meanings


# -- where nodes run


@pytest.mark.parametrize(
    ("action", "options", "alone", "beside", "on_a_loop"),
    [
        (plain, {}, "thread", "thread", "thread"),
        (awaits, {}, "loop", "loop", "loop"),
        (plain, {"inline": True}, "inline", "inline", "inline"),
        (plain, {"retry_policy": RetryPolicy()}, "thread", "loop", "loop"),
        (plain, {"max_concurrency": 1}, "thread", "loop", "loop"),
        (plain, {"path": goes}, "thread", "thread", "thread"),
        (plain, {"path": asks}, "loop", "loop", "loop"),
    ],
    ids=["plain", "coroutine", "inline", "with a policy", "with a limit", "plain edge", "edge that awaits"],
)
def test_where_a_node_runs(
    make: Any, action: Any, options: dict[str, Any], alone: str, beside: str, on_a_loop: str
) -> None:
    node = single(make, action, **options).nodes["a"]

    assert (node.sync_lane, node.concurrent_lane, node.async_lane) == (alone, beside, on_a_loop)


def test_a_subgraph_runs_where_the_run_is(make: Any) -> None:
    inner = make.graph("inner").add_edge(START, "inner").compile()
    node = single(make, inner).nodes["a"]

    assert (node.sync_lane, node.async_lane) == ("thread", "loop")
    assert node.call is not node.acall


@pytest.mark.parametrize(
    ("options", "beside"), [({}, "thread"), ({"timeout": 1}, "loop"), ({"retry_policy": RetryPolicy()}, "loop")]
)
def test_an_error_handler_is_tried_and_timed_like_its_node(make: Any, options: dict[str, Any], beside: str) -> None:
    program = single(make, error_handler=lambda state, error: None, **options)
    handler = program.nodes[program.nodes["a"].handler]

    assert (handler.guards is not None) is (beside == "loop")
    assert (handler.sync_lane, handler.concurrent_lane, handler.async_lane) == ("thread", beside, beside)


# -- short cuts


@pytest.mark.parametrize(
    ("build", "simple"),
    [
        (lambda graph: graph.add_edge("a", "b"), True),
        (lambda graph: graph.add_conditional_edges("a", goes, ["b"]), True),
        (lambda graph: graph.add_edge(["a", "b"], "c"), False),
        (lambda graph: graph.add_node("d", plain, on=["x"]), False),
        (lambda graph: graph.add_node("d", plain, join="idle").add_edge("a", "d"), False),
        (lambda graph: graph.add_node("d", plain, join="reachable").add_edge("a", "d"), False),
        (lambda graph: graph.add_node("d", plain, defer=True).add_edge("a", "d"), False),
    ],
)
def test_targets_alone_decide_what_follows_unless_somebody_waits(make: Any, build: Any, simple: bool) -> None:
    graph = make.graph("a", "b", "c")
    for name in "abc":
        graph.add_edge(START, name)

    assert make.program(build(graph)).has_simple_frontier is simple


class Computed(TypedDict, total=False):
    x: int
    last: IsLastStep


@pytest.mark.parametrize(
    ("options", "lean"),
    [
        ({}, True),
        ({"compiled": {"debug": True}}, False),
        ({"schema": Computed}, False),
        ({"error_handler": plain}, False),
        ({"path": goes}, True),
    ],
)
def test_a_task_only_reads_and_calls_unless_something_has_to_be_computed(
    make: Any, options: dict[str, Any], lean: bool
) -> None:
    assert single(make, **options).allows_fast_path is lean


@pytest.mark.parametrize(
    ("options", "takes_the_short_way"),
    [
        ({"path": goes}, True),
        ({"path": asks}, False),
        ({"path": lambda state, config: END}, False),
        ({"path": goes, "schema": Computed}, False),
        ({}, False),
    ],
)
def test_a_lone_plain_conditional_edge_takes_the_short_way(
    make: Any, options: dict[str, Any], takes_the_short_way: bool
) -> None:
    assert (single(make, **options).nodes["a"].single_route is not None) is takes_the_short_way


def test_a_conditional_edge_beside_a_plain_one_does_not(make: Any) -> None:
    graph = make.graph("a", "b").add_edge(START, "a").add_edge("a", "b").add_conditional_edges("a", goes, ["b", END])

    assert make.program(graph).nodes["a"].single_route is None


def test_nodes_with_one_schema_share_its_reader(make: Any) -> None:
    graph = make.graph("a", "b", "c", schema=Fields, c={"input_schema": Result})
    for name in "abc":
        graph.add_edge(START, name)
    nodes = make.program(graph).nodes

    assert nodes["a"].read is nodes["b"].read is not nodes["c"].read


def test_a_builtin_without_a_signature_takes_the_state(make: Any) -> None:
    node = single(make, dict).nodes["a"]

    assert node.takes_state
    assert node.injected is None


@pytest.mark.parametrize(
    ("action", "options", "whole", "bare"),
    [
        (plain, {}, True, True),
        (lambda state, config: None, {}, True, False),
        (lambda *, config: None, {}, True, False),
        (plain, {"input_schema": Result}, False, True),
        (plain, {"reads": ["x"]}, False, True),
    ],
)
def test_a_node_that_takes_the_state_and_nothing_else_is_called_with_it(
    make: Any, action: Any, options: dict[str, Any], whole: bool, bare: bool
) -> None:
    node = single(make, action, **options).nodes["a"]

    assert (node.reads_all, node.state_only) == (whole, bare)


@pytest.mark.parametrize(
    ("schema", "options", "known"),
    [
        ({"x": int}, {}, None),
        (StateSchema({"x": int, "y": int}, closed=True), {}, {"x", "y"}),
        (StateSchema({"x": int, "y": int}, closed=True), {"writes": ["x"]}, {"x"}),
        ({"x": int}, {"writes": ["x"]}, None),
        (StateSchema({"x": int}, closed=True), {"compiled": {"validate": "all"}}, None),
    ],
)
def test_an_answer_with_known_keys_needs_no_reading_unless_something_is_done_to_it(
    make: Any, schema: Any, options: dict[str, Any], known: Any
) -> None:
    assert single(make, schema=schema, **options).nodes["a"].plain_keys == known


# -- names


@pytest.mark.parametrize(
    ("build", "handed_over"),
    [
        (lambda make, handler: make.result("a", {}, [Send(handler, None)], goto=True), True),
        (lambda make, handler: make.result("a", {}, [Send("b", None)], goto=True), False),
        (lambda make, handler: make.result("a", {}, ["b"], goto=True), False),
        (lambda make, handler: make.result("a", {"x": Overwrite(1)}, ["b"]), False),
    ],
)
def test_whether_an_error_handler_will_answer(make: Any, build: Any, handed_over: bool) -> None:
    handler = single(make, error_handler=plain).nodes["a"].handler

    assert is_error_handled(build(make, handler)) is handed_over


def test_users_know_an_error_handler_by_the_name_of_its_node(make: Any) -> None:
    handler = make.task(single(make, error_handler=plain).nodes["a"].handler)
    node = make.task("a")

    assert display_name(handler) == display_name(node) == "a"
    assert (is_hidden(handler), is_hidden(node)) == (True, False)


def test_plain_fields_are_those_that_simply_become_what_was_written(make: Any) -> None:
    program = single(make, schema={"x": LastValue(), "y": int, "log": append})

    assert set(program.channels) - set(program.merging) == {"x", "y"}
