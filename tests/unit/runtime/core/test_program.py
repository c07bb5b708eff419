"""Programs: what is computed from a graph before it runs."""

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


async def coroutine_node(state: Any) -> None:
    """A coroutine function."""


def plain_node(state: Any) -> None:
    """A plain function."""


def plain_path(state: Any) -> str:
    return END


async def coroutine_path(state: Any) -> str:
    return END


def single(
    make: Any,
    action: Any = plain_node,
    *,
    program_options: dict[str, Any] | None = None,
    path: Any = None,
    **options: Any,
) -> Any:
    """Return a program with the one node `a`."""
    graph = make.graph(schema=options.pop("schema", Fields)).add_node("a", action, **options).add_edge(START, "a")
    if path is not None:
        graph.add_conditional_edges("a", path, ["a", END])
    return make.program(graph, **(program_options or {}))


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
def test_start_values_come_from_reducers_and_defaults(make: Any, schema: Any, values: dict[str, Any]) -> None:
    assert single(make, schema=schema).start_values() == values


def test_start_values_are_new_each_time(make: Any) -> None:
    program = single(make)
    program.start_values()["log"].append("mine")

    assert program.start_values()["log"] == []


@pytest.mark.parametrize(
    ("schema", "output", "expected"),
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
def test_the_output_has_the_visible_fields(make: Any, schema: Any, output: Any, expected: dict[str, Any]) -> None:
    graph = make.graph("a", schema=schema).add_edge(START, "a")
    graph.output_schema = output
    values = {"x": 1, "log": [2], "total": 3, "topic": [4], "signal": "s", "brief": "b", "handle": "h"}

    assert make.program(graph).output(values) == expected


def test_changing_the_output_does_not_change_the_state(make: Any) -> None:
    program, values = single(make), {"x": 1}
    output = program.output(values)
    output["x"] = 2

    assert (output, values) == ({"x": 2}, {"x": 1})


@pytest.mark.parametrize("values", [{"__root__": [1]}, {}])
def test_the_output_of_a_bare_state_is_its_value(make: Any, values: dict[str, Any]) -> None:
    assert single(make, schema=Annotated[list[Any], append]).output(values) == values.get("__root__")


@pytest.mark.parametrize(("validate", "result"), [("input", {"x": 1}), ("all", Result(1)), ("off", {"x": 1})])
def test_the_output_is_an_instance_if_everything_is_validated(make: Any, validate: str, result: Any) -> None:
    assert single(make, schema=Result, program_options={"validate": validate}).output({"x": 1}) == result


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ({"x": 1}, {"x": 1}),
        ({}, None),
        ([("x", 1), ("log", [2])], [{"x": 1}, {"log": [2]}]),
        ([("log", [1]), ("log", [2])], [{"log": [1]}, {"log": [2]}]),
        ([], None),
    ],
)
def test_visible_writes_are_a_list_if_a_field_was_written_twice(make: Any, writes: Any, expected: Any) -> None:
    assert single(make).visible_writes(make.result("a", writes)) == expected


# -- channels


def test_channels_are_grouped_by_merging_and_lifetime(make: Any) -> None:
    program = single(make)

    assert set(program.merging_channels) == {"log", "total", "signal", "brief", "handle", "topic"}
    assert set(program.transient_channels) == {"signal", "brief", "topic"}
    assert program.step_only_channels == {"brief"}
    assert program.untracked_channels == {"handle"}
    assert program.hidden_fields == {"signal", "brief"}


@pytest.mark.parametrize(("output", "reported"), [(None, {"log", "total", "handle", "topic"}), (Output, set())])
def test_reported_fields_are_visible_fields_with_reducers(make: Any, output: Any, reported: set[str]) -> None:
    graph = make.graph("a", schema=Fields).add_edge(START, "a")
    graph.output_schema = output

    assert make.program(graph).reported_fields == reported


def test_input_is_read_by_the_input_schema(make: Any) -> None:
    graph = make.graph("a", schema=Fields).add_edge(START, "a")
    graph.input_schema = Output
    program, task = make.program(graph), make.task(START)

    assert program.start.updates.read({"x": 1}, START, task) == {"x": 1}
    with pytest.warns(UnknownKeyWarning, match="'log'"):
        assert program.start.updates.read({"log": [1]}, START, task) == {}


