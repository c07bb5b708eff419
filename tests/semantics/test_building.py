"""Part I section 2: building, compiling, and the ways to run a compiled graph."""

import operator
import threading
from typing import Annotated, Any, Literal, TypedDict

import pytest

from statewright import (
    END,
    START,
    STOP,
    Command,
    CompiledGraph,
    GraphBuilder,
    InMemorySaver,
    InMemoryStore,
    Send,
    StateGraph,
    append,
)
from statewright.errors import InvalidConfig, InvalidGraph, UnknownTarget
from statewright.graph import GraphWarning


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    x: int


def log_name(name: str, **update: Any) -> Any:
    """Return a node that logs its name."""

    def node(state: Any) -> dict[str, Any]:
        return {"log": [name], **update}

    node.__name__ = name
    return node


def graph_of(*names: str) -> StateGraph:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, log_name(name))
    return graph


# -- 2.1 the builder


def test_a_node_has_the_name_of_its_function_by_default() -> None:
    graph = StateGraph(State).add_node(log_name("plain")).add_node("named", log_name("other"))
    graph.add_node("described", "what it does", log_name("described"))

    assert list(graph.nodes) == ["plain", "named", "described"]
    assert graph.nodes["described"].description == "what it does"


def test_add_sequence_connects_consecutive_nodes(driver: Any) -> None:
    graph = (
        graph_of("first")
        .add_sequence(["first", log_name("second"), ("third", log_name("third"))])
        .add_edge(START, "first")
    )

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["first", "second", "third"]


def test_entry_and_finish_points_are_edges_from_start_and_to_end(driver: Any) -> None:
    graph = graph_of("a", "b").set_entry_point("a").add_edge("a", "b").set_finish_point("b")

    assert graph.edges == {START: {"a": None}, "a": {"b": None}, "b": {END: None}}
    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b"]


def test_a_conditional_entry_point_reads_the_input(driver: Any) -> None:
    graph = graph_of("small", "big")
    graph.set_conditional_entry_point(lambda s: "big" if s["x"] > 9 else "small", ["small", "big"])
    app = graph.compile()

    assert driver.invoke(app, {"x": 10})["log"] == ["big"]
    assert driver.invoke(app, {"x": 1})["log"] == ["small"]


def test_a_path_map_maps_results_of_a_conditional_edge_to_nodes(driver: Any) -> None:
    graph = graph_of("a", "yes", "no").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda s: s["x"] > 0, {True: "yes", False: "no"})
    app = graph.compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["a", "yes"]
    assert driver.invoke(app, {"x": -1})["log"] == ["a", "no"]


def test_a_literal_return_type_of_a_conditional_edge_declares_its_targets() -> None:
    def path(state: Any) -> Literal["b", "__end__"]:
        return "c"  # type: ignore[return-value]

    graph = graph_of("a", "b", "c").add_edge(START, "a").add_edge("b", "c").add_conditional_edges("a", path)

    assert set(graph.branches["a"][0].targets or ()) == {"b", END}
    with pytest.raises(UnknownTarget, match="'c'"):
        graph.compile().invoke({"x": 1})


def test_a_conditional_edge_may_lead_to_several_nodes_and_sends(driver: Any) -> None:
    graph = graph_of("a", "b").add_node("w", lambda arg: {"log": [f"w{arg}"]}).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda s: ["b", Send("w", 1), Send("w", 2)], ["b", "w"])

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b", "w1", "w2"]


def test_all_edges_of_a_node_are_followed(driver: Any) -> None:
    graph = graph_of("a", "b", "c", "d").add_edge(START, "a").add_edge("a", "d")
    graph.add_conditional_edges("a", lambda s: "c", ["c"]).add_conditional_edges("a", lambda s: ["b", "c"], ["b", "c"])

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b", "c", "d"]


def test_a_conditional_edge_may_be_a_coroutine_function(driver: Any, paint: Any) -> None:
    async def path(state: Any) -> str:
        return "c" if state["log"] == ["a"] else "b"

    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, paint(log_name(name)))
    graph.add_edge(START, "a").add_conditional_edges("a", path, ["b", "c"])

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "c"]


