"""Validation of graphs: each kind of problem, with its message and suggestions."""

import operator
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest

from statewright import (
    END,
    START,
    STOP,
    Command,
    Ephemeral,
    InMemorySaver,
    InMemoryStore,
    IsLastStep,
    Runtime,
    Send,
    StateGraph,
    StateSchema,
    append,
)
from statewright.errors import GraphError, InvalidGraph, InvalidSchema
from statewright.graph import GraphBuilder, GraphWarning
from statewright.graph.validate import find_problems


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    x: int


class OtherReducer(TypedDict, total=False):
    log: Annotated[list[str], lambda old, new: new]


class WithManaged(TypedDict, total=False):
    x: int
    last: IsLastStep


def nothing(state: Any) -> None: ...


async def coroutine(state: Any) -> None: ...


def declares_wrong(state: Any) -> Command[Literal["reveiw"]]:
    return Command(goto="review")


def routes_wrong(state: Any) -> Literal["reveiw", "publish"]:
    return "publish"


def graph_of(*names: str, schema: Any = State, **schemas: Any) -> StateGraph:
    """Return a valid graph with the nodes in a row."""
    graph = StateGraph(schema, **schemas)
    for name in names:
        graph.add_node(name, nothing)
    for start, end in zip((START, *names), names, strict=False):
        graph.add_edge(start, end)
    return graph


def valid_graph() -> StateGraph:
    return graph_of("draft", "review", "publish")


Build = Callable[[], StateGraph]

