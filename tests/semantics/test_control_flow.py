"""Part I section 4: results, targets, joins, deferred nodes, and subscriptions."""

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, STOP, Command, InMemorySaver, Send, StateGraph, append
from statewright.errors import InvalidUpdateError, UnknownTarget


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def log_name(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def graph_of(*names: str) -> StateGraph:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, log_name(name))
    return graph


def add_edges(graph: StateGraph, *edges: str) -> StateGraph:
    """Add edges written as "a>b" and joins as "a+b>c", where "^" is START."""
    for edge in edges:
        start, end = edge.split(">")
        starts = [START if name == "^" else name for name in start.split("+")]
        graph.add_edge(starts[0] if len(starts) == 1 else starts, end)
    return graph


def log_of(driver: Any, graph: StateGraph, **options: Any) -> list[Any]:
    return driver.invoke(graph.compile(), {"x": 1}, **options)["log"]


def frontiers(app: Any, value: Any = None) -> list[tuple[str, ...]]:
    return [step.nodes for step in app.iter(value or {"x": 1})]


# -- 4.1 results


class ObjectWithFields:
    def __init__(self) -> None:
        self.x = 5


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, []),
        ({}, []),
        ({"log": ["m"]}, ["m"]),
        (Command(), []),
        (Command(update={"log": ["c"]}), ["c"]),
        ([Command(update={"log": ["1"]}), {"log": ["2"]}, None], ["1", "2"]),
        ([{"log": ["1"]}, {"log": ["2"]}], ["1", "2"]),
        ([None, {"log": ["2"]}], ["2"]),
        ([("log", ["pair"]), ("x", 2)], ["pair"]),
    ],
    ids=["none", "empty", "mapping", "empty command", "command", "mixed list", "mappings", "none first", "pairs"],
)
def test_valid_results_of_a_node(driver: Any, result: Any, expected: list[str]) -> None:
    assert log_of(driver, add_edges(StateGraph(State).add_node("a", lambda s: result), "^>a")) == expected


@pytest.mark.parametrize("result", ["text", 7, object(), {1, 2}, [1, 2], ["text"], ObjectWithFields(), True])
def test_an_invalid_result_is_refused(driver: Any, result: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'a'"):
        log_of(driver, add_edges(StateGraph(State).add_node("a", lambda s: result), "^>a"))


@pytest.mark.parametrize("goto", [7, [None], [["b"]], [Command(goto="b")]])
def test_a_goto_that_is_neither_a_name_nor_a_send_is_refused(driver: Any, goto: Any) -> None:
    graph = add_edges(graph_of("b").add_node("a", lambda s: Command(goto=goto)), "^>a", "a>b")

    with pytest.raises((InvalidUpdateError, UnknownTarget), match="'a'"):
        log_of(driver, graph)


def test_a_node_cannot_return_a_command_with_resume(driver: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="resume"):
        log_of(driver, add_edges(StateGraph(State).add_node("a", lambda s: Command(resume=1)), "^>a"))


# -- 4.2 unknown targets


@pytest.mark.parametrize(
    "result", [Command(goto="reveiw"), Send("reveiw", {}), Command(goto=[Send("reveiw", {}), END])]
)
def test_an_unknown_target_is_refused_with_the_nearest_name(driver: Any, result: Any) -> None:
    graph = add_edges(graph_of("review").add_node("a", lambda s: result), "^>a", "a>review")

    with pytest.raises(UnknownTarget, match=r"'a'.*'reveiw'.*Did you mean 'review'"):
        log_of(driver, graph)


@pytest.mark.parametrize("target", [START, "", Send(END, {}), Send(STOP, {}), Send(START, {})])
def test_invalid_targets_are_refused(driver: Any, target: Any) -> None:
    with pytest.raises(UnknownTarget, match="'a'"):
        log_of(driver, add_edges(StateGraph(State).add_node("a", lambda s: Command(goto=target)), "^>a"))


def test_an_unknown_target_of_a_conditional_edge_is_refused_with_the_nearest_name(driver: Any) -> None:
    graph = add_edges(graph_of("a", "publish"), "^>a", "a>publish").add_conditional_edges("a", lambda s: "publsh")

    with pytest.raises(UnknownTarget, match=r"'a'.*conditional edge.*'publsh'.*Did you mean 'publish'"):
        log_of(driver, graph)


@pytest.mark.parametrize("choice", [None, 3, {"b": 1}, Send("unknown", {})])
def test_an_invalid_result_of_a_conditional_edge_is_refused(driver: Any, choice: Any) -> None:
    graph = add_edges(graph_of("a", "b"), "^>a").add_conditional_edges("a", lambda s: choice, ["b"])

    with pytest.raises(UnknownTarget):
        log_of(driver, graph)


def test_a_node_may_only_send_to_its_declared_destinations(driver: Any) -> None:
    graph = add_edges(graph_of("b", "c").add_node("a", lambda s: Send("c", {}), destinations=["b"]), "^>a", "b>c")

    with pytest.raises(UnknownTarget, match="'c'"):
        log_of(driver, graph)


# -- 4.3 goto


def test_a_goto_replaces_the_edges_of_its_node(driver: Any) -> None:
    graph = add_edges(graph_of("b", "c", "d").add_node("a", lambda s: Command(goto="c")), "^>a", "a>b")
    graph.add_conditional_edges("a", lambda s: "d", ["d"])

    assert log_of(driver, add_edges(graph, "b>c")) == ["c"]


def test_a_command_without_goto_follows_the_edges(driver: Any) -> None:
    graph = graph_of("b").add_node("a", lambda s: Command(update={"log": ["a"]}))

    assert log_of(driver, add_edges(graph, "^>a", "a>b")) == ["a", "b"]


def test_a_goto_does_not_replace_the_edges_of_siblings(driver: Any) -> None:
    graph = graph_of("b", "c", "d").add_node("a", lambda s: Command(goto="c"), destinations=["c"])

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "a>d", "b>d")) == ["b", "c", "d"]