@pytest.mark.parametrize(
    ("validate", "checks_input", "checks_results"), [("input", True, False), ("all", True, True), ("off", False, False)]
)
def test_validate_decides_whether_input_and_results_are_checked(
    make: Any, validate: str, checks_input: bool, checks_results: bool
) -> None:
    program, task = single(make, program_options={"validate": validate}), make.task("a")

    for reader, is_checked in ((program.start.updates, checks_input), (program.updates, checks_results)):
        if is_checked:
            with pytest.raises(InvalidUpdateError, match="x"):
                reader.read({"x": "text"}, "a", task)
        else:
            assert reader.read({"x": "text"}, "a", task) == {"x": "text"}


def test_a_default_is_prepared_by_its_channel(make: Any) -> None:
    @dataclass
    class Conversation:
        messages: Annotated[list[Any], add_messages] = field(
            default_factory=lambda: [{"role": "user", "content": "hi"}]
        )

    values = single(make, schema=Conversation).start_values()

    assert [(type(message), message.role) for message in values["messages"]] == [(Message, "user")]


def test_subscribers_of_a_field_are_in_the_order_of_declaration(make: Any) -> None:
    graph = make.graph("a", "b", "c", schema=Fields, b={"on": ["log", "x"]}, c={"on": ["x"]}).add_edge(START, "a")

    assert make.program(graph).subscribers == {"x": ("b", "c"), "log": ("b",)}


# -- successors


def test_successors_of_a_node_are_its_edges_without_end(make: Any) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge("a", "c").add_edge("a", "b").add_edge("a", END)
    program = make.program(graph)

    assert program.nodes["a"].successors == ("c", "b")
    assert program.nodes["b"].successors == ()
    assert program.nodes[START].successors == ("a",)


@pytest.mark.parametrize(("edge", "joined"), [(None, {"c": True, "b": False}), (("a", "c"), {"c": False, "b": False})])
def test_a_node_is_joined_to_the_end_of_a_join_unless_an_edge_leads_there(
    make: Any, edge: Any, joined: dict[str, bool]
) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    if edge is not None:
        graph.add_edge(*edge)
    node = make.program(graph).nodes["a"]

    assert {target: bool(node.joins_reached_by_goto(target)) for target in joined} == joined


def test_an_error_handler_is_a_hidden_node_with_the_edges_of_its_node(make: Any) -> None:
    graph = make.graph("b", "c").add_node("a", plain_node, error_handler=lambda state, error: None, writes=["x"])
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge(["a", "b"], "c")
    program = make.program(graph)
    node = program.nodes["a"]
    handler = program.nodes[node.handler]

    assert "a" in program.graph.nodes
    assert handler.name not in program.graph.nodes
    assert (handler.successors, handler.joins) == (node.successors, node.joins)
    assert (handler.edge_source, handler.writes) == ("a", frozenset({"x"}))


def test_allowed_targets_are_the_destinations_and_the_edges(make: Any) -> None:
    graph = make.graph("a", "b", "c", "d", a={"destinations": ["c"]}).add_edge(START, "a").add_edge("a", "b")
    program = make.program(graph.add_edge("b", "d"))

    assert program.nodes["a"].allowed_targets == {"b", "c", END, STOP}
    assert program.nodes["b"].allowed_targets is None
    assert program.targets == {"a", "b", "c", "d", END, STOP}


def test_a_conditional_edge_reads_the_schema_of_its_type_hint(make: Any) -> None:
    def by_class(result: Result) -> str:
        return END

    def by_state(state: Fields) -> str:
        return END

    def by_any(state: Any) -> str:
        return END

    graph = make.graph("a", "b", schema=Fields, b={"input_schema": Result}).add_edge(START, "a").add_edge("a", "b")
    for path in (by_class, by_state, by_any):
        graph.add_conditional_edges("a", path, ["b", END])
    routes = make.program(graph).nodes["a"].routes

    assert [type(route.read({"x": 1}, NO_ARG)) for route in routes] == [Result, dict, dict]


