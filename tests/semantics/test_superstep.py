"""Part I section 3: plan, run, apply, stop."""

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, RunControl, Runtime, Send, StateGraph, append
from statewright.errors import GraphDrained, GraphRecursionError


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def say(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def graph_of(*names: str, paint: Any = lambda node: node) -> StateGraph:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, paint(say(name)))
    return graph


# -- 3.1 plan


def test_due_nodes_are_ordered_by_declaration(driver: Any, paint: Any) -> None:
    graph = graph_of("z", "a", "m", paint=paint)
    app = graph.add_edge(START, "m").add_edge(START, "a").add_edge(START, "z").compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["z", "a", "m"]
    assert [step.nodes for step in app.iter({"x": 1})] == [("z", "a", "m")]


def test_sends_follow_nodes_in_the_order_of_their_sender_and_emission(driver: Any, paint: Any) -> None:
    def sender(name: str) -> Any:
        node = lambda s: Command(update={"log": [name]}, goto=[Send("w", f"{name}2"), Send("w", f"{name}1")])  # noqa: E731
        return paint(node)

    graph = StateGraph(State)
    graph.add_node("w", paint(lambda arg: {"log": [arg]}))
    graph.add_node("z", sender("z"), destinations=["w"]).add_node("a", sender("a"), destinations=["w"])
    graph.add_node("n", paint(say("n"))).add_node("p", paint(say("p")))
    app = graph.add_edge(START, "a").add_edge(START, "z").add_edge(START, "n").add_edge("n", "p").compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["z", "a", "n", "p", "z2", "z1", "a2", "a1"]


def test_a_node_due_for_several_reasons_runs_once(driver: Any) -> None:
    graph = graph_of("a", "b", "c", "d").add_edge(START, "a").add_edge(START, "b").add_edge(START, "c")
    graph.add_edge("a", "d").add_conditional_edges("b", lambda s: "d", ["d"]).add_edge(["a", "c"], "d")

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b", "c", "d"]


def test_each_send_is_a_separate_task(driver: Any) -> None:
    graph = graph_of("a", "w").add_edge(START, "a").add_edge("a", "w")
    graph.add_conditional_edges("a", lambda s: [Send("w", {}), Send("w", {})], ["w"])

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "w", "w", "w"]


def task_ids(app: Any, thread: str = "1", **options: Any) -> list[str]:
    return [task.id for task in app.get_state(thread_id=thread, **options).tasks]


def test_a_task_keeps_its_id_through_fork_copy_and_update_state(driver: Any) -> None:
    saver = InMemorySaver()
    graph = graph_of("a", "b", "c").add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    app = graph.compile(saver, interrupt_before=["b"])
    driver.invoke(app, {"x": 1}, thread_id="1")
    ids = task_ids(app)

    app.fork({"thread_id": "1"}, branch="side")
    saver.copy_thread("1", "2")
    app.update_state({"thread_id": "1"}, {"x": 2}, as_node="a")

    assert len(set(ids)) == 2
    assert task_ids(app, branch="side") == ids
    assert task_ids(app, "2") == ids
    assert set(ids) <= set(task_ids(app))


def test_task_ids_do_not_change_when_a_checkpoint_is_planned_again(driver: Any) -> None:
    seen: list[str] = []

    def fail_once(state: Any, runtime: Runtime) -> None:
        seen.append(runtime.execution_info.task_id)
        if len(seen) == 1:
            raise ValueError

    app = StateGraph(State).add_node(fail_once).add_edge(START, "fail_once").compile(InMemorySaver())
    with pytest.raises(ValueError):  # noqa: PT011
        driver.invoke(app, {"x": 1}, thread_id="1")
    driver.invoke(app, None, thread_id="1")

    assert len(seen) == 2
    assert (
        seen[0]
        == seen[1]
        == task_ids(app, checkpoint_id=app.get_state(thread_id="1").parent_config["configurable"]["checkpoint_id"])[0]
    )