INVALID: dict[str, tuple[Build, str]] = {
    # ends of edges
    "edge to an unknown node": (
        lambda: valid_graph().add_edge("publish", "reveiw"),
        r"Edge 'publish' -> 'reveiw': node 'reveiw' does not exist\. Did you mean 'review'\? Nodes: draft, publish, review\.",  # noqa: E501
    ),
    "edge from an unknown node": (
        lambda: valid_graph().add_edge("drat", "review"),
        r"Edge 'drat' -> 'review': node 'drat' does not exist\. Did you mean 'draft'\?",
    ),
    "edge to a node with no similar name": (
        lambda: valid_graph().add_edge("draft", "zzz"),
        r"node 'zzz' does not exist\. Nodes: draft, publish, review\.",
    ),
    "edge into START": (
        lambda: valid_graph().add_edge("publish", START),
        r"'publish' -> '__start__': START cannot be entered",
    ),
    "edge out of END": (lambda: valid_graph().add_edge(END, "draft"), r"'__end__' -> 'draft': nothing can follow END"),
    "edge to STOP": (lambda: valid_graph().add_edge("publish", STOP), r"'__stop__'"),
    "edge from STOP": (lambda: valid_graph().add_edge(STOP, "draft"), r"'__stop__'"),
    "unknown finish point": (lambda: valid_graph().set_finish_point("publsh"), r"'publsh'.*Did you mean 'publish'"),
    "unknown entry point": (lambda: valid_graph().set_entry_point("drafts"), r"'drafts'.*Did you mean 'draft'"),
    # join lists
    "join from an unknown node": (
        lambda: valid_graph().add_edge(["draft", "reviw"], "publish"),
        r"Join edge \['draft', 'reviw'\] -> 'publish': node 'reviw' does not exist\. Did you mean 'review'",
    ),
    "join to an unknown node": (
        lambda: valid_graph().add_edge(["draft", "review"], "pubish"),
        r"Join edge \['draft', 'review'\] -> 'pubish': node 'pubish' does not exist\. Did you mean 'publish'",
    ),
    "join of one node": (
        lambda: valid_graph().add_edge(["draft"], "publish"),
        r"\['draft'\] -> 'publish' needs at least two different",
    ),
    "join of the same node twice": (
        lambda: valid_graph().add_edge(["draft", "draft"], "publish"),
        r"needs at least two different starts",
    ),
    "join of no nodes": (lambda: valid_graph().add_edge([], "publish"), r"needs at least two different starts"),
    "join with END": (lambda: valid_graph().add_edge(["draft", END], "publish"), r"nothing can follow END"),
    # conditional edges
    "conditional edge from an unknown node": (
        lambda: valid_graph().add_conditional_edges("reviews", nothing, ["draft"]),
        r"conditional edge from 'reviews': there is no such node\. Did you mean 'review'",
    ),
    "conditional edge to an unknown node": (
        lambda: valid_graph().add_conditional_edges("review", nothing, {"again": "darft"}),
        r"'nothing' from 'review' leads to 'darft': there is no such node\. Did you mean 'draft'",
    ),
    "conditional edge whose hint names an unknown node": (
        lambda: valid_graph().add_conditional_edges("draft", routes_wrong),
        r"'routes_wrong' from 'draft' leads to 'reveiw'.*Did you mean 'review'",
    ),
    "conditional edge without targets": (
        lambda: valid_graph().add_conditional_edges("review", nothing, []),
        r"from 'review' has no targets",
    ),
    "conditional edge without a function": (
        lambda: valid_graph().add_conditional_edges("review", "publish"),  # type: ignore[arg-type]
        r"conditional edge from 'review': 'publish' is not a function",
    ),
    "conditional edge back to START": (
        lambda: valid_graph().add_conditional_edges("review", nothing, [START]),
        r"leads to '__start__'",
    ),
    "unknown conditional entry point": (
        lambda: valid_graph().set_conditional_entry_point(nothing, ["darft"]),
        r"from '__start__' leads to 'darft'.*Did you mean 'draft'",
    ),
    # destinations
    "unknown destination": (
        lambda: valid_graph().add_node("a", nothing, destinations=["reveiw"]).add_edge("draft", "a"),
        r"Node 'a' declares the destination 'reveiw': there is no such node\. Did you mean 'review'",
    ),
    "unknown destination in a hint": (
        lambda: valid_graph().add_node("a", declares_wrong).add_edge("draft", "a"),
        r"Node 'a' declares the destination 'reveiw'.*Did you mean 'review'",
    ),
    "unknown destination in a mapping": (
        lambda: valid_graph().add_node("a", nothing, destinations={"missing": "label"}).add_edge("draft", "a"),
        r"'a' declares the destination 'missing'",
    ),
    # entry and reach
    "no nodes": (lambda: StateGraph(State), r"has no nodes"),
    "no entry": (lambda: StateGraph(State).add_node("a", nothing), r"no entry\. Add an edge from START.*'a'"),
    "an unreachable node": (
        lambda: valid_graph().add_node("lonely", nothing),
        r"Node 'lonely' cannot be reached.*destinations=",
    ),
    "a node reached only by itself": (
        lambda: valid_graph().add_node("a", nothing).add_edge("a", "a"),
        r"Node 'a' cannot be reached",
    ),
    # names
    "a name with a bar": (lambda: graph_of("a|b"), r"Node 'a\|b': '\|' and ':' separate"),
    "a name with a colon": (lambda: graph_of("a:b"), r"Node 'a:b': '\|' and ':' separate"),
    "an empty name": (lambda: graph_of("a").add_node("", nothing).add_edge("a", ""), r"empty name"),
    "the name of START": (lambda: graph_of("a").add_node(START, nothing), r"'__start__': this name is reserved"),
    "the name of END": (lambda: graph_of("a").add_node(END, nothing), r"'__end__': this name is reserved"),
    "the name of STOP": (lambda: graph_of("a").add_node(STOP, nothing), r"'__stop__': this name is reserved"),
    "a duplicate name": (lambda: valid_graph().add_node("draft", coroutine), r"Node 'draft' is added twice"),
    # nodes
    "a node without a function": (
        lambda: valid_graph().add_node("draft2").add_edge("draft", "draft2"),  # type: ignore[arg-type]
        r"Node 'draft2': None is not a function",
    ),
    "a node whose function is a number": (
        lambda: graph_of("a").add_node("b", 7).add_edge("a", "b"),  # type: ignore[arg-type]
        r"Node 'b': 7 is not a function",
    ),
    "an unknown join": (
        lambda: graph_of("a").add_node("b", nothing, join="all").add_edge("a", "b"),  # type: ignore[arg-type]
        r"Node 'b': unknown join 'all'\. Choices: any, idle, reachable",
    ),
    "defer with another join": (
        lambda: graph_of("a").add_node("b", nothing, defer=True, join="reachable").add_edge("a", "b"),
        r"'b': defer=True means join='idle', but join is 'reachable'",
    ),
    "an unknown memory": (
        lambda: graph_of("a").add_node("b", nothing, memory="forever").add_edge("a", "b"),  # type: ignore[arg-type]
        r"Node 'b': unknown memory 'forever'\. Choices: call, thread, none",
    ),
    "memory of a function": (
        lambda: graph_of("a").add_node("b", nothing, memory="thread").add_edge("a", "b"),
        r"'b': memory='thread' is for subgraphs",
    ),
    "an inline coroutine": (
        lambda: graph_of("a").add_node("b", coroutine, inline=True).add_edge("a", "b"),
        r"'b' is a coroutine.*Remove inline=True",
    ),
    "a subscription to an unknown channel": (
        lambda: graph_of("a").add_node("b", nothing, on=["lgo"]),
        r"'b' waits for channel 'lgo', which does not exist\. Did you mean 'log'\? Fields: log, x",
    ),
    "an unknown parameter": (
        lambda: graph_of("a").add_node("b", lambda state, runtme: None).add_edge("a", "b"),
        r"'b' has the parameter 'runtme'.*Did you mean 'runtime'",
    ),
    "an unknown keyword-only parameter": (
        lambda: graph_of("a").add_node("b", lambda state, *, database: None).add_edge("a", "b"),
        r"'b' has the parameter 'database'",
    ),
    "an error handler with an unknown parameter": (
        lambda: graph_of("a").add_node("b", nothing, error_handler=lambda s, eror: None).add_edge("a", "b"),
        r"error handler of node 'b' has the parameter 'eror'.*Did you mean 'error'",
    ),
    "a store parameter without a store": (
        lambda: graph_of("a").add_node("b", lambda state, store: None).add_edge("a", "b"),
        r"'b' has a store parameter, but the graph has no store",
    ),
    # schemas
    "a reducer of one parameter": (
        lambda: graph_of("a", schema={"x": lambda only: only}),
        r"Field 'x': the reducer .* cannot be called with \(current, update\)",
    ),
    "a reducer of three parameters": (
        lambda: graph_of("a", schema={"x": lambda a, b, c: a}),
        r"Field 'x'.*two positional parameters",
    ),
    "a channel class that needs arguments": (
        lambda: graph_of("a", schema={"x": __import__("statewright.channels", fromlist=["Barrier"]).Barrier}),
        r"Field 'x': Barrier needs arguments",
    ),
    "two reducers of one field": (lambda: graph_of("a", input_schema=OtherReducer), r"'log'"),
    "a computed value in the input": (
        lambda: graph_of("a", input_schema=WithManaged),
        r"input schema contains 'last', a computed value",
    ),
    "a computed value in the output": (
        lambda: graph_of("a", output_schema=WithManaged),
        r"output schema contains 'last', a computed value",
    ),
    "a reducer in a dict that is a number": (lambda: graph_of("a", schema={"x": 7}), r"'x'"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_graph_is_refused_with_its_problem(case: str) -> None:
    build, pattern = INVALID[case]

    with pytest.raises(InvalidGraph, match=f"(?s){pattern}") as caught:
        build().compile()
    assert len(caught.value.problems) == 1, caught.value.problems
    assert isinstance(caught.value, GraphError)
    assert caught.value.code == "SW-invalid-graph"


INVALID_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown interrupt_before": (
        {"interrupt_before": ["reviw"]},
        r"'reviw': there is no such node\. Did you mean 'review'",
    ),
    "unknown interrupt_after": (
        {"interrupt_after": "publsh"},
        r"'publsh': there is no such node\. Did you mean 'publish'",
    ),
    "an object as a checkpointer": ({"checkpointer": object()}, r"checkpointer= is <object.*methods of a Checkpointer"),
    "a string as a checkpointer": ({"checkpointer": "memory"}, r"checkpointer= is 'memory' of type str"),
    "a list as a store": ({"store": []}, r"store= is \[\] of type list.*InMemoryStore\(\)"),
    "an unknown value of unknown_keys": (
        {"unknown_keys": "warning"},
        r"unknown_keys= is 'warning'\. Choices: warn, error, drop",
    ),
    "an unknown value of validate": ({"validate": "strict"}, r"validate= is 'strict'\. Choices: input, all, off"),
}


