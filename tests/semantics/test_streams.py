"""Part I section 8: the parts of each stream mode, live parts, and abandoned streams."""

import asyncio
import gc
import threading
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Send, StateGraph, append, interrupt
from statewright.errors import InvalidConfig, ThreadBusy
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def say(name: str, **update: Any) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name], **update}

    node.__name__ = name
    return node


def chain(*names: str, paint: Any = lambda node: node) -> StateGraph:
    graph = StateGraph(State)
    return graph.add_sequence([(name, paint(say(name))) for name in names]).add_edge(START, names[0])


# -- parts


def test_values_streams_the_state_after_the_input_and_each_superstep(driver: Any, paint: Any) -> None:
    parts = driver.stream(chain("a", "b", paint=paint).compile(), {"x": 1}, stream_mode="values")

    assert parts == [{"x": 1, "log": []}, {"x": 1, "log": ["a"]}, {"x": 1, "log": ["a", "b"]}]


def test_values_streams_only_fields_of_the_output_schema(driver: Any) -> None:
    class Out(TypedDict):
        x: int

    graph = StateGraph(State, output_schema=Out).add_node("a", say("a", x=2)).add_edge(START, "a")

    assert driver.stream(graph.compile(), {"x": 1}, stream_mode="values") == [{"x": 1}, {"x": 2}]


def test_updates_streams_a_part_for_each_finished_task(driver: Any, paint: Any) -> None:
    graph = StateGraph(State).add_node("s", paint(lambda s: [Send("w", 1), Send("w", 2)]), destinations=["w"])
    graph.add_node("w", paint(lambda n: {"log": [n]})).add_node("n", paint(lambda s: None)).add_edge("s", "n")
    graph.add_conditional_edges("s", lambda s: "n", ["n"]).add_edge(START, "s").add_edge(START, "n")

    parts = driver.stream(graph.compile(), {"x": 1})

    assert sorted(parts[:2], key=str) == [{"n": None}, {"s": None}]
    assert sorted(parts[2:], key=str) == [{"w": {"log": [1]}}, {"w": {"log": [2]}}]


def test_updates_of_a_list_result_are_a_list(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: [Command(update={"log": ["1"]}), {"x": 2}]).add_edge(START, "a")

    assert driver.stream(graph.compile(), {"x": 1}) == [{"a": [{"log": ["1"]}, {"x": 2}]}]


def test_custom_streams_what_nodes_write(driver: Any) -> None:
    def plain(state: Any, writer: Any) -> None:
        writer("plain")

    async def coroutine(state: Any, runtime: Any) -> None:
        runtime.stream_writer({"from": "coroutine"})
        await asyncio.sleep(0)
        runtime.stream_writer(2)

    graph = StateGraph(State).add_sequence([plain, coroutine]).add_edge(START, "plain")

    assert driver.stream(graph.compile(), {"x": 1}, stream_mode="custom") == ["plain", {"from": "coroutine"}, 2]
    assert driver.invoke(graph.compile(), {"x": 1}) == {"x": 1, "log": []}


@pytest.mark.parametrize("with_sibling", [False, True])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_custom_parts_reach_the_reader_while_their_node_runs(
    driver: Any, within: Any, kind: str, with_sibling: bool
) -> None:
    read = threading.Event()

    def plain(state: Any, writer: Any) -> Any:
        writer("early")
        return {"log": [read.wait(600)]}

    async def coroutine(state: Any, writer: Any) -> Any:
        writer("early")
        for _ in range(5000):
            if read.is_set():
                break
            await asyncio.sleep(0.001)
        return {"log": [read.is_set()]}

    graph = StateGraph(State).add_node("n", plain if kind == "plain" else coroutine).add_edge(START, "n")
    if with_sibling:
        graph.add_node("m", say("m")).add_edge(START, "m")
    app = graph.compile()
    modes = ["custom", "values"]

    def read_sync() -> Any:
        last = None
        for mode, part in app.stream({"x": 1}, stream_mode=modes):
            if mode == "custom":
                read.set()
            last = part
        return last

    async def read_async() -> Any:
        last = None
        async for mode, part in app.astream({"x": 1}, stream_mode=modes):
            if mode == "custom":
                read.set()
            last = part
        return last

    last = within(read_sync if driver.name == "sync" else lambda: asyncio.run(read_async()))
    assert True in last["log"]