def test_tasks_with_a_saved_result_do_not_run_again(driver: Any) -> None:
    runs: list[str] = []

    def once(state: Any) -> Any:
        runs.append("once")
        return {"log": ["once"]}

    def fail_once(state: Any) -> Any:
        runs.append("fail")
        if runs.count("fail") == 1:
            while "once" not in runs:  # the run does not wait for a plain sibling that has not started
                pass
            raise ValueError
        return {"log": ["late"]}

    graph = StateGraph(State).add_node("once", once, inline=True).add_node("fail", fail_once, inline=True)
    app = graph.add_edge(START, "once").add_edge(START, "fail").compile(InMemorySaver())
    with pytest.raises(ValueError):  # noqa: PT011
        driver.invoke(app, {"x": 1}, thread_id="1")

    assert driver.invoke(app, None, thread_id="1")["log"] == ["once", "late"]
    assert runs == ["once", "fail", "fail"]


# -- 3.2 run


def test_all_tasks_see_the_state_at_the_start_of_the_superstep(driver: Any, paint: Any) -> None:
    graph = StateGraph(State)
    graph.add_node("a", paint(lambda s: {"x": 2, "log": [s["x"]]})).add_node("b", paint(lambda s: {"log": [s["x"]]}))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    assert driver.invoke(app, {"x": 1}) == {"x": 2, "log": [1, 1]}


def test_a_conditional_edge_sees_the_writes_of_its_task_but_not_of_siblings(driver: Any, paint: Any) -> None:
    seen: dict[str, Any] = {}

    def look(name: str) -> Any:
        def path(state: Any) -> str:
            seen[name] = list(state["log"])
            return END

        return path

    graph = graph_of("a", "b", paint=paint).add_edge(START, "a").add_edge(START, "b")
    app = graph.add_conditional_edges("a", look("a"), [END]).add_conditional_edges("b", look("b"), [END]).compile()
    driver.invoke(app, {"log": ["start"]})

    assert seen == {"a": ["start", "a"], "b": ["start", "b"]}


def test_the_sync_driver_runs_a_single_plain_node_on_the_thread_of_the_caller() -> None:
    seen: list[threading.Thread] = []
    app = (
        StateGraph(State)
        .add_node("a", lambda s: seen.append(threading.current_thread()))
        .add_edge(START, "a")
        .compile()
    )

    app.invoke({"x": 1})

    assert seen == [threading.current_thread()]


@pytest.mark.parametrize("count", [1, 3])
def test_only_inline_plain_nodes_run_on_the_event_loop(count: int) -> None:
    seen: dict[str, list[threading.Thread]] = {"plain": [], "inline": []}
    graph = StateGraph(State)
    for number in range(count):
        name = f"p{number}"
        graph.add_node(name, lambda s: seen["plain"].append(threading.current_thread())).add_edge(START, name)
    app = graph.compile()
    graph = StateGraph(State)
    for number in range(count):
        name = f"i{number}"
        graph.add_node(name, lambda s: seen["inline"].append(threading.current_thread()), inline=True)
        graph.add_edge(START, name)
    inline = graph.compile()

    async def main() -> None:
        await app.ainvoke({"x": 1})
        await inline.ainvoke({"x": 1})

    asyncio.run(main())

    assert len(seen["plain"]) == len(seen["inline"]) == count
    assert threading.current_thread() not in seen["plain"]
    assert set(seen["inline"]) == {threading.current_thread()}


def test_max_concurrency_keeps_inline_nodes_on_the_event_loop() -> None:
    seen: list[threading.Thread] = []

    async def other(state: Any) -> None:
        await asyncio.sleep(0)

    graph = StateGraph(State).add_node(other)
    graph.add_node("here", lambda s: seen.append(threading.current_thread()), inline=True)
    app = graph.add_edge(START, "other").add_edge(START, "here").compile()

    asyncio.run(app.ainvoke({"x": 1}, max_concurrency=1))

    assert seen == [threading.current_thread()]