def test_a_goto_may_name_several_nodes_and_sends(driver: Any) -> None:
    graph = graph_of("b", "c").add_node("w", lambda arg: {"log": [arg]})
    graph.add_node("a", lambda s: Command(goto=["c", Send("w", 1), "b"]))

    assert log_of(driver, add_edges(graph, "^>a", "c>b", "b>w"))[:3] == ["b", "c", 1]


def test_a_send_as_a_result_is_a_goto(driver: Any) -> None:
    graph = graph_of("b").add_node("w", lambda arg: {"log": [arg]}).add_node("a", lambda s: Send("w", 1))

    assert log_of(driver, add_edges(graph, "^>a", "a>b", "b>w")) == [1]


def test_a_goto_to_end_ends_only_its_path(driver: Any) -> None:
    graph = graph_of("b", "c", "d").add_node("a", lambda s: Command(update={"log": ["a"]}, goto=END))

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "a>c", "b>d", "d>c")) == ["b", "a", "d", "c"]


def test_a_goto_to_stop_ends_the_run_after_the_superstep_and_keeps_its_updates(driver: Any) -> None:
    graph = graph_of("b", "c").add_node("late", log_name("late"), defer=True)
    graph.add_node("a", lambda s: Command(update={"log": ["a"]}, goto=STOP))
    app = add_edges(graph, "^>a", "^>b", "^>late", "b>c", "a+c>late").compile(InMemorySaver())

    assert driver.invoke(app, {"x": 1}, thread_id="1")["log"] == ["b", "a"]
    saved = app.checkpointer.load("1").checkpoint
    assert (saved.frontier, saved.deferred, dict(saved.joins)) == ((), (), {})


def test_a_goto_to_stop_and_other_targets_ends_the_run(driver: Any) -> None:
    graph = graph_of("b").add_node("a", lambda s: Command(goto=["b", STOP]))

    assert log_of(driver, add_edges(graph, "^>a", "a>b")) == []