@pytest.mark.parametrize(
    ("path_map", "targets"),
    [({"go": "a", True: END}, {"go": "a", True: END}), (["a"], {"a": "a"}), (None, {"a": "a", END: END, STOP: STOP})],
)
def test_targets_by_choice_come_from_the_path_map(make: Any, path_map: Any, targets: dict[Any, str]) -> None:
    graph = make.graph("a").add_edge(START, "a").add_conditional_edges("a", plain_path, path_map)
    (route,) = make.program(graph).nodes["a"].routes

    assert dict(route.targets_by_choice) == targets


# -- lanes


@pytest.mark.parametrize(
    ("action", "options", "sync", "concurrent", "async_"),
    [
        (plain_node, {}, "thread", "thread", "thread"),
        (coroutine_node, {}, "loop", "loop", "loop"),
        (plain_node, {"inline": True}, "inline", "inline", "inline"),
        (plain_node, {"retry_policy": RetryPolicy()}, "thread", "loop", "loop"),
        (plain_node, {"max_concurrency": 1}, "thread", "loop", "loop"),
        (plain_node, {"path": plain_path}, "thread", "thread", "thread"),
        (plain_node, {"path": coroutine_path}, "loop", "loop", "loop"),
    ],
    ids=["plain", "coroutine", "inline", "retry policy", "concurrency limit", "plain path", "coroutine path"],
)
def test_a_node_has_a_lane_for_every_kind_of_driver(
    make: Any, action: Any, options: dict[str, Any], sync: str, concurrent: str, async_: str
) -> None:
    node = single(make, action, **options).nodes["a"]

    assert (node.sync_lane, node.concurrent_lane, node.async_lane) == (sync, concurrent, async_)


def test_a_subgraph_runs_in_the_lane_of_its_run(make: Any) -> None:
    inner = make.graph("inner").add_edge(START, "inner").compile()
    node = single(make, inner).nodes["a"]

    assert (node.sync_lane, node.async_lane) == ("thread", "loop")
    assert node.call is not node.acall


@pytest.mark.parametrize(
    ("options", "concurrent"), [({}, "thread"), ({"timeout": 1}, "loop"), ({"retry_policy": RetryPolicy()}, "loop")]
)
def test_an_error_handler_has_the_policies_of_its_node(make: Any, options: dict[str, Any], concurrent: str) -> None:
    program = single(make, error_handler=lambda state, error: None, **options)
    handler = program.nodes[program.nodes["a"].handler]

    assert (handler.policies is not None) is (concurrent == "loop")
    assert (handler.sync_lane, handler.concurrent_lane, handler.async_lane) == ("thread", concurrent, concurrent)


# -- fast paths


@pytest.mark.parametrize(
    ("build", "simple"),
    [
        (lambda graph: graph.add_edge("a", "b"), True),
        (lambda graph: graph.add_conditional_edges("a", plain_path, ["b"]), True),
        (lambda graph: graph.add_edge(["a", "b"], "c"), False),
        (lambda graph: graph.add_node("d", plain_node, on=["x"]), False),
        (lambda graph: graph.add_node("d", plain_node, join="idle").add_edge("a", "d"), False),
        (lambda graph: graph.add_node("d", plain_node, join="reachable").add_edge("a", "d"), False),
        (lambda graph: graph.add_node("d", plain_node, defer=True).add_edge("a", "d"), False),
    ],
)
def test_a_graph_without_joins_and_subscriptions_has_a_simple_frontier(make: Any, build: Any, simple: bool) -> None:
    graph = make.graph("a", "b", "c")
    for name in "abc":
        graph.add_edge(START, name)

    assert make.program(build(graph)).has_simple_frontier is simple


class Computed(TypedDict, total=False):
    x: int
    last: IsLastStep


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"program_options": {"debug": True}}, False),
        ({"schema": Computed}, False),
        ({"error_handler": plain_node}, False),
        ({"path": plain_path}, True),
    ],
)
def test_a_program_allows_the_fast_path_without_debug_managed_values_and_handlers(
    make: Any, options: dict[str, Any], expected: bool
) -> None:
    assert single(make, **options).allows_fast_path is expected