@pytest.mark.parametrize("case", INVALID_ARGUMENTS)
def test_an_invalid_argument_of_compile_is_a_problem_of_the_graph(case: str) -> None:
    arguments, pattern = INVALID_ARGUMENTS[case]

    with pytest.raises(InvalidGraph, match=pattern) as caught:
        valid_graph().compile(**arguments)
    assert len(caught.value.problems) == 1
    valid_graph().compile()


@pytest.mark.parametrize("kind", [InMemorySaver, InMemoryStore])
def test_a_class_instead_of_an_instance_is_refused(kind: type) -> None:
    argument = "checkpointer" if kind is InMemorySaver else "store"

    with pytest.raises(InvalidGraph, match=f"{argument}="):
        valid_graph().compile(**{argument: kind})


def test_all_problems_are_reported_together_and_numbered() -> None:
    graph = valid_graph().add_edge("publish", "reveiw").add_edge("drat", "review").add_node("draft", nothing)
    graph.add_node("a|b", lambda state, other: None, join="all", memory="x", on=["nope"])  # type: ignore[arg-type]
    graph.add_conditional_edges("review", nothing, {"1": "one", "2": "two"})

    with pytest.raises(InvalidGraph) as caught:
        graph.compile(name="Flow", interrupt_before="unknown")

    problems, text = caught.value.problems, str(caught.value)
    assert len(problems) == 11
    assert text.startswith("Flow has 11 problems:\n  1. ")
    assert all(f"  {number}. {problem}" in text for number, problem in enumerate(problems, 1))
    for words in (
        "added twice",
        "'all'",
        "'x'",
        "'nope'",
        "'other'",
        "'a|b'",
        "'reveiw'",
        "'drat'",
        "'one'",
        "'two'",
        "'unknown'",
    ):
        assert sum(words in problem for problem in problems) >= 1, words


