"""Part I section 6.4: inspecting threads, changing them, forking and replaying, and resuming."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Send, StateGraph, append, interrupt
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    EmptyInputError,
    InvalidConfig,
    InvalidUpdateError,
    UnansweredInterrupts,
)
from statewright.runtime import diff


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def say(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def ask(state: Any) -> Any:
    return {"log": [interrupt("?")]}


def linked(graph: StateGraph, *edges: str) -> StateGraph:
    """The graph with edges written as "a>b" and joins as "a+b>c"; "^" is START."""
    for edge in edges:
        start, end = edge.split(">")
        starts = [START if name == "^" else name for name in start.split("+")]
        graph.add_edge(starts[0] if len(starts) == 1 else starts, end)
    return graph


def graph_of(names: str, *edges: str) -> StateGraph:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, say(name))
    return linked(graph, *edges)


THREAD = {"configurable": {"thread_id": "1"}}


# -- get_state


def test_a_thread_without_checkpoints_is_empty() -> None:
    state = graph_of("a", "^>a").compile(InMemorySaver()).get_state(THREAD)

    assert (state.values, state.next, state.tasks, state.created_at, state.parent_config) == ({}, (), (), None, None)


def test_get_state_returns_values_due_nodes_and_config(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "a>c").compile(InMemorySaver(), interrupt_before="b")
    driver.invoke(app, {"x": 1}, THREAD, run_id="r")
    state = app.get_state(THREAD)

    assert state.values == {"x": 1, "log": ["a"]}
    assert state.next == ("b", "c")
    assert [task.name for task in state.tasks] == ["b", "c"]
    assert state.metadata["source"] == "loop"
    assert (state.metadata["step"], state.metadata["run_id"], state.metadata["branch"]) == (1, "r", "main")
    assert state.created_at is not None
    assert app.get_state(state.config) == state


def test_get_state_requires_a_checkpointer_and_a_thread() -> None:
    with pytest.raises(InvalidConfig, match="checkpointer"):
        graph_of("a", "^>a").compile().get_state(THREAD)
    with pytest.raises(InvalidConfig, match="thread_id"):
        graph_of("a", "^>a").compile(InMemorySaver()).get_state()


def test_an_unknown_checkpoint_is_an_error_that_names_it(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    with pytest.raises(CheckpointNotFound, match="'nope'"):
        app.get_state(THREAD, checkpoint_id="nope")
    with pytest.raises(CheckpointNotFound, match="'nope'"):
        driver.invoke(app, None, THREAD, checkpoint_id="nope")


# -- history


def test_history_is_newest_first_and_linked_by_parents(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    history = list(app.get_state_history(THREAD))

    assert [state.values["log"] for state in history] == [["a", "b", "c"], ["a", "b"], ["a"], []]
    assert [state.metadata["step"] for state in history] == [3, 2, 1, 0]
    assert [state.parent_config for state in history] == [*(state.config for state in history[1:]), None]


def test_history_can_be_filtered_and_limited(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    history = list(app.get_state_history(THREAD))

    assert list(app.get_state_history(THREAD, limit=2)) == history[:2]
    assert list(app.get_state_history(THREAD, before=history[1].config)) == history[2:]
    assert list(app.get_state_history(THREAD, filter={"source": "input"})) == history[-1:]
    assert list(app.get_state_history(THREAD, filter={"source": "nothing"})) == []


def test_a_thread_remembers_across_runs(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, {"x": 2}, THREAD) == {"x": 2, "log": ["a", "a"]}
    assert driver.invoke(app, {"x": 3}, thread_id="2") == {"x": 3, "log": ["a"]}


def test_durability_exit_saves_only_when_the_run_ends_or_pauses(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD, durability="exit")

    assert app.get_state(THREAD).values["log"] == ["a", "b", "c"]
    assert len(list(app.get_state_history(THREAD))) == 2


def test_durability_exit_saves_a_run_that_asks_a_question(driver: Any) -> None:
    app = linked(graph_of("a", "^>a").add_node(ask), "a>ask").compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, THREAD, durability="exit")
    assert app.get_state(THREAD).next == ("ask",)
    assert driver.invoke(app, Command(resume="yes"), THREAD, durability="exit")["log"] == ["a", "yes"]
    assert app.get_state(THREAD).values["log"] == ["a", "yes"]


# -- None as input


def test_none_as_input_continues_the_thread(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b"]


def test_none_on_a_finished_thread_returns_its_values_and_writes_nothing(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    result = driver.invoke(app, {"x": 1}, THREAD)
    before = app.get_state(THREAD)

    assert driver.invoke(app, None, THREAD) == result
    assert app.get_state(THREAD) == before


def test_none_without_anything_to_continue_is_an_error(driver: Any) -> None:
    with pytest.raises(EmptyInputError, match="nothing to continue"):
        driver.invoke(graph_of("a", "^>a").compile(InMemorySaver()), None, THREAD)
    with pytest.raises(EmptyInputError, match="checkpointer"):
        driver.invoke(graph_of("a", "^>a").compile(), None)


# -- update_state


def test_update_state_applies_reducers_and_makes_successors_due(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"log": ["edited"], "x": 5}, as_node="a")

    state = app.get_state(THREAD)
    assert (state.values, state.next) == ({"x": 5, "log": ["a", "b", "edited"]}, ("b",))
    assert (state.metadata["source"], state.metadata["nodes"]) == ("update", ["a"])
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b", "edited", "b"]


def test_update_state_evaluates_conditional_edges(driver: Any) -> None:
    graph = graph_of("abc", "^>a", "b>c").add_conditional_edges("a", lambda s: "c" if s["x"] > 3 else "b", ["b", "c"])
    app = graph.compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"x": 5}, as_node="a")
    assert app.get_state(THREAD).next == ("c",)


def test_update_state_evaluates_conditional_edges_that_are_coroutines(driver: Any) -> None:
    async def path(state: Any) -> str:
        return "b"

    graph = graph_of("ab", "^>a").add_conditional_edges("a", path, ["b", END])
    app = graph.compile(InMemorySaver())
    app.update_state(THREAD, {"x": 5}, as_node="a")

    assert driver.invoke(app, None, THREAD)["log"] == ["b"]


def test_update_state_without_as_node_acts_as_the_node_that_ran_last(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"x": 5})
    assert app.get_state(THREAD).metadata["nodes"] == ["a"]
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b", "c"]


def test_update_state_without_as_node_is_refused_if_several_nodes_ran_last(driver: Any) -> None:
    app = graph_of("ab", "^>a", "^>b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    with pytest.raises(InvalidUpdateError, match=r"a, b.*as_node"):
        app.update_state(THREAD, {"x": 5})


def test_update_state_without_as_node_works_on_a_fork(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)
    config = app.fork(THREAD, branch="side")

    app.update_state(config, {"x": 5})
    assert app.get_state(THREAD, branch="side").metadata["nodes"] == ["a"]


@pytest.mark.parametrize("as_node", ["reveiw", "__stop__", ""])
def test_update_state_refuses_an_unknown_as_node(as_node: str) -> None:
    app = linked(StateGraph(State).add_node("review", say("r")).add_node("b", say("b")), "^>review", "^>b")
    app = app.compile(InMemorySaver())

    with pytest.raises(InvalidUpdateError, match="as_node"):
        app.update_state(THREAD, {"x": 5}, as_node=as_node)


def test_update_state_refuses_invalid_updates() -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver(), unknown_keys="error")

    with pytest.raises(InvalidUpdateError):
        app.update_state(THREAD, 7, as_node="a")
    with pytest.raises(InvalidUpdateError, match="'y'"):
        app.update_state(THREAD, {"y": 7}, as_node="a")
    assert list(app.get_state_history(THREAD)) == []


def test_update_state_keeps_unrelated_pending_tasks(driver: Any) -> None:
    app = graph_of("abcd", "^>a", "a>b", "a>c", "b>d").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"log": ["B"]}, as_node="b")

    assert app.get_state(THREAD).next == ("c", "d")
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "B", "c", "d"]


def test_update_state_keeps_the_ids_results_and_questions_of_pending_tasks(driver: Any) -> None:
    graph = linked(graph_of("abc", "^>a", "^>b", "b>c").add_node(ask), "^>ask")
    app = graph.compile(InMemorySaver())
    result = driver.invoke(app, {"x": 1}, THREAD)
    before = app.get_state(THREAD).tasks

    app.update_state(THREAD, {"x": 9}, as_node="c")

    assert app.get_state(THREAD).tasks == before
    assert app.get_state(THREAD).interrupts == result["__interrupt__"]
    assert driver.invoke(app, Command(resume="yes"), THREAD) == {"x": 9, "log": ["a", "b", "yes", "c"]}


def test_update_state_with_cancel_pending_drops_pending_tasks(driver: Any) -> None:
    app = graph_of("abcd", "^>a", "a>b", "a>c", "b>d").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"log": ["B"]}, as_node="b", cancel_pending=True)

    assert app.get_state(THREAD).next == ("d",)
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "B", "d"]


def test_update_state_as_end_leaves_nothing_due(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "a>c").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"x": 2}, as_node=END)

    assert (app.get_state(THREAD).next, app.get_state(THREAD).values["x"]) == ((), 2)


def test_update_state_counts_as_an_arrival_at_a_join(driver: Any) -> None:
    graph = graph_of("abcd", "^>a", "^>b", "b>c", "a+c>d")
    app = graph.compile(InMemorySaver(), interrupt_before="c")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"log": ["C"]}, as_node="c")
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b", "C", "d"]


def test_update_state_as_a_node_without_successors_keeps_arrivals_at_joins(driver: Any) -> None:
    graph = graph_of("abcde", "^>a", "^>b", "b>c", "a+c>d", "^>e")
    app = graph.compile(InMemorySaver(), interrupt_before="c")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"x": 5}, as_node="e")
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b", "e", "c", "d"]


def test_update_state_keeps_deferred_tasks(driver: Any) -> None:
    graph = graph_of("abc", "^>a", "a>b").add_node("late", say("late"), defer=True)
    app = linked(graph, "^>late", "^>c").compile(InMemorySaver(), interrupt_before="b")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"x": 5}, as_node="c")
    assert app.get_state(THREAD).next == ("b", "late")
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "c", "b", "late"]


def test_an_update_as_a_due_node_does_not_run_its_due_successor_twice(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "a>c", "b>c").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    app.update_state(THREAD, {"log": ["B"]}, as_node="b")
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "B", "c"]


def test_bulk_update_state_applies_updates_in_order_in_one_superstep(driver: Any) -> None:
    app = graph_of("abc", "^>a", "^>b", "a+b>c").compile(InMemorySaver())

    app.bulk_update_state(THREAD, [({"log": ["B"]}, "b"), ({"log": ["A"]}, "a")])

    (state,) = app.get_state_history(THREAD)
    assert (state.values["log"], state.next) == (["B", "A"], ("c",))
    with pytest.raises(InvalidUpdateError, match="as_node"):
        app.bulk_update_state(THREAD, [({"x": 1}, None), ({"x": 2}, "a")])


def test_update_state_of_a_new_thread_starts_it(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver())
    app.update_state(THREAD, {"x": 1}, as_node=START)

    assert driver.invoke(app, None, THREAD) == {"x": 1, "log": ["a", "b"]}


def test_update_state_of_an_older_checkpoint_forks_the_thread(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    after_a = list(app.get_state_history(THREAD))[2]

    config = app.update_state(after_a.config, {"log": ["A2"]}, as_node="a")

    assert app.get_state(config).values["log"] == ["a", "A2"]
    assert driver.invoke(app, None, config)["log"] == ["a", "A2", "b", "c"]
    assert app.get_state(THREAD).values["log"] == ["a", "A2", "b", "c"]


def test_update_state_works_in_debug_mode() -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver(), debug=True)
    app.update_state(THREAD, {"x": 1}, as_node="a")

    assert app.get_state(THREAD).values["x"] == 1


def test_state_methods_have_coroutine_forms() -> None:
    import asyncio

    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver())

    async def main() -> Any:
        await app.aupdate_state(THREAD, {"x": 1}, "a")
        state = await app.aget_state(THREAD)
        return state, [snapshot async for snapshot in app.aget_state_history(THREAD)]

    state, history = asyncio.run(main())
    assert state.next == ("b",)
    assert history == [state]


# -- a Command as input


def test_a_command_updates_a_pending_thread_and_keeps_due_nodes(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(update={"x": 7}), THREAD) == {"x": 7, "log": ["a", "b"]}


def test_a_command_as_input_can_jump_to_nodes(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(goto="b"), THREAD)["log"] == ["a", "b", "b"]
    assert driver.invoke(app, Command(goto=[Send("b", {}), "b"]), thread_id="2")["log"] == ["b", "b"]


def test_a_command_to_a_due_node_runs_it_once(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver(), interrupt_after="a")
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(goto="b"), THREAD)["log"] == ["a", "b"]


def test_a_command_keeps_arrivals_at_joins_and_deferred_tasks(driver: Any) -> None:
    graph = graph_of("abcd", "^>a", "^>b", "b>c", "a+c>d").add_node("late", say("late"), defer=True)
    app = linked(graph, "^>late").compile(InMemorySaver(), interrupt_before="c")
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(update={"x": 5}), THREAD)["log"] == ["a", "b", "c", "d", "late"]


def test_a_command_without_a_thread_starts_at_its_goto(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile()

    assert driver.invoke(app, Command(update={"x": 3}, goto="b")) == {"x": 3, "log": ["b"]}


# -- fork and replay


def test_a_fork_starts_a_new_branch_at_any_checkpoint(driver: Any) -> None:
    app = graph_of("abc", "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    after_a = list(app.get_state_history(THREAD))[2]

    config = app.fork(after_a.config, branch="side")
    app.update_state(config, {"x": 2}, as_node="a")

    assert driver.invoke(app, None, THREAD, branch="side") == {"x": 2, "log": ["a", "b", "c"]}
    assert app.get_state(THREAD).values == {"x": 1, "log": ["a", "b", "c"]}
    assert app.checkpointer.branches("1") == ["main", "side"]
    assert [state.metadata["source"] for state in app.get_state_history(THREAD, branch="side")][-3:] == [
        *("fork", "loop", "input"),
    ]


def test_a_fork_keeps_task_ids_questions_and_finished_results(driver: Any) -> None:
    app = linked(graph_of("a", "^>a").add_node(ask), "^>ask").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    before = app.get_state(THREAD)
    app.fork(THREAD, branch="side")
    side = app.get_state(THREAD, branch="side")

    assert (side.tasks, side.interrupts, side.values) == (before.tasks, before.interrupts, before.values)
    assert driver.invoke(app, Command(resume="side"), THREAD, branch="side")["log"] == ["a", "side"]
    assert driver.invoke(app, Command(resume="main"), THREAD)["log"] == ["a", "main"]


def test_forking_to_an_existing_branch_is_refused(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    app.fork(THREAD, branch="side")

    with pytest.raises(InvalidUpdateError, match="'side'"):
        app.fork(THREAD, branch="side")
    with pytest.raises(CheckpointNotFound):
        app.fork(thread_id="nobody", config=None)


def test_a_replay_runs_all_nodes_after_the_checkpoint_again(driver: Any) -> None:
    runs: list[str] = []

    def counting(name: str) -> Any:
        def node(state: Any) -> Any:
            runs.append(name)
            return {"log": [f"{name}{runs.count(name)}"]}

        return node

    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, counting(name))
    app = linked(graph, "^>a", "a>b", "b>c").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    after_a = list(app.get_state_history(THREAD))[2]

    assert driver.invoke(app, None, after_a.config)["log"] == ["a1", "b2", "c2"]
    assert runs == ["a", "b", "c", "b", "c"]
    assert len(list(app.get_state_history(THREAD))) == 5, "three of the first run, two of the replay"


def test_a_replay_asks_the_question_again_with_the_same_id(driver: Any) -> None:
    app = linked(StateGraph(State).add_node(ask), "^>ask").compile(InMemorySaver())
    (first,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    before = app.get_state(THREAD)
    driver.invoke(app, Command(resume="one"), THREAD)

    (repeated,) = driver.invoke(app, None, before.config)["__interrupt__"]
    assert repeated == first
    assert driver.invoke(app, Command(resume="two"), THREAD)["log"] == ["two"]


def test_an_older_checkpoint_accepts_another_answer(driver: Any) -> None:
    app = linked(StateGraph(State).add_node(ask), "^>ask").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    before = app.get_state(THREAD)
    driver.invoke(app, Command(resume="one"), THREAD)

    assert driver.invoke(app, Command(resume="two"), before.config)["log"] == ["two"]


def test_new_input_on_an_older_checkpoint_continues_from_there(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    first = app.get_state(THREAD)
    driver.invoke(app, {"x": 2}, THREAD)

    assert driver.invoke(app, {"x": 3}, first.config) == {"x": 3, "log": ["a", "a"]}
    assert app.get_state(THREAD).values == {"x": 3, "log": ["a", "a"]}


def test_branches_are_isolated(driver: Any) -> None:
    app = graph_of("a", "^>a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    app.fork(THREAD, branch="side")
    driver.invoke(app, {"x": 2}, THREAD, branch="side")
    driver.invoke(app, {"x": 3}, THREAD)

    assert app.get_state(THREAD).values == {"x": 3, "log": ["a", "a"]}
    assert app.get_state(THREAD, branch="side").values == {"x": 2, "log": ["a", "a"]}


def test_diff_lists_the_differences() -> None:
    assert diff({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": (1, None), "b": (2, 3), "c": (None, 4)}


# -- new input on a thread with unfinished tasks


def add_failing_node(graph: StateGraph) -> StateGraph:
    """Add a node that fails unless x is 2."""

    def bad(state: Any) -> Any:
        if state["x"] != 2:
            raise ValueError("bad")
        return {"log": ["bad"]}

    return graph.add_node("bad", bad, inline=True)


def test_new_input_after_a_failure_applies_finished_results_and_lists_discarded_tasks(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", say("a"), inline=True)
    graph = linked(add_failing_node(graph).add_node("b", say("b")), "^>a", "^>bad", "a>b")
    app = graph.compile(InMemorySaver())
    with pytest.raises(ValueError, match="bad"):
        driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, {"x": 2}, THREAD)["log"] == ["a", "a", "bad", "b"]
    discarded = [state.metadata.get("discarded") for state in app.get_state_history(THREAD, filter={"source": "input"})]
    assert discarded == [["bad"], None]


def test_new_input_is_refused_while_questions_are_open(driver: Any) -> None:
    app = linked(graph_of("a", "^>a").add_node(ask), "^>ask").compile(InMemorySaver())
    (question,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    before = app.get_state(THREAD)

    with pytest.raises(UnansweredInterrupts, match=question.id) as caught:
        driver.invoke(app, {"x": 2}, THREAD)
    assert caught.value.open_ids == (question.id,)
    assert app.get_state(THREAD) == before


def test_on_unfinished_discard_keeps_finished_results_and_starts_over(driver: Any) -> None:
    calls: list[int] = []

    def once(state: Any) -> Any:
        calls.append(1)
        return {"log": [interrupt("?") if len(calls) == 1 else "unasked"]}

    app = linked(graph_of("a", "^>a").add_node(once), "^>once").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    result = driver.invoke(app, {"x": 2}, THREAD, on_unfinished="discard")

    assert result == {"x": 2, "log": ["a", "a", "unasked"]}
    (newest, _) = app.get_state_history(THREAD, filter={"source": "input"})
    assert newest.metadata["discarded"] == ["once"]


def test_on_unfinished_finish_completes_pending_tasks_first(driver: Any) -> None:
    runs: list[str] = []

    def flaky(state: Any) -> Any:
        runs.append("flaky")
        if len(runs) == 1:
            raise ValueError("once")
        return {"log": [f"flaky{state['x']}"]}

    app = linked(graph_of("a").add_node(flaky), "^>flaky", "flaky>a").compile(InMemorySaver())
    with pytest.raises(ValueError, match="once"):
        driver.invoke(app, {"x": 1}, THREAD)

    result = driver.invoke(app, {"x": 2}, THREAD, on_unfinished="finish")
    assert result == {"x": 2, "log": ["flaky1", "a", "flaky2", "a"]}


def test_on_unfinished_finish_reports_open_questions(driver: Any) -> None:
    app = linked(StateGraph(State).add_node(ask), "^>ask").compile(InMemorySaver())
    (question,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]

    result = driver.invoke(app, {"x": 2}, THREAD, on_unfinished="finish")

    assert result["__interrupt__"] == (question,)
    assert result["x"] == 1


def test_new_input_on_a_paused_thread_starts_over(driver: Any) -> None:
    app = graph_of("ab", "^>a", "a>b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD, interrupt_before="b")

    assert driver.invoke(app, {"x": 2}, THREAD) == {"x": 2, "log": ["a", "a", "b"]}


# -- two runs on one thread


def test_an_overtaken_update_starts_over_unless_it_names_a_checkpoint() -> None:
    saver = InMemorySaver()
    app = graph_of("a", "^>a").compile(saver)
    app.invoke({"x": 1}, THREAD)
    original, calls = saver.load, []

    def load(*args: Any, **kwargs: Any) -> Any:
        loaded = original(*args, **kwargs)
        if not calls:
            calls.append(1)
            app.invoke({"x": 2}, THREAD)
        return loaded

    saver.load = load  # type: ignore[method-assign]
    app.update_state(THREAD, {"x": 3}, as_node="a")
    assert [snapshot.values.get("x") for snapshot in app.get_state_history(THREAD)][:2] == [3, 2]

    named = app.get_state(THREAD).config
    calls.clear()
    with pytest.raises(CheckpointConflict):
        app.update_state(named, {"x": 4}, as_node="a")
    assert app.get_state(THREAD).values["x"] == 2