@pytest.mark.parametrize(
    ("options", "is_single"),
    [
        ({"path": plain_path}, True),
        ({"path": coroutine_path}, False),
        ({"path": lambda state, config: END}, False),
        ({"path": plain_path, "schema": Computed}, False),
        ({}, False),
    ],
)
def test_a_single_plain_conditional_edge_is_a_single_route(make: Any, options: dict[str, Any], is_single: bool) -> None:
    assert (single(make, **options).nodes["a"].single_route is not None) is is_single


def test_a_conditional_edge_with_a_plain_edge_is_not_a_single_route(make: Any) -> None:
    graph = (
        make.graph("a", "b").add_edge(START, "a").add_edge("a", "b").add_conditional_edges("a", plain_path, ["b", END])
    )

    assert make.program(graph).nodes["a"].single_route is None


def test_nodes_with_the_same_schema_share_a_reader(make: Any) -> None:
    graph = make.graph("a", "b", "c", schema=Fields, c={"input_schema": Result})
    for name in "abc":
        graph.add_edge(START, name)
    nodes = make.program(graph).nodes

    assert nodes["a"].read is nodes["b"].read is not nodes["c"].read


def test_a_builtin_without_a_signature_receives_the_state(make: Any) -> None:
    node = single(make, dict).nodes["a"]

    assert node.takes_state
    assert node.injected is None


@pytest.mark.parametrize(
    ("action", "options", "reads_all", "state_only"),
    [
        (plain_node, {}, True, True),
        (lambda state, config: None, {}, True, False),
        (lambda *, config: None, {}, True, False),
        (plain_node, {"input_schema": Result}, False, True),
        (plain_node, {"reads": ["x"]}, False, True),
    ],
)
def test_reads_all_and_state_only_follow_from_the_signature_and_options(
    make: Any, action: Any, options: dict[str, Any], reads_all: bool, state_only: bool
) -> None:
    node = single(make, action, **options).nodes["a"]

    assert (node.reads_all, node.state_only) == (reads_all, state_only)


@pytest.mark.parametrize(
    ("schema", "options", "plain_keys"),
    [
        ({"x": int}, {}, None),
        (StateSchema({"x": int, "y": int}, closed=True), {}, {"x", "y"}),
        (StateSchema({"x": int, "y": int}, closed=True), {"writes": ["x"]}, {"x"}),
        ({"x": int}, {"writes": ["x"]}, None),
        (StateSchema({"x": int}, closed=True), {"program_options": {"validate": "all"}}, None),
    ],
)
def test_plain_keys_of_a_node_are_the_keys_that_need_no_reading(
    make: Any, schema: Any, options: dict[str, Any], plain_keys: Any
) -> None:
    assert single(make, schema=schema, **options).nodes["a"].plain_keys == plain_keys


# -- names


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda make, handler: make.result("a", {}, [Send(handler, None)], goto=True), True),
        (lambda make, handler: make.result("a", {}, [Send("b", None)], goto=True), False),
        (lambda make, handler: make.result("a", {}, ["b"], goto=True), False),
        (lambda make, handler: make.result("a", {"x": Overwrite(1)}, ["b"]), False),
    ],
)
def test_is_error_handled_recognises_a_send_to_the_error_handler(make: Any, build: Any, expected: bool) -> None:
    handler = single(make, error_handler=plain_node).nodes["a"].handler

    assert is_error_handled(build(make, handler)) is expected


def test_the_display_name_of_an_error_handler_is_the_name_of_its_node(make: Any) -> None:
    handler = make.task(single(make, error_handler=plain_node).nodes["a"].handler)
    node = make.task("a")

    assert display_name(handler) == display_name(node) == "a"
    assert (is_hidden(handler), is_hidden(node)) == (True, False)


def test_fields_without_reducers_are_not_merging(make: Any) -> None:
    program = single(make, schema={"x": LastValue(), "y": int, "log": append})

    assert set(program.channels) - set(program.merging_channels) == {"x", "y"}