def test_each_edge_to_an_unknown_node_is_a_problem() -> None:
    graph = valid_graph().add_edge("draft", "nope").add_edge("review", "nope")

    with pytest.raises(InvalidGraph) as caught:
        graph.compile()
    assert len(caught.value.problems) == 2


def test_an_invalid_schema_is_reported_with_the_other_problems() -> None:
    graph = StateGraph({"x": lambda only: only}).add_node("a", nothing).add_node("a", nothing)

    with pytest.raises(InvalidGraph) as caught:
        graph.compile()
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "Node 'a' is added twice. Rename one of them.",
        "Field 'x'",
        "The graph has no entry. Add an edge from START, e.g. add_edge(START, 'a').",
    ]
    assert isinstance(caught.value.__cause__, InvalidSchema)


def test_unreachable_nodes_are_not_reported_if_names_are_unknown() -> None:
    graph = valid_graph().add_node("lonely", nothing).add_edge("publish", "lonly")

    with pytest.raises(InvalidGraph) as caught:
        graph.compile()
    (problem,) = caught.value.problems
    assert "Did you mean 'lonely'" in problem


# -- strict=False


def test_without_strict_each_problem_of_shape_is_a_warning_and_the_graph_runs() -> None:
    graph = (
        valid_graph().add_edge("publish", "reveiw").add_edge("drat", "review").add_edge(["draft", "unknown"], "publish")
    )
    graph.add_conditional_edges("review", lambda s: "b", {"a": "missing", "b": END})

    with pytest.warns(GraphWarning) as caught:
        app = graph.compile(strict=False)

    assert len(caught) == 4
    assert app.invoke({"x": 1}) == {"x": 1, "log": []}
    assert app.graph.edges["publish"] == ()
    assert "drat" not in app.graph.edges
    assert app.graph.joins == ()


def test_without_strict_freezing_does_not_change_the_builder() -> None:
    graph = valid_graph().add_edge("publish", "reveiw")
    with pytest.warns(GraphWarning):
        graph.freeze(strict=False)

    assert list(graph.edges["publish"]) == ["reveiw"]
    with pytest.raises(InvalidGraph):
        graph.freeze()


@pytest.mark.parametrize(
    "case",
    ["a node without a function", "an unknown join", "an unknown parameter", "a reducer of one parameter",
     "a duplicate name", "a computed value in the input", "a subscription to an unknown channel"],
)  # fmt: skip
def test_without_strict_fatal_problems_are_still_refused(case: str) -> None:
    build, pattern = INVALID[case]

    with pytest.raises(InvalidGraph, match=f"(?s){pattern}"):
        build().compile(strict=False)


