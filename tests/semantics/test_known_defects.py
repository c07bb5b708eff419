"""Defects of other engines (Part II, sections 3 and 5), each with the behaviour of this one."""

import asyncio
import gc
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    NodeError,
    Send,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    task,
)
from statewright.errors import InvalidResume, NonDeterminismError, ThreadBusy, UnknownTarget

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


def log_words(*words: Any) -> Any:
    return lambda state: {"log": list(words)}


def add_edges(graph: StateGraph, *edges: tuple[Any, str]) -> StateGraph:
    for start, end in edges:
        graph.add_edge(start, end)
    return graph


def test_concurrent_runs_on_one_thread_lose_no_update(driver: Any) -> None:
    app = StateGraph(State).add_node("n", lambda s: time.sleep(0.002) or {"log": [s["x"]]}).add_edge(START, "n")
    app = app.compile(InMemorySaver())
    completed: list[int] = []

    def run(x: int) -> None:
        try:
            driver.invoke(app, {"x": x}, THREAD)
            completed.append(x)
        except ThreadBusy:
            pass

    threads = [threading.Thread(target=run, args=(x,)) for x in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(app.get_state(THREAD).values["log"]) == sorted(completed)


def test_a_handled_error_is_not_raised_because_a_sibling_is_running(driver: Any) -> None:
    def bad(state: State) -> None:
        raise KeyError("x")

    async def slow(state: State) -> dict[str, Any]:
        await asyncio.sleep(0.005)
        return {"log": ["slow"]}

    def handle(state: State, error: NodeError) -> dict[str, Any]:
        return {"log": ["handled"]}

    graph = StateGraph(State).add_node("bad", bad, error_handler=handle).add_node("slow", slow)
    app = add_edges(graph, (START, "bad"), (START, "slow")).compile()
    assert driver.invoke(app, {"x": 1})["log"] == ["slow", "handled"]


def test_an_error_handler_does_not_run_again_on_resume(driver: Any) -> None:
    handled: list[int] = []

    def bad(state: State) -> None:
        raise KeyError("x")

    graph = StateGraph(State).add_node("bad", bad, error_handler=lambda s: handled.append(1) or {"log": ["handled"]})
    graph.add_node("ask", lambda s: {"log": [interrupt("?")]})
    app = add_edges(graph, (START, "bad"), ("bad", "ask")).compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == ["handled", 2]
    assert handled == [1]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_finished_siblings_in_a_subgraph_do_not_run_again(driver: Any, depth: int) -> None:
    ran: list[str] = []
    graph = StateGraph(State).add_node("ok", lambda s: ran.append("ok") or {"log": ["ok"]})
    graph.add_node("ask", lambda s: {"log": [interrupt("?")]})
    app = add_edges(graph, (START, "ok"), (START, "ask")).compile()
    for _ in range(depth):
        app = StateGraph(State).add_node("child", app).add_edge(START, "child").compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["ok", "yes"]
    assert ran == ["ok"]


def test_a_deferred_node_waits_for_pending_sends(driver: Any) -> None:
    def plan(state: State) -> Any:
        return Command(goto=["last", Send("work", 1), Send("work", 2)])

    graph = StateGraph(State).add_node("plan", plan, destinations=["last", "work"])
    graph.add_node("work", lambda n: {"log": [n]}).add_node("last", lambda s: {"log": [len(s["log"])]}, defer=True)
    assert driver.invoke(graph.add_edge(START, "plan").compile(), {"x": 1})["log"] == [1, 2, 2]


@pytest.mark.filterwarnings("ignore::statewright.errors.UnfinishedJoinWarning")
def test_a_join_half_reached_by_one_run_does_not_fire_in_the_next(driver: Any) -> None:
    def route(state: State) -> Any:
        return Command(goto="a" if state["x"] == 1 else "b")

    graph = StateGraph(State).add_node("route", route, destinations=["a", "b"])
    for name in "abj":
        graph.add_node(name, log_words(name))
    app = graph.add_edge(["a", "b"], "j").add_edge(START, "route").compile(InMemorySaver())
    for x in (1, 2):
        driver.invoke(app, {"x": x}, THREAD)
    assert app.get_state(THREAD).values["log"] == ["a", "b"]


def test_a_limit_of_one_does_not_deadlock_a_stream(driver: Any, within: Any) -> None:
    def node(state: State, writer: Any) -> dict[str, Any]:
        writer("hello")
        return {"log": [1]}

    graph = StateGraph(State).add_node("a", node).add_node("b", node)
    app = add_edges(graph, (START, "a"), (START, "b")).compile()
    parts = within(lambda: driver.stream(app, {"x": 1}, stream_mode="custom", max_concurrency=1))
    assert parts == ["hello", "hello"]


def test_a_limit_of_one_does_not_deadlock_nested_tasks(driver: Any, within: Any) -> None:
    @task
    async def leaf() -> int:
        return 1

    @task
    async def branch() -> int:
        return await leaf() + await leaf()

    @entrypoint()
    async def flow(x: int) -> int:
        return await branch()

    assert within(lambda: driver.invoke(flow, 1, max_concurrency=1)) == 2


def test_an_interrupt_is_not_swallowed_by_a_node_that_catches_exceptions(driver: Any) -> None:
    def careless(state: State) -> dict[str, Any]:
        try:
            return {"log": [interrupt("?")]}
        except Exception:
            return {"log": ["swallowed"]}

    app = StateGraph(State).add_node(careless).add_edge(START, "careless").compile(InMemorySaver())
    assert "__interrupt__" in driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == [1]


@pytest.mark.parametrize("answer", [None, {}, "", 0, [], False])
def test_any_value_can_be_an_answer(driver: Any, answer: Any) -> None:
    app = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = app.compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, Command(resume=answer), THREAD)["log"] == [answer]