def test_a_blocking_plain_node_does_not_block_the_event_loop() -> None:
    released = threading.Event()

    def blocking(state: Any) -> Any:
        assert released.wait(600)
        return {"log": ["done"]}

    app = StateGraph(State).add_node(blocking).add_edge(START, "blocking").compile()

    async def main() -> Any:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}))
        await asyncio.sleep(0.001)
        released.set()
        return await running

    assert asyncio.run(main())["log"] == ["done"]


def test_several_coroutine_nodes_run_concurrently(driver: Any, within: Any) -> None:
    events: dict[str, asyncio.Event] = {}

    def meet(mine: str, other: str) -> Any:
        async def node(state: Any) -> Any:
            events.setdefault(mine, asyncio.Event()).set()
            await events.setdefault(other, asyncio.Event()).wait()
            return {"log": [mine]}

        return node

    graph = StateGraph(State).add_node("a", meet("a", "b")).add_node("b", meet("b", "a"))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == ["a", "b"]


def test_several_plain_nodes_run_concurrently(driver: Any, within: Any) -> None:
    barrier = threading.Barrier(3)
    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, lambda s, name=name: {"log": [f"{name}{barrier.wait(600) * 0}"]}).add_edge(START, name)

    assert within(lambda: driver.invoke(graph.compile(), {"x": 1}))["log"] == ["a0", "b0", "c0"]


def test_a_plain_node_and_a_coroutine_node_run_concurrently(driver: Any, within: Any) -> None:
    plain_runs = threading.Event()
    loop_runs = threading.Event()

    def plain(state: Any) -> Any:
        plain_runs.set()
        assert loop_runs.wait(600)
        return {"log": ["plain"]}

    async def coroutine(state: Any) -> Any:
        loop_runs.set()
        while not plain_runs.is_set():
            await asyncio.sleep(0)
        return {"log": ["coroutine"]}

    app = (
        StateGraph(State)
        .add_node(plain)
        .add_node(coroutine)
        .add_edge(START, "plain")
        .add_edge(START, "coroutine")
        .compile()
    )

    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == ["plain", "coroutine"]


# -- 3.3 apply


def test_writes_are_applied_in_task_order_not_in_order_of_completion(driver: Any, within: Any) -> None:
    turns = [threading.Event() for _ in range(4)]
    turns[3].set()

    def node(number: int) -> Any:
        def run(state: Any) -> Any:
            assert turns[number + 1].wait(600)
            turns[number].set()
            return {"log": [number]}

        return run

    graph = StateGraph(State)
    for number in range(3):  # the last node to be declared ends first
        graph.add_node(str(number), node(number)).add_edge(START, str(number))

    assert within(lambda: driver.invoke(graph.compile(), {"x": 1}))["log"] == [0, 1, 2]


def test_writes_of_a_list_result_are_applied_in_its_order(driver: Any) -> None:
    def a(state: Any) -> Any:
        return [{"log": ["1"], "x": 1}, Command(update={"log": ["2"], "x": 2}), {"log": ["3"]}]

    app = StateGraph(State).add_node(a).add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 0}) == {"x": 2, "log": ["1", "2", "3"]}


# -- 3.4 stop


def test_a_run_stops_when_nothing_is_due(driver: Any) -> None:
    assert driver.invoke(graph_of("a").add_edge(START, "a").compile(), {"x": 1})["log"] == ["a"]


def test_the_recursion_limit_counts_supersteps_and_lists_the_last_five(driver: Any) -> None:
    graph = graph_of("plan", "act").add_edge(START, "plan").add_edge("plan", "act").add_edge("act", "plan")

    with pytest.raises(GraphRecursionError, match="'plan', 'act', 'plan'") as caught:
        driver.invoke(graph.compile(), {"x": 1}, recursion_limit=7)

    assert isinstance(caught.value, RecursionError)
    assert caught.value.limit == 7
    assert caught.value.last_steps == (("plan",), ("act",), ("plan",), ("act",), ("plan",))
    assert "recursion_limit" in str(caught.value)