def test_without_strict_unknown_destinations_and_unreachable_nodes_are_warnings() -> None:
    graph = (
        valid_graph()
        .add_node("a", lambda s: Command(goto="review"), destinations=["reveiw", "review"])
        .add_node("b", nothing)
    )
    graph.add_edge("draft", "a")

    with pytest.warns(GraphWarning, match="'reveiw'"):
        app = graph.compile(strict=False)
    assert app.invoke({"x": 1})["x"] == 1


def test_a_warning_points_at_the_call_of_compile() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        valid_graph().add_edge("publish", "nope").compile(strict=False)

    assert [warning.filename for warning in caught] == [__file__]


# -- valid graphs


VALID: dict[str, Build] = {
    "a row": valid_graph,
    "a node reached by a declared goto": lambda: (
        valid_graph().add_node("a", nothing, destinations=["b"]).add_node("b", nothing).add_edge("draft", "a")
    ),
    "a node reached by an undeclared goto": lambda: (
        valid_graph().add_node("a", lambda s: Command(goto="b")).add_node("b", nothing).add_edge("draft", "a")
    ),
    "a node reached by an undeclared conditional edge": lambda: (
        valid_graph().add_node("b", nothing).add_conditional_edges("draft", lambda s: "b")
    ),
    "a subscriber": lambda: valid_graph().add_node("b", nothing, on=["x"]),
    "a node after a subscriber": lambda: (
        valid_graph().add_node("b", nothing, on=["x"]).add_node("c", nothing).add_edge("b", "c")
    ),
    "a join of START": lambda: valid_graph().add_node("b", nothing).add_edge([START, "draft"], "b"),
    "an edge to END from a join": lambda: valid_graph().add_edge(["draft", "review"], END),
    "destinations END and STOP": lambda: (
        valid_graph().add_node("a", nothing, destinations=[END, STOP]).add_edge("draft", "a")
    ),
    "a path map to STOP": lambda: valid_graph().add_conditional_edges("draft", nothing, {"no": STOP}),
    "a self loop": lambda: valid_graph().add_edge("publish", "publish"),
    "the same edge twice": lambda: valid_graph().add_edge("draft", "review"),
    "a parameter with a default": lambda: (
        valid_graph().add_node("a", lambda state, size=3: None).add_edge("draft", "a")
    ),
    "an optional store": lambda: valid_graph().add_node("a", lambda state, store=None: None).add_edge("draft", "a"),
    "a builtin": lambda: graph_of("a", schema={"x": operator.add}).add_node("b", dict).add_edge("a", "b"),
    "an ephemeral field": lambda: graph_of("a", schema={"x": Ephemeral()}),
    "a closed dict": lambda: graph_of("a", schema=StateSchema({"x": append}, closed=True)),
}


@pytest.mark.parametrize("case", VALID)
def test_a_valid_graph_has_no_problems(case: str) -> None:
    graph = VALID[case]().freeze()

    problems = find_problems(graph)
    assert (problems.fatal, problems.structure) == ((), ())


def test_freezing_again_reports_the_same_problems() -> None:
    graph = valid_graph().add_edge("publish", "reveiw")
    reports: list[tuple[str, ...]] = []
    for _ in range(3):
        with pytest.raises(InvalidGraph) as caught:
            graph.freeze()
        reports.append(caught.value.problems)

    assert reports[0] == reports[1] == reports[2]


def test_problems_are_in_the_order_of_declaration() -> None:
    graph = GraphBuilder(State).add_edge(START, "a")
    for name in "ba":
        graph.add_node(name, lambda state, z, y: None)

    with pytest.raises(InvalidGraph) as caught:
        graph.add_edge("a", "b").freeze()
    parameters = [(problem.split("'")[1], problem.split("'")[3]) for problem in caught.value.problems]
    assert parameters == [("b", "z"), ("b", "y"), ("a", "z"), ("a", "y")]


def test_injectable_parameters_are_no_problem() -> None:
    def node(state: State, r: Runtime, config: Any, writer: Any, previous: Any) -> Send | None:
        return None

    valid_graph().add_node(node).add_edge("draft", "node").compile(store=InMemoryStore())
