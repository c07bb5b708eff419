"""Part I section 5.5: a signal handler can end a run, whatever the main thread waits for."""

import asyncio
import operator
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    TimeoutPolicy,
    entrypoint,
    task,
)
from statewright.errors import RunCancelled
from statewright.futures import SIGNAL_POLL_SECONDS

LONG = 600
"""Seconds after which a test that hangs fails."""


class State(TypedDict, total=False):
    log: Annotated[list[int], operator.add]


class Handler:
    """Cancels runs in a signal handler; `send` delivers the signal to a thread that does not wait for the run."""

    def __init__(self) -> None:
        self.control = RunControl()
        self.over = threading.Event()

    def cancel(self, number: int, frame: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.control.request_cancel("signal")

    def send(self) -> None:
        """Send the signal when the main thread probably sleeps."""

        def send() -> None:
            self.over.wait(SIGNAL_POLL_SECONDS / 5)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

        threading.Thread(target=send, daemon=True).start()

    def sleep(self, state: object = None) -> None:
        self.send()
        self.over.wait(LONG)

    async def sleep_async(self, state: object = None) -> None:
        self.send()
        await asyncio.sleep(LONG)

    def build(self, **nodes: Any) -> Any:
        graph = StateGraph(State)
        for name, node in nodes.items():
            graph.add_node(name, node)
            graph.add_edge(START, name)
        return graph.compile(checkpointer=InMemorySaver())


@pytest.fixture
def handler() -> Iterator[Handler]:
    handler = Handler()
    before = signal.signal(signal.SIGUSR1, handler.cancel)
    yield handler
    signal.signal(signal.SIGUSR1, before)
    handler.over.set()


def invoke(handler: Handler, app: Any) -> None:
    app.invoke({}, {"configurable": {"thread_id": "1"}}, control=handler.control)


def plain_nodes(handler: Handler) -> None:
    invoke(handler, handler.build(a=handler.sleep, b=handler.sleep))


def one_coroutine(handler: Handler) -> None:
    invoke(handler, handler.build(a=handler.sleep_async))


def coroutines(handler: Handler) -> None:
    invoke(handler, handler.build(a=handler.sleep_async, b=handler.sleep_async))


def node_with_a_timeout(handler: Handler) -> None:
    graph = StateGraph(State)
    graph.add_node("a", handler.sleep, timeout=TimeoutPolicy(run_timeout=LONG))
    graph.add_edge(START, "a")
    invoke(handler, graph.compile(checkpointer=InMemorySaver()))


def retry_delay(handler: Handler) -> None:
    def fail(state: State) -> None:
        handler.send()
        raise ConnectionError("not now")

    graph = StateGraph(State)
    graph.add_node("a", fail, retry_policy=RetryPolicy(initial_interval=LONG, max_interval=LONG))
    graph.add_edge(START, "a")
    invoke(handler, graph.compile(checkpointer=InMemorySaver()))


def subgraph(handler: Handler) -> None:
    inner = handler.build(a=handler.sleep, b=handler.sleep)
    invoke(handler, handler.build(inner=lambda state: inner.invoke({}), other=lambda state: None))


def stream(handler: Handler) -> None:
    app = handler.build(a=handler.sleep, b=handler.sleep)
    list(app.stream({}, {"configurable": {"thread_id": "1"}}, stream_mode="custom", control=handler.control))


def busy_thread(handler: Handler) -> None:
    config: Any = {"configurable": {"thread_id": "1"}}
    other = RunControl()
    begun = threading.Event()
    graph = StateGraph(State)
    graph.add_node("a", lambda state: begun.set() or (handler.over.wait(LONG) and None))
    graph.add_edge(START, "a")
    app = graph.compile(checkpointer=InMemorySaver())
    holder = threading.Thread(target=lambda: app.invoke({}, config, control=other), daemon=True)
    holder.start()
    assert begun.wait(LONG)
    handler.send()
    try:
        app.invoke({}, config, control=handler.control, on_busy="enqueue")
    finally:
        handler.over.set()
        holder.join(LONG)


def called_task(handler: Handler) -> None:
    begun = threading.Event()

    @task
    def sleep_in_task() -> None:
        begun.set()
        handler.sleep()

    @entrypoint()
    def flow(value: Any) -> None:
        future = sleep_in_task()
        assert begun.wait(LONG)  # otherwise `result` does the work itself
        future.result()

    flow.invoke({}, control=handler.control)


def concurrency_limit(handler: Handler) -> None:
    app = handler.build(a=handler.sleep, b=handler.sleep, c=handler.sleep)
    app.invoke({}, {"configurable": {"thread_id": "1"}, "max_concurrency": 1}, control=handler.control)


def batch(handler: Handler) -> None:
    app = handler.build(a=handler.sleep, b=handler.sleep)
    app.batch([{}, {}], [{"configurable": {"thread_id": name}} for name in "ab"], control=handler.control)


def invoke_in_a_step(handler: Handler) -> None:
    def node(state: State, runtime: Runtime[Any]) -> None:
        runtime.step("wait", handler.build(a=handler.sleep, b=handler.sleep).invoke, {})

    invoke(handler, handler.build(a=node))


WAITS = [
    plain_nodes,
    one_coroutine,
    coroutines,
    node_with_a_timeout,
    retry_delay,
    subgraph,
    stream,
    busy_thread,
    called_task,
    concurrency_limit,
    batch,
    invoke_in_a_step,
]


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
def test_a_handler_ends_a_run_although_another_thread_got_the_signal(
    handler: Handler, wait: Callable[[Handler], None]
) -> None:
    with pytest.raises(RunCancelled, match="signal"):
        wait(handler)


def test_a_handler_runs_while_an_abandoned_coroutine_cleans_up(handler: Handler) -> None:
    @task
    async def slow(x: int) -> None:
        started.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            handler.send()
            while not handler.control.cancel_requested:
                await asyncio.sleep(0.01)

    started = threading.Event()

    @entrypoint(InMemorySaver())
    def flow(value: Any) -> int:
        slow(1)
        assert started.wait(LONG)
        return 1

    assert flow.invoke(1, {"configurable": {"thread_id": "1"}}) == 1
    assert handler.control.cancel_requested