def test_custom_streaming_works_with_max_concurrency_one(driver: Any, within: Any) -> None:
    def node(state: Any, writer: Any) -> Any:
        for number in range(3):
            writer(number)

    app = StateGraph(State).add_node("a", node).add_node("b", node).add_edge(START, "a").add_edge(START, "b").compile()

    parts = within(lambda: driver.stream(app, {"x": 1}, stream_mode="custom", max_concurrency=1))
    assert parts == [0, 1, 2, 0, 1, 2]


def test_tasks_streams_the_start_and_the_end_of_each_task(driver: Any) -> None:
    app = chain("a").compile(InMemorySaver())
    started, ended = driver.stream(app, {"x": 1}, stream_mode="tasks", thread_id="1")

    assert started == {"id": started["id"], "name": "a", "input": {"x": 1, "log": []}}
    assert ended == {"id": started["id"], "name": "a", "error": None, "interrupts": [], "result": {"log": ["a"]}}
    (first,) = list(app.get_state_history(thread_id="1"))[-1].tasks
    assert first.id == started["id"]


@pytest.mark.filterwarnings("ignore::statewright.errors.NoCheckpointerWarning")
def test_tasks_streams_errors_and_questions(driver: Any) -> None:
    def fail(state: Any) -> None:
        raise ValueError("why")

    def ask(state: Any) -> None:
        interrupt("?")

    asking = StateGraph(State).add_node(ask).add_edge(START, "ask").compile()
    failing = StateGraph(State).add_node(fail).add_edge(START, "fail").compile()

    assert [
        question["value"] for question in driver.stream(asking, {"x": 1}, stream_mode="tasks")[1]["interrupts"]
    ] == ["?"]
    with pytest.raises(ValueError, match="why"):
        driver.stream(failing, {"x": 1}, stream_mode="tasks")
    iterator = failing.stream({"x": 1}, stream_mode="tasks")
    assert next(iterator)["name"] == "fail"
    assert next(iterator)["error"] == "ValueError: why"
    with pytest.raises(ValueError, match="why"):
        next(iterator)


def test_checkpoints_streams_a_part_for_each_commit(driver: Any) -> None:
    parts = driver.stream(chain("a", "b").compile(InMemorySaver()), {"x": 1}, stream_mode="checkpoints", thread_id="1")

    assert [part["next"] for part in parts] == [["a"], ["b"], []]
    assert [part["step"] for part in parts] == [0, 1, 2]
    assert [part["values"]["log"] for part in parts] == [[], ["a"], ["a", "b"]]
    assert len({part["checkpoint_id"] for part in parts}) == 3


def test_debug_streams_tasks_and_checkpoints_with_their_superstep(driver: Any) -> None:
    parts = driver.stream(chain("a", "b").compile(), {"x": 1}, stream_mode="debug")

    assert [(part["type"], part["step"]) for part in parts] == [
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
        ("task", 2),
        ("task_result", 2),
        ("checkpoint", 2),
    ]


def test_several_modes_stream_pairs(driver: Any) -> None:
    app = chain("a").compile()

    assert driver.stream(app, {"x": 1}, stream_mode=["updates", "values"]) == [
        ("values", {"x": 1, "log": []}),
        ("updates", {"a": {"log": ["a"]}}),
        ("values", {"x": 1, "log": ["a"]}),
    ]
    assert driver.stream(app, {"x": 1}, stream_mode=["updates"]) == [("updates", {"a": {"log": ["a"]}})]


def test_values_of_a_superstep_follow_all_its_updates(driver: Any, paint: Any) -> None:
    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, paint(say(name))).add_edge(START, name)

    modes = [mode for mode, _ in driver.stream(graph.compile(), {"x": 1}, stream_mode=["values", "updates"])]
    assert modes == ["values", "updates", "updates", "updates", "values"]


def nested() -> Any:
    leaf = chain("deep").compile()
    mid = chain("inner").add_node("leaf", leaf).add_edge("inner", "leaf").compile()
    return chain("outer").add_node("mid", mid).add_edge("outer", "mid")


def test_without_subgraphs_only_parts_of_the_run_itself_are_streamed(driver: Any) -> None:
    assert [list(part) for part in driver.stream(nested().compile(), {"x": 1})] == [["outer"], ["mid"]]