def test_a_conditional_edge_may_stop_the_run(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b", "c"), "^>a", "^>b", "b>c").add_conditional_edges("a", lambda s: STOP)
    mapped = add_edges(graph_of("a", "b", "c"), "^>a", "^>b", "b>c")
    mapped.add_conditional_edges("a", lambda s: True, {True: STOP, False: "c"})

    assert log_of(driver, graph) == ["a", "b"]
    assert log_of(driver, mapped) == ["a", "b"]


def test_any_goto_in_a_list_of_results_replaces_the_edges(driver: Any) -> None:
    graph = graph_of("b", "c", "d")
    graph.add_node("a", lambda s: [{"log": ["1"]}, Command(update={"log": ["2"]}), Command(goto="c"), Send("d", {})])

    assert log_of(driver, add_edges(graph, "^>a", "a>b", "b>c", "c>d")) == ["1", "2", "c", "d", "d"]


def test_a_list_of_results_without_a_goto_follows_the_edges(driver: Any) -> None:
    graph = graph_of("b").add_node("a", lambda s: [{"log": ["1"]}, Command(update={"log": ["2"]})])

    assert log_of(driver, add_edges(graph, "^>a", "a>b")) == ["1", "2", "b"]


def test_parent_is_refused_without_a_parent_graph(driver: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"'a'.*parent"):
        log_of(driver, add_edges(StateGraph(State).add_node("a", lambda s: Command(graph=Command.PARENT)), "^>a"))


# -- 4.4 join lists


def test_the_end_of_a_join_list_runs_once_when_all_nodes_have_arrived(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b1", "b2", "c"), "^>a", "^>b1", "b1>b2", "a+b2>c")

    assert log_of(driver, graph) == ["a", "b1", "b2", "c"]


def test_without_a_join_list_a_node_runs_after_each_predecessor(driver: Any) -> None:
    assert log_of(driver, add_edges(graph_of("a", "b1", "b2", "c"), "^>a", "^>b1", "b1>b2", "a>c", "b2>c")) == [
        *("a", "b1", "b2", "c", "c"),
    ]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_repeated_arrivals_of_one_node_count_once(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b", "c"), "^>a", "^>b", "a+b>c")
    graph.add_conditional_edges("a", lambda s: "a" if s["log"].count("a") < 3 else END, ["a", END])

    assert log_of(driver, graph) == ["a", "b", "a", "c", "a"]


def test_a_join_list_starts_over_after_it_has_run(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b", "c"), "^>a", "^>b", "a+b>c")
    graph.add_conditional_edges("c", lambda s: ["a", "b"] if s["log"].count("c") < 2 else END, ["a", "b", END])

    assert log_of(driver, graph) == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_an_incomplete_join_list_does_not_run(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b", "c"), "^>a", "a+b>c").add_conditional_edges("a", lambda s: END, ["b", END])

    assert log_of(driver, graph) == ["a"]


def test_start_may_be_in_a_join_list(driver: Any) -> None:
    assert log_of(driver, add_edges(graph_of("a", "c"), "^>a", "^+a>c")) == ["a", "c"]


def test_a_goto_to_the_end_of_a_join_list_counts_as_an_arrival(driver: Any) -> None:
    graph = graph_of("b1", "b2", "c").add_node("a", lambda s: Command(update={"log": ["a"]}, goto="c"))

    assert log_of(driver, add_edges(graph, "^>a", "^>b1", "b1>b2", "a+b2>c")) == ["b1", "a", "b2", "c"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_a_goto_to_another_node_is_not_an_arrival(driver: Any) -> None:
    graph = graph_of("b", "c", "d").add_node("a", lambda s: Command(goto="d"), destinations=["d"])

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "a+b>c")) == ["b", "d"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_a_send_to_the_end_of_a_join_list_is_a_task_and_not_an_arrival(driver: Any) -> None:
    graph = graph_of("b", "c").add_node("a", lambda s: Send("c", {}))

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "a+b>c")) == ["b", "c"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_a_goto_from_outside_the_join_list_runs_its_end_at_once(driver: Any) -> None:
    graph = graph_of("a", "b", "c").add_node("o", lambda s: Command(goto="c"))

    assert log_of(driver, add_edges(graph, "^>a", "^>o", "a+b>c", "c>b"))[:2] == ["a", "c"]


def test_arrivals_are_part_of_the_checkpoint(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b1", "b2", "c"), "^>a", "^>b1", "b1>b2", "a+b2>c")
    app = graph.compile(InMemorySaver(), interrupt_before="b2")

    assert driver.invoke(app, {"x": 1}, thread_id="1")["log"] == ["a", "b1"]
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b1", "b2", "c"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_arrivals_are_cleared_when_a_run_ends(driver: Any) -> None:
    graph = graph_of("a", "b", "c").add_conditional_edges(START, lambda s: "a" if s["x"] == 1 else "b", ["a", "b"])
    app = add_edges(graph, "a+b>c").compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, {"x": 2}, thread_id="1")["log"] == ["a", "b"]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_arrivals_are_cleared_by_new_input_after_a_failure(driver: Any) -> None:
    def fail(state: Any) -> None:
        raise ValueError

    graph = graph_of("a", "b", "c").add_node("f", fail).add_edge("a", "f")
    graph.add_conditional_edges(START, lambda s: "a" if s["x"] == 1 else "b", ["a", "b"])
    app = add_edges(graph, "a+b>c").compile(InMemorySaver())

    with pytest.raises(ValueError):  # noqa: PT011
        driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, {"x": 2}, thread_id="1")["log"] == ["a", "b"]


def test_two_join_lists_to_one_node_are_counted_separately(driver: Any) -> None:
    graph = add_edges(graph_of("a", "b", "c", "d", "e"), "^>a", "^>b", "b>c", "c>d", "a+b>e", "a+d>e")

    assert log_of(driver, graph) == ["a", "b", "c", "e", "d", "e"]


def test_join_lists_with_similar_names_are_counted_separately(driver: Any) -> None:
    graph = graph_of("a+b", "c", "a", "b+c", "end").add_edge(START, "a+b").add_edge(START, "a")
    graph.add_edge(["a+b", "c"], "end").add_edge(["a", "b+c"], "end").add_edge("a", "c").add_edge("c", "b+c")

    assert log_of(driver, graph) == ["a+b", "a", "c", "b+c", "end", "end"]


# -- join="idle"


def test_an_idle_node_runs_when_no_other_task_is_due(driver: Any) -> None:
    graph = StateGraph(State).add_node("late", log_name("late"), join="idle")
    for name in "abc":
        graph.add_node(name, log_name(name))

    assert log_of(driver, add_edges(graph, "^>late", "^>a", "a>b", "b>c")) == ["a", "b", "c", "late"]


def test_defer_means_idle(driver: Any) -> None:
    graph = StateGraph(State).add_node("late", log_name("late"), defer=True).add_node("a", log_name("a"))

    assert graph.nodes["late"].join == "idle"
    assert log_of(driver, add_edges(graph, "^>late", "^>a")) == ["a", "late"]


def test_an_idle_node_waits_for_pending_sends(driver: Any) -> None:
    graph = StateGraph(State).add_node("late", log_name("late"), defer=True)
    graph.add_node("a", lambda s: [Send("w", 1), Send("w", 2)], destinations=["w"])
    graph.add_node("w", lambda arg: {"log": [f"w{arg}"]}).add_node("b", log_name("b"))

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "b>late")) == ["b", "w1", "w2", "late"]


def test_an_idle_node_at_the_end_of_several_paths_runs_once(driver: Any) -> None:
    graph = StateGraph(State).add_node("late", log_name("late"), defer=True)
    for name in ("a", "b1", "b2"):
        graph.add_node(name, log_name(name))

    assert log_of(driver, add_edges(graph, "^>a", "^>b1", "b1>b2", "a>late", "b2>late")) == ["a", "b1", "b2", "late"]


def test_idle_nodes_that_no_other_idle_node_can_reach_start_together(driver: Any) -> None:
    graph = StateGraph(State)
    for name in ("third", "first", "second"):
        graph.add_node(name, log_name(name), defer=True)
    app = add_edges(graph, "^>first", "^>second", "^>third", "first>third").compile()

    assert frontiers(app) == [("first", "second"), ("third",)]
    assert driver.invoke(app, {"x": 1})["log"] == ["first", "second", "third"]


def test_idle_nodes_in_a_cycle_start_in_the_order_of_declaration(driver: Any) -> None:
    graph = StateGraph(State)
    for name in ("b", "a"):
        graph.add_node(name, log_name(name), defer=True)
    graph.add_conditional_edges("a", lambda s: END, ["b", END]).add_conditional_edges("b", lambda s: END, ["a", END])
    app = add_edges(graph, "^>a", "^>b").compile()

    assert frontiers(app) == [("b",), ("a",)]
    assert driver.invoke(app, {"x": 1})["log"] == ["b", "a"]


def test_sends_to_an_idle_node_wait_and_are_separate_tasks(driver: Any) -> None:
    graph = StateGraph(State).add_node("late", lambda arg: {"log": [f"late{arg}"]}, defer=True)
    graph.add_node("a", lambda s: [Send("late", 1), Send("late", 2)], destinations=["late"])
    graph.add_node("b", log_name("b")).add_node("c", log_name("c"))

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "b>c")) == ["b", "c", "late1", "late2"]


