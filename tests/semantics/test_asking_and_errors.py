"""Part I sections 5.1, 5.4, 5.5 and 5.6: parameters of nodes, error handlers, failures, and concurrency limits."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    InMemoryStore,
    NodeError,
    Runtime,
    Send,
    StateGraph,
    append,
)
from statewright.errors import GraphRecursionError, InvalidGraph, NodeCancelledError, StorageUnavailable
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


@dataclass
class Context:
    user: str
    tries: int = 1


def log_name(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def compile_node(node: Any, **options: Any) -> Any:
    return StateGraph(State, Context).add_node("a", node).add_edge(START, "a").compile(**options)


# -- 5.1 parameters of nodes


def test_a_node_requests_values_by_parameter_name(driver: Any) -> None:
    store = InMemoryStore()
    seen: dict[str, Any] = {}

    def node(state: Any, config: Any, runtime: Any, writer: Any, store: Any, previous: Any) -> None:
        seen.update(state=state, config=config, runtime=runtime, store=store, previous=previous)
        writer("hello")

    parts = driver.stream(compile_node(node, store=store), {"x": 1}, stream_mode="custom", context=Context("me"))

    assert parts == ["hello"]
    assert seen["state"] == {"x": 1, "log": []}
    assert seen["store"] is store is seen["runtime"].store
    assert seen["runtime"].context == Context("me")
    assert seen["previous"] is None


def test_a_node_requests_the_runtime_by_annotation_under_any_name(driver: Any) -> None:
    seen: list[Any] = []

    def node(state: State, rt: Runtime[Context]) -> None:
        seen.append(rt.context.user)

    driver.invoke(compile_node(node), {"x": 1}, context=Context("me"))

    assert seen == ["me"]


def test_a_coroutine_node_requests_values_in_the_same_way(driver: Any) -> None:
    seen: list[Any] = []

    async def node(state: State, *, runtime: Runtime[Context], config: Any) -> None:
        seen.append((runtime.context.user, config["configurable"]["thread_id"]))

    driver.invoke(compile_node(node, checkpointer=InMemorySaver()), {"x": 1}, context=Context("me"), thread_id="1")

    assert seen == [("me", "1")]


def test_a_node_may_have_no_parameters(driver: Any) -> None:
    assert driver.invoke(compile_node(lambda: {"log": ["none"]}), {"x": 1})["log"] == ["none"]


def test_an_unknown_parameter_may_have_a_default(driver: Any) -> None:
    def node(state: Any, factor: int = 3, *rest: Any, **more: Any) -> Any:
        return {"x": state["x"] * factor}

    assert driver.invoke(compile_node(node), {"x": 2})["x"] == 6


def test_a_context_given_as_a_mapping_becomes_an_instance_of_its_schema(driver: Any) -> None:
    seen: list[Any] = []
    app = compile_node(lambda state, runtime: seen.append(runtime.context))

    driver.invoke(app, {"x": 1}, context={"user": "me"})

    assert seen == [Context("me", 1)]


def test_an_unknown_parameter_is_a_problem_of_the_graph() -> None:
    with pytest.raises(InvalidGraph, match=r"'a'.*'runtme'.*Did you mean 'runtime'"):
        compile_node(lambda state, runtme: None)


def test_a_missing_required_store_is_a_problem_of_the_graph(driver: Any) -> None:
    with pytest.raises(InvalidGraph, match=r"'a'.*store"):
        compile_node(lambda state, store: None)
    assert driver.invoke(compile_node(lambda state, store=None: {"log": [store]}), {"x": 1})["log"] == [None]


def test_a_conditional_edge_requests_values_like_a_node(driver: Any) -> None:
    graph = StateGraph(State, Context).add_node("a", log_name("a")).add_node("b", log_name("b"))
    graph.add_conditional_edges("a", lambda s, runtime: runtime.context.user, {"go": "b", "end": END})
    app = graph.add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 1}, context=Context("go"))["log"] == ["a", "b"]
    assert driver.invoke(app, {"x": 1}, context=Context("end"))["log"] == ["a"]


def test_execution_info_identifies_the_execution(driver: Any) -> None:
    seen: list[Any] = []
    app = compile_node(lambda state, runtime: seen.append(runtime.execution_info), checkpointer=InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="t", run_id="r")
    first = list(app.get_state_history(thread_id="t"))[-1]

    (info,) = seen
    assert (info.thread_id, info.run_id, info.node, info.step, info.namespace, info.attempt) == (
        "t",
        "r",
        "a",
        1,
        "",
        1,
    )
    assert info.checkpoint_id == first.config["configurable"]["checkpoint_id"]
    assert info.task_id == first.tasks[0].id


def test_the_config_of_a_node_contains_the_config_of_the_caller(driver: Any) -> None:
    seen: list[Any] = []
    config = {"configurable": {"model": "m"}, "tags": ["t"], "recursion_limit": 5}

    driver.invoke(compile_node(lambda state, config: seen.append(config)), {"x": 1}, config)

    assert seen[0]["configurable"]["model"] == "m"
    assert (seen[0]["tags"], seen[0]["recursion_limit"]) == (["t"], 5)
    assert config == {"configurable": {"model": "m"}, "tags": ["t"], "recursion_limit": 5}


# -- 5.4 error handlers


def fail(state: Any) -> None:
    raise KeyError("broken")


def test_an_error_handler_gets_the_failed_input_and_the_error_and_runs_once(driver: Any, paint: Any) -> None:
    seen: list[Any] = []

    def handle(state: Any, error: NodeError) -> Any:
        seen.append((dict(state), error.node, type(error.error), dict(error.input)))
        return {"log": ["handled"]}

    graph = StateGraph(State).add_node("a", paint(fail), error_handler=handle).add_node("b", log_name("b"))
    app = graph.add_edge(START, "a").add_edge("a", "b").compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["handled", "b"]
    assert seen == [({"x": 1, "log": []}, "a", KeyError, {"x": 1, "log": []})]


def test_an_error_is_handled_although_siblings_ran(driver: Any, paint: Any) -> None:
    graph = StateGraph(State).add_node("a", paint(fail), error_handler=lambda s: {"log": ["handled"]})
    graph.add_node("b", paint(log_name("b"))).add_node("c", paint(log_name("c")))
    app = graph.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c").compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["b", "c", "handled"]


def test_an_error_handler_may_return_a_goto(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("b", log_name("b"))
        .add_node("c", log_name("c"))
        .add_node("a", fail, error_handler=lambda s: Command(goto="c"), destinations=["c"])
    )

    assert driver.invoke(graph.add_edge(START, "a").add_edge("a", "b").compile(), {"x": 1})["log"] == ["c"]


def test_an_error_handler_arrives_at_a_join_for_its_node(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", fail, error_handler=log_name("handled")).add_node("b", log_name("b"))
    graph.add_node("c", log_name("c")).add_edge(["a", "b"], "c").add_edge(START, "a").add_edge(START, "b")

    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["b", "handled", "c"]


def test_the_result_of_an_error_handler_is_saved(driver: Any) -> None:
    runs: list[str] = []

    def handle(state: Any) -> Any:
        runs.append("handle")
        return {"log": ["handled"]}

    def fragile(state: Any) -> Any:
        runs.append("fragile")
        if runs.count("fragile") == 1:
            raise ValueError("later")
        return {"log": ["fragile"]}

    graph = StateGraph(State).add_node("a", fail, error_handler=handle).add_node(fragile).add_edge("a", "fragile")
    app = graph.add_edge(START, "a").compile(InMemorySaver())

    with pytest.raises(ValueError, match="later"):
        driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, None, thread_id="1")["log"] == ["handled", "fragile"]
    assert runs.count("handle") == 1


def test_an_exception_of_an_error_handler_is_raised(driver: Any) -> None:
    def handle(state: Any) -> None:
        raise OSError("worse")

    app = StateGraph(State).add_node("a", fail, error_handler=handle).add_edge(START, "a").compile()

    with pytest.raises(OSError, match="worse"):
        driver.invoke(app, {"x": 1})


def test_the_error_handler_of_a_send_gets_its_argument(driver: Any) -> None:
    graph = StateGraph(State).add_node("s", lambda s: [Send("w", 1), Send("w", 2)], destinations=["w"])

    def work(n: int) -> Any:
        if n == 1:
            raise ValueError
        return {"log": [n]}

    graph.add_node("w", work, error_handler=lambda n: {"log": [f"failed {n}"]})

    assert driver.invoke(graph.add_edge(START, "s").compile(), {"x": 1})["log"] == [2, "failed 1"]


def test_updates_of_an_error_handler_are_streamed_under_its_nodes_name(driver: Any) -> None:
    app = StateGraph(State).add_node("a", fail, error_handler=log_name("handled")).add_edge(START, "a").compile()

    assert {"a": {"log": ["handled"]}} in driver.stream(app, {"x": 1}, stream_mode="updates")


# -- 5.5 failures


def test_the_nodes_own_exception_is_raised_with_a_note(driver: Any, paint: Any) -> None:
    graph = StateGraph(State).add_node("ok", paint(log_name("ok"))).add_node("bad", paint(fail)).add_edge("ok", "bad")

    with pytest.raises(KeyError, match="broken") as caught:
        driver.invoke(graph.add_edge(START, "ok").compile(), {"x": 1})
    assert caught.value.__notes__ == ["in node 'bad', step 2, attempt 1"]


def first_cause(error: BaseException) -> BaseException:
    return first_cause(error.__cause__) if error.__cause__ is not None else error


@pytest.mark.parametrize("sibling", [False, True])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", [InMemorySaver, SqliteSaver])
@pytest.mark.parametrize("error_type", [ConnectionResetError, StorageUnavailable])
def test_an_error_of_the_saver_does_not_hide_the_error_of_the_node(
    driver: Any, tmp_path: Any, paint: Any, error_type: type[Exception], kind: Any, durability: str, sibling: bool
) -> None:
    """The error of the saver is raised, because nothing was saved; the error of the node is its cause."""
    is_broken: list[bool] = []

    class Breaking(kind):  # type: ignore[misc]
        def commit(self, *args: Any, **options: Any) -> Any:
            if is_broken:
                raise error_type("gone")
            return super().commit(*args, **options)

        def save_results(self, *args: Any, **options: Any) -> Any:
            if is_broken:
                raise error_type("gone")
            return super().save_results(*args, **options)

    def bad(state: Any) -> None:
        is_broken.append(True)
        raise ValueError("the real one")

    graph = StateGraph(State).add_node("bad", paint(bad)).add_edge(START, "bad")
    if sibling:
        graph.add_node("ok", paint(log_name("ok"))).add_edge(START, "ok")
    with Breaking() if kind is InMemorySaver else Breaking(tmp_path / "t.db") as saver:
        with pytest.raises(error_type, match="gone") as caught:
            driver.invoke(graph.compile(saver), {"x": 1}, thread_id="1", durability=durability)
        assert repr(first_cause(caught.value)) == "ValueError('the real one')"


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_an_error_of_the_saver_does_not_hide_the_recursion_limit(driver: Any, durability: str) -> None:
    class Breaking(InMemorySaver):
        def save_results(self, *args: Any, **options: Any) -> Any:
            raise ConnectionResetError("network gone")

    graph = StateGraph(State).add_node("a", log_name("a")).add_edge(START, "a").add_edge("a", "a")
    with pytest.raises(ConnectionResetError) as caught:
        driver.invoke(graph.compile(Breaking()), {"x": 1}, thread_id="1", durability=durability, recursion_limit=2)
    assert isinstance(first_cause(caught.value), GraphRecursionError)


def test_finished_results_are_kept_and_only_the_failed_task_runs_again(driver: Any, within: Any) -> None:
    runs: list[str] = []
    finished = threading.Event()

    async def good(state: Any) -> Any:
        runs.append("good")
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(finished.set))
        return {"log": ["good"]}

    async def bad(state: Any) -> Any:
        runs.append("bad")
        if runs.count("bad") == 1:
            while not finished.is_set():
                await asyncio.sleep(0)
            raise ValueError
        return {"log": ["bad"]}

    graph = StateGraph(State).add_node(bad).add_node(good).add_edge(START, "good").add_edge(START, "bad")
    app = graph.compile(InMemorySaver())

    with pytest.raises(ValueError):  # noqa: PT011
        within(lambda: driver.invoke(app, {"x": 1}, thread_id="1"))
    (failed, finished) = app.get_state(thread_id="1").tasks
    assert (failed.name, failed.result, failed.error) == ("bad", None, "ValueError: ")
    assert (finished.name, finished.result, finished.error) == ("good", {"log": ["good"]}, None)
    assert driver.invoke(app, None, thread_id="1")["log"] == ["bad", "good"]
    assert runs == ["bad", "good", "bad"]


def test_a_failing_task_cancels_its_async_siblings(driver: Any, within: Any) -> None:
    cancelled = threading.Event()

    async def forever(state: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def bad(state: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("first")

    app = StateGraph(State).add_node(forever).add_node(bad).add_edge(START, "forever").add_edge(START, "bad").compile()

    with pytest.raises(ValueError, match="first"):
        within(lambda: driver.invoke(app, {"x": 1}))
    assert cancelled.wait(600)  # the sync driver does not wait for the private loop


def test_plain_siblings_of_a_failing_task_are_left_behind_and_their_late_writes_dropped(
    driver: Any, within: Any
) -> None:
    release, started, done = threading.Event(), threading.Event(), threading.Event()

    def slow(state: Any) -> Any:
        started.set()
        release.wait(600)
        done.set()
        return {"log": ["late"]}

    def bad(state: Any) -> None:
        started.wait(600)
        raise ValueError("first")

    app = (
        StateGraph(State)
        .add_node(slow)
        .add_node(bad)
        .add_edge(START, "slow")
        .add_edge(START, "bad")
        .compile(InMemorySaver(), sibling_grace=0)
    )

    with pytest.raises(ValueError, match="first"):
        within(lambda: driver.invoke(app, {"x": 1}, thread_id="1"))
    assert not done.is_set()
    before = app.get_state(thread_id="1")
    release.set()
    assert done.wait(600)
    assert app.get_state(thread_id="1") == before
    assert [task.result for task in before.tasks] == [None, None]


def test_the_first_of_several_failures_is_raised(driver: Any) -> None:
    gate = threading.Event()

    def late(state: Any) -> None:
        gate.wait(600)
        raise ValueError("late")

    def early(state: Any) -> None:
        raise ValueError("early")

    app = StateGraph(State).add_node(late).add_node(early).add_edge(START, "late").add_edge(START, "early").compile()

    with pytest.raises(ValueError, match="early"):
        driver.invoke(app, {"x": 1})
    gate.set()


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_cancelled_error_raised_by_a_node_names_the_node(driver: Any, paint: Any, is_alone: bool) -> None:
    def cancel(state: Any) -> None:
        raise asyncio.CancelledError

    graph = StateGraph(State).add_node("a", paint(cancel)).add_edge(START, "a")
    if not is_alone:
        graph.add_node("b", paint(log_name("b"))).add_edge(START, "b")

    with pytest.raises(NodeCancelledError, match="'a'"):
        driver.invoke(graph.compile(), {"x": 1})


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_node_that_raises_stop_iteration_fails_the_run(driver: Any, paint: Any, is_alone: bool) -> None:
    def stop(state: Any) -> None:
        raise StopIteration("mine")

    graph = StateGraph(State).add_node("a", paint(stop)).add_edge(START, "a")
    if not is_alone:
        graph.add_node("b", paint(log_name("b"))).add_edge(START, "b")

    with pytest.raises((StopIteration, RuntimeError), match=r"StopIteration|mine"):
        driver.invoke(graph.compile(), {"x": 1})


@pytest.mark.parametrize("signal", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("is_alone", [True, False])
def test_system_exit_and_keyboard_interrupt_are_raised_to_the_caller(
    driver: Any, paint: Any, within: Any, signal: type[BaseException], is_alone: bool
) -> None:
    def leave(state: Any) -> None:
        raise signal("now")

    graph = StateGraph(State).add_node("a", paint(leave)).add_edge(START, "a")
    if not is_alone:
        graph.add_node("b", paint(log_name("b"))).add_edge(START, "b")
    app = graph.compile()

    with pytest.raises(signal, match="now"):
        within(lambda: driver.invoke(app, {"x": 1}))


def test_a_node_may_fail_with_an_exception_group(driver: Any) -> None:
    def many(state: Any) -> None:
        raise ExceptionGroup("two", [ValueError("1"), KeyError("2")])

    with pytest.raises(ExceptionGroup, match="two") as caught:
        driver.invoke(compile_node(many), {"x": 1})
    assert len(caught.value.exceptions) == 2


def test_an_error_in_a_conditional_edge_fails_its_node(driver: Any, paint: Any) -> None:
    def path(state: Any) -> str:
        raise KeyError("path")

    graph = StateGraph(State).add_node("a", paint(log_name("a"))).add_conditional_edges("a", path, [END])

    with pytest.raises(KeyError, match="path") as caught:
        driver.invoke(graph.add_edge(START, "a").compile(), {"x": 1})
    assert "'a'" in caught.value.__notes__[0]


# -- 5.6 limits


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_is_respected(driver: Any, paint: Any, within: Any, limit: int) -> None:
    lock = threading.Lock()
    reached = threading.Event()
    in_flight: list[int] = [0]
    peak: list[int] = [0]

    def enter() -> None:
        with lock:
            in_flight[0] += 1
            peak[0] = max(peak[0], in_flight[0])
            if peak[0] >= limit:
                reached.set()

    def leave() -> None:
        with lock:
            in_flight[0] -= 1

    def plain(state: Any) -> Any:
        enter()
        reached.wait()  # until as many as allowed are running
        threading.Event().wait(0.001)  # so that an excess task would be noticed
        leave()
        return {"log": [1]}

    async def coroutine(state: Any) -> Any:
        enter()
        while not reached.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        leave()
        return {"log": [1]}

    graph = StateGraph(State)
    for number in range(8):
        painted = paint(plain)
        graph.add_node(str(number), plain if painted is plain else coroutine).add_edge(START, str(number))

    assert within(lambda: driver.invoke(graph.compile(), {"x": 1}, max_concurrency=limit))["log"] == [1] * 8
    assert peak[0] == limit


def test_max_concurrency_includes_tasks_of_subgraphs(driver: Any, within: Any) -> None:
    in_flight = peak = 0

    async def work(state: Any) -> None:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await asyncio.sleep(0)
        in_flight -= 1

    child = StateGraph(State)
    for number in range(5):
        child.add_node(str(number), work).add_edge(START, str(number))
    app = StateGraph(State).add_node("child", child.compile()).add_edge(START, "child").compile()

    within(lambda: driver.invoke(app, {"x": 1}, max_concurrency=2))

    assert peak <= 2


def test_a_task_that_waits_for_its_children_releases_its_slot(driver: Any, paint: Any, within: Any) -> None:
    leaf = (
        StateGraph(State).add_node("a", paint(log_name("a"))).add_node("b", paint(log_name("b"))).add_edge(START, "a")
    )
    leaf.add_edge(START, "b")
    mid = StateGraph(State).add_node("leaf", leaf.compile()).add_node("other", paint(log_name("other")))
    mid.add_edge(START, "leaf").add_edge(START, "other")
    app = StateGraph(State).add_node("mid", mid.compile()).add_node("c", paint(log_name("c")))
    app.add_edge(START, "mid").add_edge(START, "c")

    result = within(lambda: driver.invoke(app.compile(), {"x": 1}, max_concurrency=1))

    assert result["log"] == ["a", "b", "other", "c"]


def test_tasks_without_a_slot_are_not_started(driver: Any, within: Any) -> None:
    started: list[int] = []
    gate = threading.Event()

    def work(n: int) -> None:
        started.append(n)
        if n == 1:
            gate.set()
        assert gate.wait(600)

    graph = StateGraph(State).add_node("s", lambda s: [Send("w", n) for n in range(50)], destinations=["w"])
    app = graph.add_node("w", work).add_edge(START, "s").compile()

    within(lambda: driver.invoke(app, {"x": 1}, max_concurrency=2))

    assert sorted(started[:2]) == [0, 1]
    assert sorted(started) == list(range(50))