def test_a_run_that_ends_at_its_limit_is_complete(driver: Any) -> None:
    app = graph_of("a", "b").add_sequence(["a", "b"]).add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 1}, recursion_limit=2)["log"] == ["a", "b"]
    with pytest.raises(GraphRecursionError):
        driver.invoke(app, {"x": 1}, recursion_limit=1)


def test_the_default_recursion_limit_is_a_thousand(driver: Any) -> None:
    ran: list[int] = []
    app = StateGraph(State).add_node("a", lambda s: ran.append(1)).add_edge(START, "a").add_edge("a", "a").compile()

    with pytest.raises(GraphRecursionError):
        driver.invoke(app, {"x": 1})
    assert len(ran) == 1000


def test_work_up_to_the_limit_is_saved_and_the_thread_continues(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: {"x": s["x"] + 1})
    graph.add_conditional_edges("a", lambda s: "a" if s["x"] < 5 else END, ["a", END])
    app = graph.add_edge(START, "a").compile(InMemorySaver())

    with pytest.raises(GraphRecursionError, match="'1'"):
        driver.invoke(app, {"x": 0}, thread_id="1", recursion_limit=3)
    assert app.get_state(thread_id="1").values["x"] == 3
    assert driver.invoke(app, None, thread_id="1", recursion_limit=3)["x"] == 5


def test_a_drained_run_stops_at_the_next_boundary_and_can_continue(driver: Any) -> None:
    control = RunControl()

    def a(state: Any) -> Any:
        control.request_drain("deploy")
        return {"log": ["a"]}

    app = graph_of("b").add_node("a", a).add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver())

    with pytest.raises(GraphDrained, match="deploy"):
        driver.invoke(app, {"x": 1}, thread_id="1", control=control)
    assert app.get_state(thread_id="1").next == ("b",)
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b"]


def test_a_drain_during_the_last_superstep_lets_the_run_complete(driver: Any) -> None:
    control = RunControl()

    def last(state: Any) -> None:
        control.request_drain()

    app = StateGraph(State).add_node(last).add_edge(START, "last").compile()

    assert driver.invoke(app, {"x": 1}, control=control) == {"x": 1, "log": []}


# -- 3.5 new input


def test_new_input_is_a_separate_commit_with_the_entry_nodes_as_frontier(driver: Any) -> None:
    app = graph_of("a", "b").add_edge(START, "a").add_edge(START, "b").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")

    last, first = app.get_state_history(thread_id="1")

    assert (first.metadata["source"], first.next, first.values) == ("input", ("a", "b"), {"x": 1, "log": []})
    assert (last.metadata["source"], last.next) == ("loop", ())
    assert last.metadata["nodes"] == ["a", "b"]


def test_a_run_can_be_forked_before_its_first_node(driver: Any) -> None:
    app = StateGraph(State).add_node("a", lambda s: {"log": [s["x"]]}).add_edge(START, "a").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")
    first = list(app.get_state_history(thread_id="1"))[-1]

    config = app.update_state(first.config, {"x": 2}, as_node=START)

    assert driver.invoke(app, None, config)["log"] == [2]


def test_an_empty_mapping_is_valid_input(driver: Any) -> None:
    assert driver.invoke(graph_of("a").add_edge(START, "a").compile(), {})["log"] == ["a"]


def test_a_node_can_return_the_same_dict_repeatedly(driver: Any, paint: Any) -> None:
    shared: dict[str, Any] = {}

    def work(number: Any) -> Any:
        shared["log"] = [number]
        return shared

    graph = StateGraph(State).add_node("work", paint(work))
    graph.add_node("spread", lambda s: [Send("work", n) for n in range(3)], destinations=["work"])
    app = graph.add_edge(START, "spread").compile()
    assert driver.invoke(app, {"x": 1}, max_concurrency=1)["log"] == [0, 1, 2]