def test_tasks_started_by_an_idle_node_run_before_the_next_idle_node(driver: Any) -> None:
    graph = StateGraph(State).add_node("one", log_name("one"), defer=True).add_node("two", log_name("two"), defer=True)
    graph.add_node("after", log_name("after"))
    graph.add_conditional_edges("one", lambda s: "after", ["after", "two"])

    assert log_of(driver, add_edges(graph, "^>one", "^>two")) == ["one", "after", "two"]


def test_a_waiting_idle_node_is_part_of_the_checkpoint(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("late", log_name("late"), defer=True)
        .add_node("a", log_name("a"))
        .add_node("b", log_name("b"))
    )
    app = add_edges(graph, "^>late", "^>a", "a>b").compile(InMemorySaver(), interrupt_before="b")

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert app.get_state(thread_id="1").next == ("b", "late")
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b", "late"]


# -- join="reachable"


def reachable_graph() -> StateGraph:
    graph = StateGraph(State).add_node("c", log_name("c"), join="reachable")
    for name in ("a", "b1", "b2"):
        graph.add_node(name, log_name(name))
    return graph


def test_a_reachable_node_waits_while_a_task_can_still_reach_it(driver: Any) -> None:
    graph = add_edges(reachable_graph(), "^>a", "^>b1", "b1>b2", "a>c", "b2>c")

    assert log_of(driver, graph) == ["a", "b1", "b2", "c"]