# -- 2.2 strict


def test_all_problems_of_a_graph_are_reported_together() -> None:
    graph = graph_of("draft", "review").add_edge("draft", "reveiw").add_edge("darft", "review")
    graph.add_node("draft", log_name("again")).add_conditional_edges("review", lambda s: "x", ["publish"])

    with pytest.raises(InvalidGraph) as caught:
        graph.compile(interrupt_before="reviw", checkpointer=object())  # type: ignore[arg-type]

    text = str(caught.value)
    assert len(caught.value.problems) == 7
    for number, message in enumerate(
        ["added twice", "checkpointer", "'reveiw'", "'darft'", "'publish'", "'reviw'", "entry"], 1
    ):
        assert any(message in problem for problem in caught.value.problems), message
        assert f"{number}. " in text
    assert text.count("Did you mean") >= 3


def test_strict_false_turns_structural_problems_into_warnings(driver: Any) -> None:
    graph = graph_of("a", "lonely").add_edge(START, "a").add_edge("a", "nowhere")

    with pytest.warns(GraphWarning, match="'nowhere'"):
        app = graph.compile(strict=False)

    assert driver.invoke(app, {"x": 1})["log"] == ["a"]


def test_a_node_may_only_go_to_its_declared_destinations(driver: Any) -> None:
    graph = graph_of("b", "c").add_node("a", lambda s: Command(goto="c"), destinations=["b"])
    app = graph.add_edge(START, "a").add_edge("b", "c").compile()

    with pytest.raises(UnknownTarget, match=r"'a'.*'c'"):
        driver.invoke(app, {"x": 1})


def test_a_command_return_type_declares_destinations(driver: Any) -> None:
    def a(state: Any) -> Command[Literal["b"]]:
        return Command(goto=state["to"])

    class Wide(State, total=False):
        to: str

    graph = StateGraph(Wide).add_node(a).add_node("b", log_name("b")).add_node("c", log_name("c"))
    app = graph.add_edge(START, "a").add_edge("b", "c").compile()

    assert graph.nodes["a"].destinations == ("b",)
    assert driver.invoke(app, {"to": "b"})["log"] == ["b", "c"]
    with pytest.raises(UnknownTarget, match="'c'"):
        driver.invoke(app, {"to": "c"})


def test_destinations_do_not_exclude_the_edges_of_a_node(driver: Any) -> None:
    graph = graph_of("b", "c").add_node("a", lambda s: Command(goto="b"), destinations=["c"])

    assert driver.invoke(graph.add_edge(START, "a").add_edge("a", "b").compile(), {"x": 1})["log"] == ["b"]


def test_a_node_with_destinations_may_end_or_stop(driver: Any) -> None:
    for goto in (END, STOP):
        graph = graph_of("b").add_node("a", lambda s, goto=goto: Command(goto=goto), destinations=["b"])
        assert driver.invoke(graph.add_edge(START, "a").compile(), {"x": 1}) == {"x": 1, "log": []}


def test_a_node_without_destinations_may_go_to_any_node(driver: Any) -> None:
    def a(state: Any) -> Command:
        return Command(goto="c")

    app = graph_of("b", "c").add_node(a).add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["c"]


def test_a_node_that_returns_a_command_without_destinations_reaches_all_nodes() -> None:
    def anywhere(state: Any) -> Command:
        return Command(goto="b")

    graph = graph_of("b", "c").add_node("a", anywhere).add_edge(START, "a").freeze()

    assert graph.successors["a"] == {"a", "b", "c"}


