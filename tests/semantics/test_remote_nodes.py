"""Nodes that run in other processes behave like nodes in the process of the run, or are refused with an error.

Every test runs on a pool of processes, and on Ray if it is installed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from math import nan
from pathlib import Path
from typing import Any

import pytest
from tests import remote_functions as nodes
from tests.ray_cluster import needs_ray, shared_executor
from tests.remote_functions import Numbers, Pickled, is_running, marks

from statewright import (
    END,
    START,
    Budget,
    CachePolicy,
    InMemoryCache,
    InMemorySaver,
    NodeError,
    RetryPolicy,
    RunControl,
    Send,
    StateGraph,
)
from statewright.errors import (
    BudgetExceeded,
    InvalidGraph,
    NodeTimeoutError,
    RemoteCallError,
    RunCancelled,
    WorkerDied,
)
from statewright.executors import Executor, ProcessExecutor
from statewright.testing import FakeClock

pytestmark = [pytest.mark.filterwarnings("ignore::Warning:ray"), pytest.mark.filterwarnings("ignore:.*SIGTERM.*")]
SECONDS = 60.0
"""How long to wait for a condition before a test fails."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2, max_resubmissions=2) as pool:
        yield pool


@pytest.fixture(params=["process", pytest.param("ray", marks=[needs_ray, pytest.mark.sampled])])
def executor(request: pytest.FixtureRequest, pool: ProcessExecutor) -> Executor:
    return pool if request.param == "process" else shared_executor()