def test_a_reachable_node_does_not_wait_for_tasks_that_cannot_reach_it(driver: Any) -> None:
    app = add_edges(
        reachable_graph().add_node("far", log_name("far")), "^>a", "^>far", "far>b1", "b1>b2", "a>c"
    ).compile()

    assert frontiers(app) == [("a", "far"), ("c", "b1"), ("b2",)]
    assert driver.invoke(app, {"x": 1})["log"] == ["a", "far", "c", "b1", "b2"]


def test_a_reachable_node_waits_for_a_conditional_edge_that_may_lead_to_it(driver: Any) -> None:
    graph = add_edges(reachable_graph(), "^>a", "^>b1", "a>c").add_conditional_edges("b1", lambda s: "b2", ["b2", "c"])
    graph.add_conditional_edges("b2", lambda s: END, ["c", END])

    assert log_of(driver, graph) == ["a", "b1", "b2", "c"]


def test_a_reachable_node_waits_for_a_node_whose_destinations_lead_to_it(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("c", log_name("c"), join="reachable")
        .add_node("a", log_name("a"))
        .add_node("far", log_name("far"))
    )
    graph.add_node("b", lambda s: Command(update={"log": ["b"]}, goto="far"), destinations=["c", "far"])
    app = add_edges(graph, "^>a", "a>c", "^>b").compile()

    assert frontiers(app) == [("a", "b"), ("c", "far")]