def test_subgraphs_adds_the_namespace(driver: Any) -> None:
    app = nested().compile(InMemorySaver())
    parts = driver.stream(app, {"x": 1}, subgraphs=True, thread_id="1")

    assert [list(part) for _, part in parts] == [["outer"], ["inner"], ["deep"], ["leaf"], ["mid"]]
    assert [len(namespace) for namespace, _ in parts] == [0, 1, 2, 1, 0]
    (path, _), (deep, _) = parts[1], parts[2]
    assert path[0].startswith("mid:")
    assert deep[0] == path[0]
    assert deep[1].startswith("leaf:")
    task = list(app.get_state_history(thread_id="1"))[1].tasks[0]
    assert path[0] == f"mid:{task.id}"


def test_subgraphs_with_several_modes_streams_triples(driver: Any) -> None:
    parts = driver.stream(nested().compile(), {"x": 1}, subgraphs=True, stream_mode=["updates", "custom"])

    assert all(len(part) == 3 and part[1] == "updates" for part in parts)


def test_subgraphs_includes_custom_parts_of_subgraphs(driver: Any) -> None:
    child = StateGraph(State).add_node("c", lambda s, writer: writer("below")).add_edge(START, "c").compile()
    app = StateGraph(State).add_node("k", child).add_edge(START, "k").compile()

    assert [part for _, part in driver.stream(app, {"x": 1}, subgraphs=True, stream_mode="custom")] == ["below"]


def test_version_2_streams_typed_parts(driver: Any) -> None:
    app = chain("a").compile()

    assert driver.stream(app, {"x": 1}, version="v2") == [{"type": "updates", "ns": (), "data": {"a": {"log": ["a"]}}}]
    parts = driver.stream(nested().compile(), {"x": 1}, version="v2", subgraphs=True, stream_mode=["updates", "values"])
    assert {part["type"] for part in parts} == {"updates", "values"}
    assert {len(part["ns"]) for part in parts} == {0, 1, 2}


def test_an_unknown_mode_or_version_is_an_error(driver: Any) -> None:
    app = chain("a").compile()

    with pytest.raises(InvalidConfig, match="Did you mean 'updates'"):
        driver.stream(app, {"x": 1}, stream_mode="update")
    with pytest.raises(InvalidConfig, match="stream_mode"):
        driver.stream(app, {"x": 1}, stream_mode=[])
    with pytest.raises(InvalidConfig, match="version"):
        driver.stream(app, {"x": 1}, version="v9")


def test_a_stream_raises_the_exception_of_the_run(driver: Any) -> None:
    def fail(state: Any) -> None:
        raise KeyError("end")

    app = chain("a").add_node(fail).add_edge("a", "fail").compile()

    with pytest.raises(KeyError, match="end"):
        driver.stream(app, {"x": 1})


def test_the_resumption_of_a_run_can_be_streamed(driver: Any) -> None:
    graph = chain("a").add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge("a", "ask")
    app = graph.compile(InMemorySaver())
    driver.stream(app, {"x": 1}, thread_id="1")

    assert driver.stream(app, Command(resume="yes"), thread_id="1") == [{"ask": {"log": ["yes"]}}]


# -- abandoned streams


def test_a_stream_runs_nothing_before_it_is_read() -> None:
    ran: list[int] = []
    app = StateGraph(State).add_node("a", lambda s: ran.append(1)).add_edge(START, "a").compile()
    parts = app.stream({"x": 1})

    assert ran == []
    assert next(parts) == {"a": None}
    assert ran == [1]
    parts.close()


def test_abandoning_a_stream_stops_its_run_and_the_thread_can_continue(driver: Any, within: Any) -> None:
    app = chain("a", "b", "c").compile(InMemorySaver())

    within(lambda: driver.take(app, {"x": 1}, 1, stream_mode="values", thread_id="1"))

    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback"])
@pytest.mark.parametrize("ending", ["break", "dropped", "dropped in a cycle"])
def test_the_next_run_waits_for_the_end_of_a_dropped_stream(
    within: Any, tmp_path: Any, ending: str, on_busy: str
) -> None:
    """This holds for each value of on_busy: the event loop closes a dropped stream some time later."""

    async def forever(state: Any) -> Any:
        if state["x"] == 1:
            await asyncio.Event().wait()
        return {"log": ["b"]}

    async def main(app: Any) -> Any:
        parts = app.astream({"x": 1}, stream_mode="values", durability="sync", thread_id="1")
        if ending == "break":
            async for _ in parts:
                break
        else:
            await anext(parts)
        cycle: list[Any] = [parts] if ending == "dropped in a cycle" else []
        cycle.append(cycle)
        del parts, cycle
        gc.collect()
        return await app.ainvoke({"x": 2}, thread_id="1", on_busy=on_busy)

    for saver in (InMemorySaver(), SqliteSaver(tmp_path / "t.db")):
        with saver:
            app = chain("a").add_node("b", forever).add_edge("a", "b").compile(saver)
            assert within(lambda: asyncio.run(main(app)))["log"][-2:] == ["a", "b"]  # noqa: B023  # called in this iteration
            assert saver.lease("1") is None


