"""Part I, sections 4 to 8: one simple test for each numbered rule. The other files cover edge cases."""

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    STOP,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    InMemoryStore,
    Message,
    MessagesStateGraph,
    NodeError,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    sleep,
    task,
    wait_for_event,
)
from statewright.errors import InvalidResume, InvalidUpdateError, ThreadBusy, UnansweredInterrupts, UnknownTarget
from statewright.testing import CheckpointerConformance, FakeClock

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


def log_words(*words: Any) -> Any:
    return lambda state: {"log": list(words)}


def compile_node(node: Any, saver: Any = None, *, clock: Any = None, cache: Any = None, **options: Any) -> Any:
    graph = StateGraph(State).add_node("node", node, **options).add_edge(START, "node")
    return graph.compile(saver, clock=clock, cache=cache)


# -- 4 control flow


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, []),
        ({"log": [1]}, [1]),
        (Command(update={"log": [1]}), [1]),
        (Send("end", {}), ["sent"]),
        ([{"log": [1]}, Send("end", {})], [1, "sent"]),
        ({"log": 1}, [1]),
    ],
)
def test_4_1_a_node_may_return_several_kinds_of_results(driver: Any, answer: Any, expected: list[Any]) -> None:
    graph = (
        StateGraph(State).add_node("node", lambda s: answer, destinations=["end"]).add_node("end", log_words("sent"))
    )
    assert driver.invoke(graph.add_edge(START, "node").compile(), {"x": 1})["log"] == expected


def test_4_1_any_other_result_is_refused(driver: Any) -> None:
    with pytest.raises(InvalidUpdateError):
        driver.invoke(compile_node(lambda s: 5), {"x": 1})


def test_4_2_unknown_keys_and_targets_are_reported(driver: Any) -> None:
    with pytest.warns(UserWarning, match="Did you mean 'log'"):
        driver.invoke(compile_node(lambda s: {"lgo": [1]}), {"x": 1})
    with pytest.raises(UnknownTarget, match="Did you mean 'node'"):
        driver.invoke(compile_node(lambda s: Command(goto="nod")), {"x": 1})


@pytest.mark.parametrize(("goto", "log"), [("c", ["c"]), (END, []), (STOP, []), (["b", "c"], ["b", "c"])])
def test_4_3_a_goto_replaces_the_edges(driver: Any, goto: Any, log: list[str]) -> None:
    graph = StateGraph(State).add_node("a", lambda s: Command(goto=goto), destinations=["b", "c"])
    graph.add_node("b", log_words("b")).add_node("c", log_words("c")).add_edge(START, "a").add_edge("a", "b")
    assert driver.invoke(graph.compile(), {"x": 1})["log"] == log


def test_4_4_a_join_runs_once_when_all_nodes_have_arrived(driver: Any) -> None:
    graph = StateGraph(State)
    for name in ("a", "b1", "b2", "join", "last"):
        graph.add_node(name, log_words(name), defer=name == "last")
    graph.add_edge(START, "a").add_edge(START, "b1").add_edge("b1", "b2").add_edge(["a", "b2"], "join")
    graph.add_edge("a", "last")
    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["a", "b1", "b2", "join", "last"]


def test_4_5_a_subgraph_is_fresh_for_each_call_and_resumable_within_it(driver: Any) -> None:
    child = compile_node(lambda s: {"log": [interrupt("?")]})
    app = compile_node(child, InMemorySaver())
    for answer in ("first", "second"):
        driver.invoke(app, {"x": 1}, THREAD)
        log = driver.invoke(app, Command(resume=answer), THREAD)["log"]
    assert log == ["first", "second"]


def test_4_6_a_function_may_be_the_whole_workflow(driver: Any) -> None:
    @task
    def double(n: int) -> int:
        return n * 2

    @entrypoint(InMemorySaver())
    def flow(n: int, previous: int | None = None) -> Any:
        return entrypoint.final(value=(double(n).result(), previous), save=n)

    assert [driver.invoke(flow, n, THREAD) for n in (1, 2)] == [(2, None), (4, 1)]


# -- 5 parameters, retries, timeouts, errors, limits