def test_a_reachable_node_waits_for_a_waiting_node_that_can_reach_it(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("late", log_name("late"), join="reachable")
        .add_node("mid", log_name("mid"), join="reachable")
    )
    for name in ("a", "b"):
        graph.add_node(name, log_name(name))
    app = add_edges(graph, "^>a", "a>b", "b>mid", "^>mid", "^>late", "mid>late").compile()

    assert frontiers(app) == [("a",), ("b",), ("mid",), ("late",)]
    assert driver.invoke(app, {"x": 1})["log"] == ["a", "b", "mid", "late"]


def test_reachable_nodes_in_a_cycle_start_in_the_order_of_declaration(driver: Any) -> None:
    graph = StateGraph(State)
    for name in ("second", "first"):
        graph.add_node(name, log_name(name), join="reachable")
    graph.add_conditional_edges("first", lambda s: END, ["second", END])
    graph.add_conditional_edges("second", lambda s: END, ["first", END])
    app = add_edges(graph, "^>first", "^>second").compile()

    assert frontiers(app) == [("second",), ("first",)]
    assert driver.invoke(app, {"x": 1})["log"] == ["second", "first"]


def test_a_reachable_node_waits_for_the_loop_that_leads_to_it(driver: Any) -> None:
    graph = StateGraph(State).add_node("c", log_name("c"), join="reachable").add_node("a", log_name("a"))
    graph.add_conditional_edges("a", lambda s: "a" if s["log"].count("a") < 3 else "c", ["a", "c"])

    assert log_of(driver, add_edges(graph, "^>a", "^>c")) == ["a", "a", "a", "c"]


def test_a_reachable_node_runs_before_an_idle_node(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("idle", log_name("idle"), join="idle")
        .add_node("reach", log_name("reach"), join="reachable")
    )
    graph.add_node("a", log_name("a"))
    app = add_edges(graph, "^>a", "^>idle", "^>reach", "a>reach").compile()

    assert frontiers(app) == [("a",), ("reach",), ("idle",)]


def test_sends_to_a_reachable_node_wait(driver: Any) -> None:
    graph = StateGraph(State).add_node("c", lambda arg: {"log": [f"c{arg}"]}, join="reachable")
    graph.add_node("s", lambda s: [Send("c", 1), Send("c", 2)], destinations=["c"])
    graph.add_node("a", log_name("a")).add_node("b", lambda s: {"log": ["b"]})
    graph.add_conditional_edges("b", lambda s: END, ["c", END])

    assert log_of(driver, add_edges(graph, "^>s", "^>a", "a>b")) == ["a", "b", "c1", "c2"]


# -- gathered Sends


def graph_with_gathered_sends(order: Sequence[str] = ("a", "b", "w", "g")) -> StateGraph:
    nodes: dict[str, Any] = {
        "a": lambda s: [{"log": ["a"]}, Send("g", "a1", gather=True), Send("g", "a2", gather=True)],
        "b": lambda s: [{"log": ["b"]}, Send("g", "b1", gather=True)],
        "w": log_name("w"),
        "g": lambda args: {"log": [("g", *args)]},
    }
    graph = StateGraph(State)
    for name in order:
        graph.add_node(name, nodes[name], destinations=["g"] if name in "ab" else None)
    return graph


def test_gathered_sends_become_one_task_with_a_list_of_arguments(driver: Any, paint: Any) -> None:
    graph = add_edges(graph_with_gathered_sends(), "^>b", "^>a")

    assert log_of(driver, graph) == ["a", "b", ("g", "a1", "a2", "b1")]


def test_gathered_sends_wait_while_a_task_can_still_reach_the_node(driver: Any) -> None:
    app = add_edges(graph_with_gathered_sends(), "^>a", "^>w", "w>b").compile()

    assert frontiers(app) == [("a", "w"), ("b",), ("g",)]
    assert driver.invoke(app, {"x": 1})["log"][-1] == ("g", "a1", "a2", "b1")


def test_gathered_arguments_are_in_the_order_in_which_senders_are_declared(driver: Any) -> None:
    assert log_of(driver, add_edges(graph_with_gathered_sends(), "^>b", "^>w", "w>a"))[-1] == ("g", "a1", "a2", "b1")