def test_the_next_run_waits_only_for_a_dropped_stream_and_not_for_other_runs(within: Any) -> None:
    begun, free = threading.Event(), threading.Event()

    async def node(state: Any) -> Any:
        if state["x"] == 2:
            begun.set()
            assert await asyncio.to_thread(free.wait, 600)
        return {"log": [state["x"]]}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(InMemorySaver())

    async def main() -> Any:
        parts = app.astream({"x": 1}, stream_mode="values", thread_id="1")
        await anext(parts)
        del parts
        other = asyncio.ensure_future(app.ainvoke({"x": 2}, thread_id="1", on_busy="interrupt"))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        with pytest.raises(ThreadBusy):
            await app.ainvoke({"x": 3}, thread_id="1")
        free.set()
        return await other

    assert within(lambda: asyncio.run(main()))["log"][-1] == 2


def test_abandoning_a_stream_cancels_running_coroutines(driver: Any, within: Any) -> None:
    cancelled = threading.Event()

    async def forever(state: Any, writer: Any) -> None:
        writer("on")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    graph = StateGraph(State).add_node("a", forever).add_node("b", forever).add_edge(START, "a").add_edge(START, "b")

    assert within(lambda: driver.take(graph.compile(), {"x": 1}, 1, stream_mode="custom")) == ["on"]
    assert cancelled.wait(600)


@pytest.mark.parametrize("with_sibling", [False, True])
def test_abandoning_a_stream_does_not_wait_for_plain_nodes(driver: Any, within: Any, with_sibling: bool) -> None:
    release, done = threading.Event(), threading.Event()

    def slow(state: Any, writer: Any) -> Any:
        writer("on")
        release.wait(600)
        done.set()
        return {"log": ["late"]}

    graph = StateGraph(State).add_node("slow", slow).add_edge(START, "slow")
    if with_sibling:
        graph.add_node("n", lambda s: None).add_edge(START, "n")
    app = graph.compile(InMemorySaver())

    within(lambda: driver.take(app, {"x": 1}, 1, stream_mode="custom", thread_id="1"))
    assert not done.is_set()
    release.set()
    assert done.wait(600)
    assert app.get_state(thread_id="1").values["log"] == []


def test_dropping_a_stream_does_not_hang(within: Any) -> None:
    release = threading.Event()

    def slow(state: Any, writer: Any) -> None:
        writer("on")
        release.wait(600)

    app = StateGraph(State).add_node("a", slow).add_node("b", slow).add_edge(START, "a").add_edge(START, "b").compile()

    def forget() -> None:
        parts = app.stream({"x": 1}, stream_mode="custom")
        next(parts)
        del parts
        gc.collect()

    within(forget)
    release.set()


def test_cancelling_the_reader_cancels_the_run(within: Any) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def forever(state: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    app = StateGraph(State).add_node(forever).add_edge(START, "forever").compile()

    async def main() -> None:
        async def read() -> None:
            async for _ in app.astream({"x": 1}):
                pass

        reading = asyncio.ensure_future(read())
        while not started.is_set():
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    within(lambda: asyncio.run(main()))
    assert cancelled.is_set()


def test_an_async_run_waits_for_a_slow_reader(within: Any) -> None:
    ran: list[int] = []

    async def node(state: Any) -> Any:
        ran.append(1)
        return {"x": state["x"] + 1}

    graph = StateGraph(State).add_node("a", node).add_conditional_edges("a", lambda s: "a" if s["x"] < 5000 else END)
    app = graph.add_edge(START, "a").compile()

    async def main() -> int:
        parts = app.astream({"x": 0}, recursion_limit=10_000)
        await anext(parts)
        for _ in range(20):
            await asyncio.sleep(0)
        count = len(ran)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(ran) == count < 5000, "the run waits for its reader"
        rest = [part async for part in parts]
        return len(rest)

    assert within(lambda: asyncio.run(main())) == 4999