def test_5_1_a_node_requests_values_by_parameter(driver: Any) -> None:
    store = InMemoryStore()

    def node(state: State, config: Any, runtime: Runtime[Any], writer: Any, store: Any) -> dict[str, Any]:
        writer("written")
        return {"log": [runtime.context, store is runtime.store, config["configurable"]["thread_id"]]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    app = graph.compile(InMemorySaver(), store=store)
    assert driver.invoke(app, {"x": 1}, THREAD, context="ctx")["log"] == ["ctx", True, "1"]


def test_5_2_a_step_is_done_once(driver: Any) -> None:
    done: list[int] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.step("effect", done.append, 1)
        return {"log": [interrupt("?")]}

    app = compile_node(node, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    driver.invoke(app, Command(resume=1), THREAD)
    assert done == [1]


def test_5_3_a_failed_attempt_is_followed_by_another(driver: Any) -> None:
    failures = iter([ConnectionError(), ConnectionError()])

    def node(state: State) -> dict[str, Any]:
        for failure in failures:
            raise failure
        return {"log": ["ok"]}

    clock = FakeClock(jumps=True)
    assert driver.invoke(compile_node(node, clock=clock, retry_policy=RetryPolicy(jitter=False)), {"x": 1})["log"] == [
        "ok"
    ]


def test_5_4_an_error_handler_replaces_the_result_of_its_node(driver: Any) -> None:
    def bad(state: State) -> None:
        raise KeyError("why")

    def handle(state: State, error: NodeError) -> dict[str, Any]:
        return {"log": [repr(error.error)]}

    assert driver.invoke(compile_node(bad, error_handler=handle), {"x": 1})["log"] == ["KeyError('why')"]


def test_5_5_a_failure_keeps_finished_results_and_names_its_node(driver: Any) -> None:
    def bad(state: State) -> dict[str, Any]:
        if state["x"] == 1:
            raise KeyError("why")
        return {"log": ["bad"]}

    graph = StateGraph(State).add_node("good", log_words("good")).add_node("bad", bad)
    app = graph.add_edge(START, "good").add_edge(START, "bad").compile(InMemorySaver())
    with pytest.raises(KeyError) as raised:
        driver.invoke(app, {"x": 1}, THREAD)
    assert raised.value.__notes__ == ["in node 'bad', step 1, attempt 1"]
    assert [task.name for task in app.get_state(THREAD).tasks if task.result] in (["good"], [])


def test_5_6_a_concurrency_limit_of_one_runs_tasks_one_at_a_time(driver: Any, within: Any) -> None:
    running: list[int] = []

    async def node(state: Any) -> dict[str, Any]:
        running.append(1)
        await asyncio.sleep(0.001)
        return {"log": [running.pop() and len(running)]}

    graph = StateGraph(State).add_node("node", node)
    graph.add_node("spread", lambda s: [Send("node", {}) for _ in range(5)], destinations=["node"])
    app = graph.add_edge(START, "spread").compile()
    assert within(lambda: driver.invoke(app, {"x": 1}, max_concurrency=1))["log"] == [0] * 5


def test_5_7_a_cached_node_is_called_once_for_one_input(driver: Any) -> None:
    calls: list[int] = []
    app = compile_node(lambda s: calls.append(1) or {"log": [1]}, cache=InMemoryCache(), cache_policy=CachePolicy())
    for _ in range(2):
        driver.invoke(app, {"x": 1})
    assert calls == [1]


# -- 6 pausing and resuming


def test_6_1_questions_timers_and_events_are_one_mechanism(driver: Any) -> None:
    def node(state: State) -> dict[str, Any]:
        sleep(1)
        return {"log": [wait_for_event("go"), interrupt("?")]}

    clock = FakeClock()
    app = compile_node(node, InMemorySaver(), clock=clock)
    kinds = [driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"][0].kind]
    clock.advance(1)
    kinds.append(app.resume_due(thread_id="1")["__interrupt__"][0].kind)
    kinds.append(app.send_event("go", "gone", thread_id="1")["__interrupt__"][0].kind)
    assert kinds == ["timer", "event", "question"]
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["gone", "yes"]


def test_6_2_answers_are_assigned_by_id_and_a_task_waits_for_all_its_answers(driver: Any) -> None:
    ran: list[str] = []

    def ask_name(name: str) -> Any:
        def node(state: State) -> dict[str, Any]:
            answer = interrupt(name)
            ran.append(name)
            return {"log": [answer]}

        return node

    graph = StateGraph(State).add_node("a", ask_name("a")).add_node("b", ask_name("b"))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile(InMemorySaver())
    first, second = driver.invoke(app, {"x": 1}, THREAD)["__interrupt__"]
    with pytest.raises(InvalidResume, match="ambiguous"):
        driver.invoke(app, Command(resume=1), THREAD)
    driver.invoke(app, Command(resume={second.id: 2}), THREAD)
    assert ran == ["b"]
    assert driver.invoke(app, Command(resume={first.id: None}), THREAD)["log"] == [None, 2]


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_6_3_a_run_may_stop_before_or_after_a_node(driver: Any, option: str) -> None:
    graph = StateGraph(State).add_sequence([("a", log_words("a")), ("b", log_words("b"))]).add_edge(START, "a")
    app = graph.compile(InMemorySaver())
    stopped = driver.invoke(app, {"x": 1}, THREAD, **{option: ["b" if option == "interrupt_before" else "a"]})
    assert stopped["log"] == ["a"]
    assert driver.invoke(app, None, THREAD)["log"] == ["a", "b"]


def test_6_4_a_thread_can_be_read_changed_and_forked(driver: Any) -> None:
    app = compile_node(log_words("n"), InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    app.update_state(THREAD, {"log": ["by hand"]}, as_node="node")
    before = list(app.get_state_history(THREAD))[-1]
    app.fork(before.config, branch="other")

    assert app.get_state(THREAD).values["log"] == ["n", "by hand"]
    assert driver.invoke(app, None, THREAD, branch="other")["log"] == ["n"]


def test_6_5_a_busy_thread_and_a_thread_with_open_questions_refuse_input(driver: Any) -> None:
    refused: list[str] = []

    def node(state: State) -> dict[str, Any]:
        def intrude() -> None:
            try:
                driver.invoke(app, {"x": 2}, THREAD)
            except ThreadBusy:
                refused.append("busy")

        if not refused:
            other = threading.Thread(target=intrude)
            other.start()
            other.join()
        return {"log": [interrupt("?")]}

    app: Any = compile_node(node, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    with pytest.raises(UnansweredInterrupts):
        driver.invoke(app, {"x": 3}, THREAD)
    assert refused == ["busy"]


# -- 7 saving


@pytest.mark.parametrize(("durability", "commits"), [("sync", 3), ("async", 3), ("exit", 2)])
def test_7_1_durability_determines_when_supersteps_are_saved(driver: Any, durability: str, commits: int) -> None:
    graph = StateGraph(State).add_sequence([("a", log_words("a")), ("b", log_words("b"))]).add_edge(START, "a")
    app = graph.compile(InMemorySaver())
    assert driver.invoke(app, {"x": 1}, THREAD, durability=durability)["log"] == ["a", "b"]
    assert len(list(app.get_state_history(THREAD))) == commits


def test_7_2_a_superstep_is_one_commit(driver: Any) -> None:
    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, log_words(name)).add_edge(START, name)
    app = graph.compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    assert [snapshot.metadata["source"] for snapshot in app.get_state_history(THREAD)] == ["loop", "input"]


def test_7_6_a_custom_saver_can_be_checked_for_conformance() -> None:
    class TestCustomSaver(CheckpointerConformance):
        def make_saver(self) -> Any:
            return InMemorySaver()

    tests = [name for name in dir(TestCustomSaver) if name.startswith("test_")]
    for name in tests:
        getattr(TestCustomSaver(), name)()
    assert len(tests) >= 15


def test_7_7_a_store_remembers_across_threads(driver: Any) -> None:
    def node(state: State, store: Any) -> dict[str, Any]:
        seen = len(store.search(("seen",)))
        store.put(("seen",), str(seen), {"n": seen})
        return {"log": [seen]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    app = graph.compile(InMemorySaver(), store=InMemoryStore())
    assert [driver.invoke(app, {"x": 1}, thread_id=str(n))["log"] for n in range(3)] == [[0], [1], [2]]


# -- 8 events and streaming


def test_8_1_only_durable_events_are_stored_and_numbered(driver: Any) -> None:
    app = compile_node(lambda s, writer: writer("live") or {"log": [1]}, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    assert [event.seq for event in app.get_events(THREAD)] == [1, 2, 3, 4]
    assert "custom" not in {event.kind for event in app.get_events(THREAD)}


def test_8_2_a_stream_may_have_several_modes(driver: Any) -> None:
    modes = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
    graph = MessagesStateGraph().add_node("talk", lambda s: Message("hi", role="assistant")).add_edge(START, "talk")
    parts = driver.stream(graph.compile(), "hello", stream_mode=modes)
    assert {mode for mode, _ in parts} == set(modes) - {"custom"}


def test_8_3_an_abandoned_stream_ends_its_run(driver: Any, within: Any) -> None:
    graph = StateGraph(State).add_node("node", lambda s: {"x": s["x"] + 1}).add_edge(START, "node")
    app = graph.add_edge("node", "node").compile()
    assert within(lambda: driver.take(app, {"x": 0}, 2)) == [{"node": {"x": 1}}, {"node": {"x": 2}}]


def test_8_4_message_chunks_are_streamed_from_subgraphs(driver: Any) -> None:
    def talk(state: Any, runtime: Runtime[Any]) -> Any:
        runtime.push_message(Message("pie", role="assistant", id="1"))
        return Message("pieces", role="assistant", id="1")

    child = MessagesStateGraph().add_node("talk", talk).add_edge(START, "talk").compile()
    app = MessagesStateGraph().add_node("child", child).add_edge(START, "child").compile()
    parts = driver.stream(app, "hello", stream_mode="messages", subgraphs=True)
    assert [message.content for _, (message, _) in parts] == ["pie"]