def test_a_node_without_edges_ends_its_path(driver: Any) -> None:
    graph = graph_of("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_an_unknown_breakpoint_is_refused_by_compile_and_by_a_call(option: str) -> None:
    graph = graph_of("review").add_edge(START, "review")

    with pytest.raises(InvalidGraph, match=r"'reviw'.*Did you mean 'review'"):
        graph.compile(InMemorySaver(), **{option: ["reviw"]})
    with pytest.raises(InvalidConfig, match=r"'reviw'.*Did you mean 'review'"):
        graph.compile(InMemorySaver()).invoke({"x": 1}, thread_id="1", **{option: "reviw"})


# -- 2.3 compiling and driving


def test_compiling_does_not_change_the_builder(driver: Any) -> None:
    def handle(state: Any) -> dict[str, Any]:
        return {"log": ["handled"]}

    def fail(state: Any) -> None:
        raise ValueError

    graph = graph_of("a", "b").add_node("f", fail, error_handler=handle).add_edge(START, "a").add_edge("a", "f")
    graph.add_edge("a", "b")
    before = (dict(graph.nodes), {k: dict(v) for k, v in graph.edges.items()}, list(graph.problems))
    first, second = graph.compile(), graph.compile(InMemorySaver())

    assert (graph.nodes, graph.edges, graph.problems) == before
    assert driver.invoke(first, {"x": 1}) == driver.invoke(second, {"x": 1}, thread_id="1")
    assert graph.freeze().successors == graph.freeze().successors


def test_additions_after_compiling_do_not_change_the_compiled_graph(driver: Any) -> None:
    graph = graph_of("a").add_edge(START, "a")
    app = graph.compile()
    graph.add_node("b", log_name("b")).add_edge("a", "b")

    assert driver.invoke(app, {"x": 1})["log"] == ["a"]
    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b"]


def test_a_graph_builder_freezes_to_data() -> None:
    builder = GraphBuilder(State, name="Mine").add_node("a", log_name("a")).add_edge(START, "a")

    assert builder.freeze().name == "Mine"
    assert builder.freeze().order == {"a": 0}


def test_invoke_returns_values_and_stream_defaults_to_updates(driver: Any) -> None:
    app = graph_of("a").add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 1}) == {"x": 1, "log": ["a"]}
    assert driver.stream(app, {"x": 1}) == [{"a": {"log": ["a"]}}]
    assert driver.invoke(app, {"x": 1}, stream_mode="updates") == [{"a": {"log": ["a"]}}]


def test_iter_drives_a_run_superstep_by_superstep() -> None:
    ran: list[str] = []
    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, lambda s, name=name: ran.append(name))
    app = graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").compile()

    steps = app.iter({"x": 1})
    assert ran == []
    first = next(steps)
    assert (first.nodes, first.next, ran) == (("a",), ("b", "c"), ["a"])
    second = next(steps)
    assert (second.nodes, second.next, sorted(ran)) == (("b", "c"), (), ["a", "b", "c"])
    assert next(steps, None) is None
    assert steps.rest is not None
    assert steps.rest.status == "completed"


def test_iter_ends_at_its_halt_condition_and_the_thread_can_continue(driver: Any) -> None:
    app = graph_of("a", "b", "c").add_sequence(["a", "b", "c"]).add_edge(START, "a").compile(InMemorySaver())
    steps = app.iter({"x": 1}, thread_id="1", halt=lambda step: "b" in step.nodes)

    assert [step.nodes for step in steps] == [("a",), ("b",)]
    assert steps.halted
    steps.close()
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b", "c"]


def test_iter_raises_the_exception_of_a_node() -> None:
    def fail(state: Any) -> None:
        raise KeyError("mine")

    steps = graph_of("a").add_node(fail).add_edge(START, "a").add_edge("a", "fail").compile().iter({"x": 1})

    assert next(steps).nodes == ("a",)
    with pytest.raises(KeyError, match="mine"):
        next(steps)


def test_leaving_iter_abandons_the_run() -> None:
    app = graph_of("a", "b").add_sequence(["a", "b"]).add_edge(START, "a").compile()

    with app.iter({"x": 1}) as steps:
        assert next(steps).nodes == ("a",)
    assert list(steps) == []
    assert steps.rest is None


def test_a_compiled_graph_can_be_shared_between_threads_and_loops(driver: Any) -> None:
    app = graph_of("a", "b").add_sequence(["a", "b"]).add_edge(START, "a").compile()
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(driver.invoke(app, {"x": 1})["log"])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [["a", "b"]] * 6