@pytest.fixture(params=["invoke", "ainvoke"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a graph by either driver."""
    if request.param == "invoke":
        return lambda app, *args, **options: app.invoke(*args, **options)
    return lambda app, *args, **options: asyncio.run(app.ainvoke(*args, **options))


def fan_out(function: Any, executor: Executor | None, **options: Any) -> Any:
    """Return a graph that sends each item to a node, which runs on an executor unless that is None."""
    compile_options = {
        name: options.pop(name) for name in ("checkpointer", "cache", "budget", "clock") if name in options
    }
    graph = StateGraph(Numbers)
    graph.add_node("begin", lambda state: None)
    name = "square" if function is nodes.square else "work"
    graph.add_node(name, function, executor=None if executor is None else "pool", **options)
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send(name, item) for item in state["items"]], [name])
    return graph.compile(executors={"pool": executor} if executor is not None else None, **compile_options)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.01)


def items(folder: Path, number: int) -> list[tuple[str, int]]:
    return [(str(folder), index) for index in range(number)]


# -- results


@pytest.mark.parametrize("function", [nodes.square, nodes.square_async])
def test_a_fan_out_returns_what_it_returns_in_one_process(executor: Executor, invoke: Any, function: Any) -> None:
    numbers = {"items": list(range(500))}
    assert invoke(fan_out(function, executor), numbers) == invoke(fan_out(function, None), numbers)


def test_nodes_run_in_several_other_processes(executor: Executor) -> None:
    pids = fan_out(nodes.process_of, executor).invoke({"items": list(range(200))})["results"]
    assert os.getpid() not in pids


def test_a_lone_node_and_siblings_read_the_state(executor: Executor, invoke: Any) -> None:
    graph = StateGraph(Numbers).add_node("scale", nodes.scale, executor="pool")
    graph.add_node("count", nodes.count, executor="pool").add_node("scale_again", nodes.scale, executor="pool")
    graph.add_edge(START, "scale").add_edge("scale", "count").add_edge("scale", "scale_again")
    app = graph.compile(executors={"pool": executor})
    assert invoke(app, {"items": [1, 2], "factor": 3})["results"] == [3, 6, 2, 3, 6]


def test_a_map_calls_its_function_elsewhere_and_keeps_the_order(executor: Executor, invoke: Any) -> None:
    graph = StateGraph(Numbers).add_map("double", nodes.double, over="items", into="results", executor="pool")
    app = graph.add_edge(START, "double").compile(executors={"pool": executor})
    assert invoke(app, {"items": list(range(50))})["results"] == list(range(0, 100, 2))


def test_commands_and_sends_return_from_other_processes(executor: Executor, invoke: Any) -> None:
    graph = StateGraph(Numbers).add_node("go_on", nodes.go_on, executor="pool", destinations=["square"])
    graph.add_node("square", nodes.square, executor="pool").add_edge(START, "go_on")
    assert invoke(graph.compile(executors={"pool": executor}), {})["results"] == ["sent", 9, 16]


def test_conditional_edges_see_the_writes_of_a_remote_node(executor: Executor, invoke: Any) -> None:
    graph = StateGraph(Numbers).add_node("count", nodes.count, executor="pool").add_node("more", nodes.count)

    async def choose(state: Numbers) -> str:
        return "more" if len(state.get("results", ())) == 1 else END

    graph.add_edge(START, "count").add_conditional_edges("count", choose, ["more", END])
    assert invoke(graph.compile(executors={"pool": executor}), {"items": [1]})["results"] == [1, 1]


# -- the runtime


def test_the_runtime_of_a_remote_node_has_the_data_of_the_run(executor: Executor, invoke: Any) -> None:
    app = fan_out(nodes.ask_runtime, executor, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t", "tag": "blue"}, "recursion_limit": 10}
    result = invoke(app, {"items": [1], "factor": 5}, config, context={"user": "ann"})
    local = fan_out(nodes.ask_runtime, None, checkpointer=InMemorySaver())
    assert result["seen"] == invoke(local, {"items": [1], "factor": 5}, config, context={"user": "ann"})["seen"]
    assert result["seen"]["context"] == {"user": "ann"}
    assert result["seen"]["factor"] == 5


def test_streams_and_budgets_receive_what_remote_nodes_report(executor: Executor) -> None:
    app = fan_out(nodes.stream, executor)
    parts = list(app.stream({"items": [1, 2, 3]}, stream_mode="custom"))
    by_item = [[part for part in parts if part.endswith(str(item))] for item in (1, 2, 3)]
    assert by_item == [[f"begin {item}", f"end {item}"] for item in (1, 2, 3)]
    graph = StateGraph(Numbers).add_node("first", nodes.stream, executor="pool").add_node("second", nodes.count)
    graph.add_edge(START, "first").add_edge("first", "second")
    limited = graph.compile(executors={"pool": executor}, budget=Budget(max_tokens=5))
    with pytest.raises(BudgetExceeded):
        limited.invoke({"items": []})


@pytest.mark.parametrize("use", nodes.REFUSED)
def test_a_use_of_the_run_is_refused(executor: Executor, use: str) -> None:
    with pytest.raises(RemoteCallError, match=r"'work' runs in a worker process.* Not available there: "):
        fan_out(nodes.use_refused, executor).invoke({"items": [use]})


def test_logs_and_traces_of_a_worker_see_no_run(executor: Executor) -> None:
    assert fan_out(nodes.observe, executor).invoke({"items": [1]})["results"] == [({}, None)]


@pytest.mark.parametrize("function", [nodes.replace_tenant, nodes.replace_tenant_async])
def test_context_variables_do_not_pass_from_one_call_to_the_next(executor: Executor, function: Any) -> None:
    app = fan_out(function, executor)
    for _ in range(2):
        assert app.invoke({"items": list(range(20))})["results"] == ["nobody"] * 20


def test_shared_state_is_sent_once_in_a_superstep(executor: Executor, tmp_path: Path) -> None:
    app = fan_out(nodes.read_large, executor)
    result = app.invoke({"items": list(range(100)), "seen": {"large": Pickled(str(tmp_path))}})
    assert result["results"] == ["Pickled"] * 100
    assert marks(tmp_path, "pickled") == [os.getpid()]


def test_siblings_that_read_the_state_share_what_is_sent(executor: Executor, tmp_path: Path) -> None:
    graph = StateGraph(Numbers)
    for name in "abcd":
        graph.add_node(name, nodes.use_large, executor="pool").add_edge(START, name)
    app = graph.compile(executors={"pool": executor})
    assert app.invoke({"seen": {"large": Pickled(str(tmp_path))}})["results"] == ["Pickled"] * 4
    assert marks(tmp_path, "pickled") == [os.getpid()]


# -- errors


@pytest.mark.parametrize(
    ("item", "kind", "text"),
    [
        ("builtin", KeyError, "'missing'"),
        ("fragile", nodes.Fragile, "code 7 at here"),
        ("local", ValueError, "from a"),
        ("group", ExceptionGroup, "several"),
    ],
)
def test_errors_keep_their_type(executor: Executor, invoke: Any, item: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        invoke(fan_out(nodes.fail, executor), {"items": [1, item]})
    assert any("in node 'work'" in note for note in caught.value.__notes__)
    assert "remote_functions.py" in str(caught.value.__cause__)
    if item == "fragile":
        assert (caught.value.code, caught.value.place) == (7, "here")
    if item == "group":
        assert [type(error) for error in caught.value.exceptions] == [nodes.Fragile, ValueError]


def test_a_group_of_errors_can_be_retried(executor: Executor) -> None:
    app = fan_out(nodes.fail, executor, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.001))
    with pytest.raises(ExceptionGroup, match="several"):
        app.invoke({"items": [1, "group"]})


def test_a_node_that_exits_ends_the_run_and_not_the_worker(executor: Executor) -> None:
    with pytest.raises(SystemExit):
        fan_out(nodes.fail, executor).invoke({"items": [1, "exit"]})
    assert fan_out(nodes.fail, executor).invoke({"items": [1]})["results"] == [1]


def test_out_of_memory_is_an_error_of_one_item(executor: Executor) -> None:
    with pytest.raises((MemoryError, OverflowError)):
        fan_out(nodes.run_out_of_memory, executor).invoke({"items": [1, "large"]})


def test_error_handlers_and_retries_work_around_the_call(executor: Executor, invoke: Any, tmp_path: Path) -> None:
    def recover(item: Any, error: NodeError) -> Any:
        return {"results": [type(error.error).__name__]}

    handled = fan_out(nodes.fail, executor, error_handler=recover)
    assert sorted(map(str, invoke(handled, {"items": [1, "fragile"]})["results"])) == ["1", "Fragile"]
    retried = fan_out(nodes.fail_twice, executor, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    assert invoke(retried, {"items": items(tmp_path, 3)})["results"] == [3, 3, 3]


def test_a_function_that_cannot_be_sent_is_refused_at_once(pool: ProcessExecutor, invoke: Any) -> None:
    app = fan_out(lambda item: None, pool)
    with pytest.raises(RemoteCallError, match=r"Node 'work'.*cannot be sent to another process"):
        invoke(app, {"items": [1, 2]})


def test_inputs_and_results_that_cannot_be_sent_fail_alone(pool: ProcessExecutor, invoke: Any) -> None:
    def recover(item: Any, error: NodeError) -> Any:
        assert isinstance(error.error, RemoteCallError)
        return {"results": ["failed"]}

    inputs = fan_out(nodes.square, pool, error_handler=recover)
    assert invoke(inputs, {"items": [2, threading.Lock(), 3]})["results"] == [4, 9, "failed"]
    results = fan_out(nodes.return_unpicklable, pool, error_handler=recover)
    assert invoke(results, {"items": [2, "bad", 3]})["results"] == [2, 3, "failed"]


# -- policies


def expect_timeout(invoke: Any, app: Any, clock: FakeClock, folder: Path, state: Any) -> None:
    """Run a graph whose call blocks, and let its time pass once it has begun."""
    ended = threading.Event()

    def pass_time() -> None:
        wait_until(lambda: marks(folder, 0))
        while not ended.wait(0.05):  # again, since the timer may be set a moment after the call has begun
            clock.advance(60)

    passing = threading.Thread(target=pass_time)
    passing.start()
    try:
        with pytest.raises(NodeTimeoutError):
            invoke(app, state)
    finally:
        ended.set()
        passing.join()
    (pid,) = marks(folder, 0)
    wait_until(lambda: not is_running(pid))


def test_a_call_that_times_out_is_killed(executor: Executor, invoke: Any, tmp_path: Path) -> None:
    clock = FakeClock()
    app = fan_out(nodes.block, executor, timeout=50, clock=clock)
    expect_timeout(invoke, app, clock, tmp_path, {"items": items(tmp_path, 1)})


def test_the_timeout_of_a_send_holds_in_another_process(executor: Executor, invoke: Any, tmp_path: Path) -> None:
    graph = StateGraph(Numbers).add_node("begin", lambda state: None).add_node("work", nodes.block, executor="pool")
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send("work", (str(tmp_path), 0), timeout=50)], ["work"])
    clock = FakeClock()
    expect_timeout(invoke, graph.compile(executors={"pool": executor}, clock=clock), clock, tmp_path, {})


def test_the_time_in_a_queue_does_not_count_against_a_timeout(tmp_path: Path) -> None:
    clock, results = FakeClock(), list[Any]()
    with ProcessExecutor(1) as single:
        blocked = threading.Thread(target=fan_out(nodes.block, single).invoke, args=({"items": items(tmp_path, 1)},))
        blocked.start()
        wait_until(lambda: marks(tmp_path, 0))
        app = fan_out(nodes.square, single, timeout=50, clock=clock)
        waiting = threading.Thread(target=lambda: results.append(app.invoke({"items": [5]})["results"]))
        waiting.start()
        wait_until(lambda: single.queue_length == 1)
        clock.advance(60)
        (tmp_path / "go").touch()
        waiting.join(SECONDS)
        blocked.join(SECONDS)
    assert results == [[25]]


def test_cached_results_are_not_computed_again(executor: Executor, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    app = fan_out(nodes.block, executor, cache_policy=CachePolicy(), cache=InMemoryCache())
    for _ in range(2):
        assert app.invoke({"items": items(tmp_path, 3)})["results"] == [0, 1, 2]
    assert [len(marks(tmp_path, number)) for number in range(3)] == [1, 1, 1]


def test_a_limit_on_concurrency_holds_across_processes(executor: Executor, invoke: Any) -> None:
    numbers = {"items": list(range(20))}
    expected = [number * number for number in range(20)]
    assert invoke(fan_out(nodes.square, executor), numbers, max_concurrency=1)["results"] == expected
    assert invoke(fan_out(nodes.square, executor, max_concurrency=1), numbers)["results"] == expected


# -- the end of runs and workers


ROUTES = pytest.mark.parametrize("policies", [{}, {"retry_policy": RetryPolicy()}], ids=["in chunks", "by attempts"])


@ROUTES
def test_cancelling_a_run_kills_its_calls(executor: Executor, invoke: Any, tmp_path: Path, policies: Any) -> None:
    control = RunControl()
    app = fan_out(nodes.block, executor, **policies)
    canceller = threading.Thread(
        target=lambda: (wait_until(lambda: marks(tmp_path, 0)), control.request_cancel("enough"))
    )
    canceller.start()
    with pytest.raises(RunCancelled, match="enough"):
        invoke(app, {"items": items(tmp_path, 2)}, control=control)
    canceller.join()
    (pid,) = set(marks(tmp_path, 0))
    wait_until(lambda: not is_running(pid))


@ROUTES
def test_dropping_a_stream_kills_its_calls(executor: Executor, tmp_path: Path, policies: Any) -> None:
    app = fan_out(nodes.stream_and_block, executor, **policies)
    parts = app.stream({"items": items(tmp_path, 2)}, stream_mode="custom")
    assert next(parts) == "item 1"
    wait_until(lambda: marks(tmp_path, 0))
    parts.close()
    (pid,) = set(marks(tmp_path, 0))
    wait_until(lambda: not is_running(pid))


@ROUTES
@pytest.mark.parametrize("number", [1, 2])
def test_cancelling_the_coroutine_of_a_run_kills_its_calls(
    executor: Executor, tmp_path: Path, number: int, policies: Any
) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(
            fan_out(nodes.block, executor, **policies).ainvoke({"items": items(tmp_path, number)})
        )
        while not marks(tmp_path, 0):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancel(), SECONDS))
    (pid,) = set(marks(tmp_path, 0))
    wait_until(lambda: not is_running(pid))


@ROUTES
def test_a_call_in_progress_may_finish_when_a_sibling_fails(
    executor: Executor, invoke: Any, tmp_path: Path, policies: Any
) -> None:
    saver = InMemorySaver()
    app = fan_out(nodes.fail_when_told, executor, checkpointer=saver, **policies)

    def release() -> None:
        wait_until(lambda: has_failed(saver))
        (tmp_path / "go").touch()

    releaser = threading.Thread(target=release)
    releaser.start()
    with pytest.raises(ValueError, match="item 1"):
        invoke(app, {"items": items(tmp_path, 2)}, thread_id="t")
    releaser.join()
    head = saver.load("t")
    assert head is not None
    assert [result.task.arg[1] for result in head.pending.completed.values()] == [0]


def has_failed(saver: InMemorySaver) -> bool:
    head = saver.load("t")
    return head is not None and bool(head.pending.errors)


def test_results_are_saved_while_other_calls_run(executor: Executor, tmp_path: Path) -> None:
    saver = InMemorySaver()
    app = fan_out(nodes.block, executor, checkpointer=saver)
    thread = threading.Thread(target=app.invoke, args=({"items": items(tmp_path, 5)},), kwargs={"thread_id": "t"})
    thread.start()
    try:
        wait_until(lambda: (head := saver.load("t")) is not None and len(head.pending.completed) == 4)
    finally:
        (tmp_path / "go").touch()
        thread.join()


@ROUTES
def test_a_call_whose_worker_dies_is_executed_again(
    executor: Executor, invoke: Any, tmp_path: Path, policies: Any
) -> None:
    app = fan_out(nodes.die_once, executor, **policies)
    assert invoke(app, {"items": items(tmp_path, 30)})["results"] == list(range(30))
    assert len(marks(tmp_path, 3)) == 2


def test_a_call_that_always_kills_its_worker_fails_alone(executor: Executor, invoke: Any, tmp_path: Path) -> None:
    def recover(item: Any, error: NodeError) -> Any:
        assert isinstance(error.error, WorkerDied)
        assert error.error.losses == 3
        return {"results": ["died"]}

    app = fan_out(nodes.die_always, executor, error_handler=recover)
    expected = [number for number in range(30) if number != 3]
    assert invoke(app, {"items": items(tmp_path, 30)})["results"] == [*expected, "died"]


@ROUTES
def test_a_pool_that_is_closed_during_a_run_fails_its_calls(invoke: Any, tmp_path: Path, policies: Any) -> None:
    pool = ProcessExecutor(1)
    closer = threading.Thread(target=lambda: (wait_until(lambda: marks(tmp_path, 0)), pool.close()))
    closer.start()
    with pytest.raises(RemoteCallError, match="was closed"):
        invoke(fan_out(nodes.block, pool, **policies), {"items": items(tmp_path, 20)})
    closer.join()


# -- mistakes that are found when a graph is compiled


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "proces"}, "there is no executor 'proces'. Did you mean 'process'?"),
        ({"executor": "process", "inline": True}, "and inline=True"),
        ({"executor": "process", "timeout": {"idle_timeout": 1.0}}, "heartbeats of other processes do not arrive"),
        ({"executor": "process", "resources": {"gpu": 1}}, "a pool of processes has no resource 'gpu'"),
        ({"executor": "process", "resources": {"cpu": 1000}}, "it needs 1000 processors"),
        ({"executor": "process", "resources": {"cpu": -1}}, "the resource 'cpu' is -1"),
        ({"executor": "process", "resources": {"cpu": nan}}, "the resource 'cpu' is nan"),
        ({"executor": "process", "resources": {"cpu": "1"}}, "the resource 'cpu' is '1'"),
    ],
)
def test_options_that_cannot_work_together_are_reported(options: dict[str, Any], message: str) -> None:
    from statewright import TimeoutPolicy

    if "timeout" in options:
        options = {**options, "timeout": TimeoutPolicy(**options["timeout"])}
    graph = StateGraph(Numbers).add_node("n", nodes.count, **options).add_edge(START, "n")
    with pytest.raises(InvalidGraph) as caught:
        graph.compile()
    assert message in str(caught.value)


def test_graphs_and_nodes_with_a_store_cannot_run_elsewhere() -> None:
    inner = StateGraph(Numbers).add_node("n", nodes.count).add_edge(START, "n").compile()
    graph = StateGraph(Numbers).add_node("inner", inner, executor="process").add_edge(START, "inner")
    with pytest.raises(InvalidGraph, match="it is a graph"):
        graph.compile()

    def with_store(state: Numbers, store: Any = None) -> Any: ...

    graph = StateGraph(Numbers).add_node("n", with_store, executor="process").add_edge(START, "n")
    with pytest.raises(InvalidGraph, match="its parameter 'store' exists only in the process of the run"):
        graph.compile()