def test_an_answer_to_an_unknown_question_is_refused(driver: Any) -> None:
    app = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = app.compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    with pytest.raises(InvalidResume, match="No open question"):
        driver.invoke(app, Command(resume={"0" * 32: 1}), THREAD)


def test_two_questions_of_one_node_have_different_ids(driver: Any) -> None:
    app = (
        StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("a?"), interrupt("b?")]}).add_edge(START, "ask")
    )
    app = app.compile(InMemorySaver())
    (first,) = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    (second,) = driver.invoke(app, Command(resume=1), THREAD)["__interrupt__"]
    assert first.id != second.id


def test_reordered_task_calls_are_an_error(driver: Any) -> None:
    words = ["a", "b"]

    @task
    def echo(word: str) -> str:
        return word

    @entrypoint(InMemorySaver())
    def flow(x: int) -> Any:
        results = [echo(word).result() for word in words]
        return [*results, interrupt("?")]

    driver.invoke(flow, 1, THREAD)
    words.reverse()
    with pytest.raises(NonDeterminismError):
        driver.invoke(flow, Command(resume=1), THREAD)


def test_an_abandoned_stream_does_not_hang_the_process(driver: Any, within: Any) -> None:
    async def endless(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [1]}

    graph = StateGraph(State).add_node("a", endless).add_edge(START, "a").add_edge("a", "a")
    app = graph.compile()
    before = threading.active_count()

    def read_one() -> Any:
        if driver.name == "async":
            return driver.take(app, {"x": 1}, 1)
        parts = app.stream({"x": 1})
        first = next(parts)
        del parts
        gc.collect()
        return [first]

    for _ in range(5):
        assert within(read_one) == [{"a": {"log": [1]}}]
    deadline = time.monotonic() + 600
    while threading.active_count() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 2


def test_a_goto_replaces_the_edges_of_its_node(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: Command(goto="c"), destinations=["c"])
    graph.add_node("b", log_words("b")).add_node("c", log_words("c"))
    assert driver.invoke(add_edges(graph, (START, "a"), ("a", "b")).compile(), {"x": 1})["log"] == ["c"]


def test_an_unknown_target_is_an_error(driver: Any) -> None:
    app = StateGraph(State).add_node("a", lambda s: Command(goto="nowhere")).add_edge(START, "a").compile()
    with pytest.raises(UnknownTarget, match="nowhere"):
        driver.invoke(app, {"x": 1})


def test_updating_as_one_node_does_not_cancel_another(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", log_words("a"))
    for name in "bcd":
        graph.add_node(name, log_words(name))
    app = add_edges(graph, (START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("d", END)).compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD, interrupt_before=["b"])
    app.update_state(THREAD, {"log": ["b by hand"]}, as_node="b")

    assert sorted(app.get_state(THREAD).next) == ["c", "d"]
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b by hand", "c", "d"]


def test_new_input_after_a_partial_failure_keeps_the_writes_of_siblings(driver: Any) -> None:
    def bad(state: State) -> dict[str, Any]:
        if state["x"] == 1:
            raise KeyError("x")
        return {"log": ["recovered"]}

    graph = add_edges(
        StateGraph(State).add_node("ok", log_words("ok")).add_node(bad), (START, "ok"), ("ok", "bad"), (START, "bad")
    )
    app = graph.compile(InMemorySaver())
    with pytest.raises(KeyError):
        driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, {"x": 2}, THREAD)["log"][:2] == ["ok", "ok"]


def test_a_failure_does_not_wait_for_a_slow_plain_sibling(driver: Any, within: Any) -> None:
    gate = threading.Event()

    def bad(state: State) -> None:
        raise KeyError("x")

    graph = StateGraph(State).add_node("slow", lambda s: gate.wait(600)).add_node(bad)
    app = add_edges(graph, (START, "slow"), (START, "bad")).compile()
    with pytest.raises(KeyError):
        within(lambda: driver.invoke(app, {"x": 1}))
    gate.set()