def test_batch_returns_results_in_the_order_of_its_inputs(driver: Any, paint: Any) -> None:
    app = StateGraph(State).add_node("a", paint(lambda s: {"x": s["x"] * 2})).add_edge(START, "a").compile()

    assert [result["x"] for result in driver.batch(app, [{"x": n} for n in range(20)])] == [n * 2 for n in range(20)]
    assert driver.batch(app, []) == []


def test_batch_takes_a_config_for_each_input(driver: Any) -> None:
    app = graph_of("a").add_edge(START, "a").compile(InMemorySaver())
    driver.batch(app, [{"x": 1}, {"x": 2}], [{"thread_id": "1"}, {"thread_id": "2"}])

    assert [app.get_state(thread_id=thread).values["x"] for thread in "12"] == [1, 2]
    with pytest.raises(InvalidConfig, match="2 inputs and 1 config"):
        driver.batch(app, [{"x": 1}, {"x": 2}], [{"thread_id": "1"}])


def test_batch_raises_or_returns_the_exception_of_a_node(driver: Any) -> None:
    def failing(state: Any) -> None:
        if state["x"]:
            raise KeyError("mine")

    app = StateGraph(State).add_node(failing).add_edge(START, "failing").compile()

    good, bad = driver.batch(app, [{"x": 0}, {"x": 1}], return_exceptions=True)
    assert good == {"x": 0, "log": []}
    assert (type(bad).__name__, bad.node, type(bad.error)) == ("NodeFailed", "failing", KeyError)
    with pytest.raises(KeyError, match="mine"):
        driver.batch(app, [{"x": 0}, {"x": 1}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recursion_limt": 3}, "Did you mean 'recursion_limit'"),
        ({"recursion_limit": 0}, "recursion_limit is 0"),
        ({"max_concurrency": "two"}, "max_concurrency is 'two'"),
        ({"max_concurrency": True}, "max_concurrency is True"),
        ({"durability": "never"}, "durability is 'never'"),
        ({"on_unfinished": "ignore"}, "on_unfinished is 'ignore'"),
        ({"stream_mode": "valuse"}, "Did you mean 'values'"),
        ({"config": {"recursion_limt": 3}}, "Did you mean 'recursion_limit'"),
        ({"config": 7}, "config is 7 of type int"),
        ({"config": {"configurable": {"thread_id": ""}}}, "thread_id is ''"),
        ({"checkpoint_id": "x", "thread_id": "1"}, "needs a checkpointer"),
    ],
)
def test_an_invalid_setting_of_a_call_is_refused_with_a_remedy(driver: Any, options: Any, message: str) -> None:
    app = graph_of("a").add_edge(START, "a").compile()

    with pytest.raises(InvalidConfig, match=message):
        driver.invoke(app, {"x": 1}, **options)


def test_settings_may_be_top_level_configurable_or_keywords_which_take_precedence(driver: Any) -> None:
    app = graph_of("a").add_edge(START, "a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, {"configurable": {"thread_id": "c"}})
    driver.invoke(app, {"x": 2}, {"thread_id": "t"})
    driver.invoke(app, {"x": 3}, {"configurable": {"thread_id": "c"}}, thread_id="k")

    assert [app.get_state(thread_id=thread).values["x"] for thread in "ctk"] == [1, 2, 3]


def test_a_call_with_a_checkpointer_needs_a_thread_id(driver: Any) -> None:
    app = graph_of("a").add_edge(START, "a").compile(InMemorySaver())

    with pytest.raises(InvalidConfig, match="thread_id"):
        driver.invoke(app, {"x": 1})


def test_a_compiled_graph_has_its_store_and_name() -> None:
    store = InMemoryStore()
    app = graph_of("a").add_edge(START, "a").compile(store=store, name="Named")

    assert isinstance(app, CompiledGraph)
    assert (app.store, app.name) == (store, "Named")
    assert "Named" in repr(app)


def test_operator_add_sums_numbers(driver: Any) -> None:
    class Sum(TypedDict, total=False):
        n: Annotated[int, operator.add]

    graph = StateGraph(Sum).add_node("a", lambda s: {"n": 2}).add_node("b", lambda s: {"n": 3})

    assert driver.invoke(graph.add_edge(START, "a").add_edge(START, "b").compile(), {"n": 1}) == {"n": 6}