def test_gathered_sends_of_many_tasks_are_in_task_order(driver: Any, paint: Any) -> None:
    graph = StateGraph(State).add_node("plan", lambda s: [Send("work", n) for n in range(20)], destinations=["work"])
    graph.add_node("work", paint(lambda n: Send("total", n * n, gather=True)), destinations=["total"])
    graph.add_node("total", paint(lambda squares: {"log": squares}))

    assert log_of(driver, add_edges(graph, "^>plan")) == [n * n for n in range(20)]


def test_a_plain_send_among_gathered_sends_is_a_separate_task(driver: Any) -> None:
    graph = StateGraph(State).add_node(
        "a", lambda s: [Send("g", 1, gather=True), Send("g", 2), Send("g", 3, gather=True)]
    )
    graph.add_node("g", lambda arg: {"log": [arg if isinstance(arg, int) else tuple(arg)]})

    assert log_of(driver, add_edges(graph, "^>a", "a>g")) == [2, (1, 3)]


def test_gathered_sends_to_an_idle_node_are_one_task(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: [Send("g", n, gather=True) for n in (1, 2)], destinations=["g"])
    graph.add_node("g", lambda args: {"log": [tuple(args)]}, defer=True).add_node("b", log_name("b")).add_node(
        "c", log_name("c")
    )

    assert log_of(driver, add_edges(graph, "^>a", "^>b", "b>c"))[-1] == (1, 2)


def test_waiting_gathered_sends_are_part_of_the_checkpoint(driver: Any) -> None:
    app = add_edges(graph_with_gathered_sends(), "^>a", "^>w", "w>b").compile(
        InMemorySaver(), interrupt_before=["b", "g"]
    )

    driver.invoke(app, {"x": 1}, thread_id="1")
    driver.invoke(app, None, thread_id="1")
    assert app.get_state(thread_id="1").next == ("g",)
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "w", "b", ("g", "a1", "a2", "b1")]


def test_later_gathered_sends_start_another_task(driver: Any) -> None:
    graph = add_edges(graph_with_gathered_sends(), "^>a", "w>b")
    graph.add_conditional_edges("g", lambda s: "w" if "w" not in s["log"] else END, ["w", END])

    assert log_of(driver, graph) == ["a", ("g", "a1", "a2"), "w", "b", ("g", "b1")]


# -- on=


def test_a_node_runs_when_a_channel_that_it_subscribes_to_is_written(driver: Any) -> None:
    graph = StateGraph(State).add_node("watch", lambda s: {"log": [f"saw {s['x']}"]}, on=["x"])
    graph.add_node("a", log_name("a")).add_node("b", lambda s: {"x": 2}).add_node("c", log_name("c"))

    assert log_of(driver, add_edges(graph, "^>a", "a>b", "b>c")) == ["saw 1", "a", "saw 2", "c"]


def test_a_subscriber_of_several_channels_runs_once_per_superstep(driver: Any) -> None:
    class Two(TypedDict, total=False):
        log: Annotated[list[Any], append]
        x: int
        y: int

    graph = StateGraph(Two).add_node("watch", lambda s: {"log": ["w"]}, on=["x", "y"]).add_node("a", lambda s: {"x": 1})
    graph.add_node("b", lambda s: {"y": 1})

    assert driver.invoke(add_edges(graph, "^>a", "^>b").compile(), {})["log"] == ["w"]


def test_a_subscriber_needs_no_edges() -> None:
    add_edges(
        StateGraph(State).add_node("watch", log_name("w"), on=["x"]).add_node("a", log_name("a")), "^>a"
    ).compile()


def test_a_subscriber_runs_in_the_superstep_of_a_goto(driver: Any) -> None:
    graph = StateGraph(State).add_node("watch", log_name("watch"), on=["x"]).add_node("b", log_name("b"))
    graph.add_node("a", lambda s: Command(update={"x": 2}, goto="b"))

    assert driver.invoke(add_edges(graph, "^>a", "b>watch").compile(), {"log": []})["log"][:2] == ["watch", "b"]


def test_a_valid_graph_causes_no_warnings(driver: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log_of(driver, add_edges(graph_of("a", "b"), "^>a", "a>b")) == ["a", "b"]
