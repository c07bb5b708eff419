"""Part I sections 5.2 and 5.5: abandoned functions block nothing, and hold no resources."""

import asyncio
import contextvars
import itertools
import operator
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    RateLimit,
    RetryPolicy,
    RunControl,
    StateGraph,
    TimeoutPolicy,
    entrypoint,
    get_runtime,
    interrupt,
    task,
)
from statewright.errors import NodeTimeoutError, RunCancelled
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS
from statewright.testing import FakeClock

LONG = 600
"""Seconds after which a test that hangs fails."""


THREAD = {"thread_id": "t"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


class Gate:
    """A function that waits until the test lets it continue."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Semaphore(0), threading.Event()
        self.calls = 0

    def wait(self, x: Any = None) -> Any:
        self.calls += 1
        self.began.release()
        assert self.go_on.wait(LONG)
        return {"log": ["waited"]}

    def fail(self, state: State) -> None:
        self.began.release()
        raise ConnectionError("not now")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.go_on.set()


def compile_node(node: Callable[..., Any], **options: Any) -> Any:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node").compile(InMemorySaver())


def start(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[threading.Thread, list[Any]]:
    """Call a function on a thread; its result or exception is in the list once it has ended."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call(*args, **options))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


def has_alarm(clock: FakeClock) -> bool:
    """Return whether an alarm is set."""
    return any(alarm.callback is not None for alarm in clock._alarms.copy())


# -- cancellation by asyncio


def waiting_for_a_result(gate: Gate) -> Any:
    blocking = task(gate.wait)

    def node(state: State) -> Any:
        future = blocking(1)
        assert gate.began.acquire(timeout=LONG)  # otherwise `result` does the work itself
        gate.began.release()
        return future.result()

    return node


def waiting_for_a_task_with_a_timeout(gate: Gate) -> Any:
    blocking = task(timeout=LONG)(gate.wait)
    return lambda state: blocking(1).result()


def waiting_for_a_subgraph_with_a_timeout(gate: Gate) -> Any:
    inner = compile_node(gate.wait, timeout=LONG)
    return lambda state: inner.invoke({})


def waiting_for_a_retry_in_a_subgraph(gate: Gate) -> Any:
    inner = compile_node(gate.fail, retry_policy=RetryPolicy(initial_interval=LONG, max_interval=LONG))
    return lambda state: inner.invoke({})


def not_waiting_for_its_call(gate: Gate) -> Any:
    blocking = task(timeout=LONG)(gate.wait)
    return lambda state: (blocking(1), gate.go_on.wait(LONG))[0]


@pytest.mark.parametrize(
    "build",
    [
        waiting_for_a_result,
        waiting_for_a_task_with_a_timeout,
        waiting_for_a_subgraph_with_a_timeout,
        waiting_for_a_retry_in_a_subgraph,
        not_waiting_for_its_call,
    ],
    ids=lambda build: build.__name__,
)
def test_5_5_a_cancelled_asyncio_task_ends_its_run_at_once(gate: Gate, build: Callable[[Gate], Any]) -> None:
    app = compile_node(build(gate))

    async def run() -> None:
        running = asyncio.ensure_future(app.ainvoke({}, thread_id="1"))
        await asyncio.to_thread(gate.began.acquire)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not gate.go_on.is_set()
        gate.go_on.set()

    asyncio.run(run())


# -- calls of tasks


@pytest.mark.parametrize("timeout", [None, LONG])
def test_5_5_the_next_run_takes_over_a_call_left_behind(gate: Gate, timeout: float | None) -> None:
    blocking, is_resumed = task(timeout=timeout)(gate.wait), threading.Event()

    @entrypoint(InMemorySaver())
    def flow(value: Any) -> Any:
        future = blocking(1)
        if control.cancel_requested:
            is_resumed.set()
        else:
            assert gate.began.acquire(timeout=LONG)
            control.request_cancel("stop")
        return future.result()

    control = RunControl()
    with pytest.raises(RunCancelled):
        flow.invoke(1, thread_id="1", control=control)
    thread, results = start(flow.invoke, None, thread_id="1")
    assert is_resumed.wait(LONG)
    gate.go_on.set()
    thread.join(LONG)
    assert (results, gate.calls) == ([{"log": ["waited"]}], 1)


class Interruption(BaseException):
    """The exception that a signal handler raises."""


@pytest.mark.parametrize("outer_timeout", [None, LONG])
@pytest.mark.parametrize("inner_timeout", [None, LONG])
def test_5_5_the_next_run_takes_over_nested_calls_left_behind(
    gate: Gate, outer_timeout: float | None, inner_timeout: float | None
) -> None:
    inner, is_resumed = task(timeout=inner_timeout)(gate.wait), threading.Event()
    runs, started = list[int](), list[int]()

    @task(timeout=outer_timeout)
    def outer(x: int) -> Any:
        started.append(x)
        return inner(x).result()

    @entrypoint(InMemorySaver())
    def flow(value: Any) -> Any:
        future = outer(1)
        runs.append(value)
        if len(runs) > 1:
            is_resumed.set()
        else:
            assert gate.began.acquire(timeout=LONG)
            signal.raise_signal(signal.SIGUSR1)
        return future.result()

    def interrupt(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interruption):
            flow.invoke(1, thread_id="1")
    finally:
        signal.signal(signal.SIGUSR1, before)
    thread, results = start(flow.invoke, None, thread_id="1")
    assert is_resumed.wait(LONG)
    gate.go_on.set()
    thread.join(LONG)
    assert (results, gate.calls, started) == ([{"log": ["waited"]}], 1, [1])


def test_5_2_the_next_attempt_takes_over_a_call_with_an_idle_timeout(gate: Gate) -> None:
    """It sends heartbeats while its attempt is abandoned and the next one is due."""
    clock = FakeClock()
    calls: list[int] = []

    @task(timeout=TimeoutPolicy(idle_timeout=5))
    def heartbeating(x: int) -> int:
        calls.append(x)
        gate.began.release()
        while not gate.go_on.wait(0.005):
            get_runtime().heartbeat()
        return x

    attempts: list[int] = []

    def node(state: State) -> Any:
        attempts.append(1)
        future = heartbeating(1)
        if len(attempts) > 1:
            gate.go_on.set()
        return {"log": [future.result()]}

    policy = RetryPolicy(max_attempts=3, initial_interval=20, jitter=False, retry_on=NodeTimeoutError)
    app = (
        StateGraph(State)
        .add_node("node", node, timeout=10, retry_policy=policy)
        .add_edge(START, "node")
        .compile(InMemorySaver(), clock=clock)
    )
    thread, results = start(app.invoke, {}, thread_id="1")
    assert gate.began.acquire(timeout=LONG)
    while thread.is_alive():
        clock.advance(1)
        thread.join(0.05)
    assert (results[0]["log"], calls) == ([1], [1])


def test_5_5_calls_left_behind_occupy_no_pool_threads(gate: Gate) -> None:
    blocking = task(gate.wait)

    @entrypoint()
    def flow(value: Any) -> Any:
        future = blocking(1)
        assert gate.began.acquire(timeout=LONG)
        value.request_cancel("stop")
        return future.result()

    @task
    def quick(x: int) -> int:
        return x + 1

    @entrypoint()
    async def other(x: int) -> int:
        return await quick(x)

    for _ in range(DEFAULT_THREADS):
        control = RunControl()
        with pytest.raises(RunCancelled):
            flow.invoke(control, control=control)
    assert asyncio.run(asyncio.wait_for(other.ainvoke(1), LONG)) == 2


# -- limits


@pytest.mark.parametrize("loop", [False, True])
def test_5_3_a_slot_suspended_by_a_cancelled_task_is_released_once(gate: Gate, loop: bool) -> None:
    """A waits for its child and lends its slot to B; A is cancelled; C must still wait for B."""
    child = task(gate.wait)
    began = {name: threading.Event() for name in "BC"}
    go_on = threading.Event()

    def node(state: State) -> Any:
        name = state["log"][0]
        if name == "A":
            return child(1).result()
        began[name].set()
        assert go_on.wait(LONG)
        return {}

    app = compile_node(node, max_concurrency=1, timeout=LONG)

    def run(name: str, control: RunControl | None = None) -> tuple[threading.Thread, list[Any]]:
        value = {"log": [name]}
        if loop:
            return start(lambda: asyncio.run(app.ainvoke(value, thread_id=name, control=control)))
        return start(app.invoke, value, thread_id=name, control=control)

    control = RunControl()
    first, results = run("A", control)
    assert gate.began.acquire(timeout=LONG)
    second, _ = run("B")
    assert began["B"].wait(LONG)
    control.request_cancel("stop")
    first.join(LONG)
    assert isinstance(results[0], RunCancelled)
    gate.go_on.set()
    third, _ = run("C")
    assert not began["C"].wait(0.3)  # on a slow machine this may miss a defect, but never fails without one
    go_on.set()
    second.join(LONG)
    third.join(LONG)
    assert began["C"].is_set()


def test_5_3_a_task_cancelled_while_waiting_for_a_rate_limit_frees_its_slot(driver: Any) -> None:
    clock = FakeClock()
    app = (
        StateGraph(State)
        .add_node("node", lambda state: {"log": [clock.monotonic()]}, rate_limit=RateLimit(limit=1, per=10))
        .add_edge(START, "node")
        .compile(clock=clock)
    )
    assert driver.invoke(app, {})["log"] == [0]
    for _ in range(5):
        control = RunControl()
        thread, results = start(driver.invoke, app, {}, control=control)
        while not has_alarm(clock):
            thread.join(0.005)
        control.request_cancel("stop")
        thread.join(LONG)
        assert isinstance(results[0], RunCancelled)
    thread, results = start(driver.invoke, app, {})
    while thread.is_alive():
        clock.advance(0.5)
        thread.join(0.01)
    assert results[0]["log"][0] < 30  # not 60, behind five tasks that never began


class Stray:
    """Work that a node has left behind, with its context, and that continues while the next node runs."""

    def __init__(self, work: str) -> None:
        self._work_kind = work
        self.begin, self.done = threading.Event(), threading.Event()
        self.errors: list[BaseException] = []
        self.charges: list[str] = []
        self._kept: list[Any] = []

    def charge(self, who: str) -> str:
        self.charges.append(who)
        return f"receipt of {who}"

    def leave_thread(self, state: State) -> State:
        context = contextvars.copy_context()
        threading.Thread(target=lambda: context.run(self._work)).start()
        return {"log": ["first"]}

    async def leave_task(self, state: State) -> State:
        self._kept.append(asyncio.create_task(asyncio.to_thread(self._work)))
        return {"log": ["first"]}

    def next(self, state: State) -> State:
        self.begin.set()
        assert self.done.wait(LONG)
        if self._work_kind == "call":
            compile_call(self).invoke({})
        return {"log": [get_runtime().step("charge", self.charge, "next"), interrupt("go on?")]}

    async def next_async(self, state: State) -> State:
        return await asyncio.to_thread(self.next, state)

    def check_refused(self) -> None:
        """Check that the stray work was refused, and that the step of the node ran once."""
        assert "stray" not in self.charges
        assert len(self.errors) == 1
        assert self.charges.count("next") == 1

    def _work(self) -> None:
        assert self.begin.wait(LONG)
        try:
            if self._work_kind == "step":
                get_runtime().step("charge", self.charge, "stray")
            elif self._work_kind == "task":
                task(self.charge, name="charge")("stray").result()
            elif self._work_kind == "call":
                compile_call(self).invoke({})
            else:
                interrupt("stray?")
        except BaseException as error:
            self.errors.append(error)
        self.done.set()


def compile_call(stray: Stray) -> Any:
    return StateGraph(State).add_node("n", lambda state: {"log": [stray.charge("call")]}).add_edge(START, "n").compile()


def invoke_and_resume(app: Any, driver: str) -> Any:
    """Run and resume once, all on one event loop if there is one; return the result."""

    async def run() -> Any:
        await app.ainvoke({}, thread_id="t")
        return await app.ainvoke(Command(resume="yes"), thread_id="t")

    if driver == "async":
        return asyncio.run(run())
    app.invoke({}, thread_id="t")
    return app.invoke(Command(resume="yes"), thread_id="t")


# Without an event loop of its own, a coroutine leaves no asyncio task behind.
DRIVERS_AND_KINDS = [
    ("sync", "plain"),
    *(("async", kinds) for kinds in ("plain", "coroutine", "plain coroutine", "coroutine plain")),
]


@pytest.mark.parametrize(("name", "kinds"), DRIVERS_AND_KINDS)
@pytest.mark.parametrize("work", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_a_node_are_not_mistaken_for_the_next_node(name: str, work: str, kinds: str) -> None:
    stray, first, second = Stray(work), kinds.split()[0], kinds.split()[-1]
    graph = StateGraph(State).add_node("first", stray.leave_thread if first == "plain" else stray.leave_task)
    graph.add_node("next", stray.next if second == "plain" else stray.next_async)
    app = graph.add_edge(START, "first").add_edge("first", "next").compile(InMemorySaver())

    result = invoke_and_resume(app, name)
    assert result["log"] == ["first", "receipt of next", "yes"]
    stray.check_refused()


class Retried:
    """A node that leaves work behind in its first attempt, which fails, and waits for that work in its second."""

    def __init__(self, stray: Stray) -> None:
        self._stray, self._attempts = stray, 0

    def plain(self, state: State) -> State:
        self._attempts += 1
        if self._attempts > 1:
            return self._stray.next(state)
        self._stray.leave_thread(state)
        raise ConnectionError

    async def coroutine(self, state: State) -> State:
        self._attempts += 1
        if self._attempts > 1:
            return await self._stray.next_async(state)
        await self._stray.leave_task(state)
        raise ConnectionError


NODES = [("sync", "plain"), ("async", "plain"), ("async", "coroutine")]
OPTIONS: list[dict[str, Any]] = [{}, {"timeout": LONG}]
ATTEMPTS = [*itertools.product(NODES, OPTIONS), (NODES[0], {"inline": True}), (NODES[1], {"inline": True})]


@pytest.mark.parametrize("has_sibling", [False, True])
@pytest.mark.parametrize(("node", "options"), ATTEMPTS)
@pytest.mark.parametrize("work", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_an_attempt_are_not_mistaken_for_the_next_attempt(
    work: str, node: tuple[str, str], options: dict[str, Any], has_sibling: bool
) -> None:
    stray, (name, kind) = Stray(work), node
    retries = RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    graph = StateGraph(State).add_node("node", getattr(Retried(stray), kind), retry_policy=retries, **options)
    graph.add_edge(START, "node")
    if has_sibling:
        graph.add_node("sibling", lambda state: {}).add_edge(START, "sibling")
    app = graph.compile(InMemorySaver())

    result = invoke_and_resume(app, name)
    assert result["log"] == ["receipt of next", "yes"]
    stray.check_refused()


@pytest.mark.parametrize("work", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_an_attempt_at_a_task_are_not_mistaken_for_the_next_attempt(work: str) -> None:
    stray = Stray(work)
    node = Retried(stray)
    retried_task = task(
        node.plain, name="task", retry_policy=RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    )
    app = compile_node(lambda state: retried_task(state).result())
    result = invoke_and_resume(app, "sync")
    assert result["log"] == ["receipt of next", "yes"]
    stray.check_refused()


@pytest.mark.parametrize("work", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_a_node_are_not_mistaken_for_the_next_one_on_a_thread(driver: Any, work: str) -> None:
    stray = Stray(work)
    graph = (
        StateGraph(State).add_node("first", stray.leave_thread, inline=True).add_node("next", stray.next, inline=True)
    )
    app = graph.add_edge(START, "first").add_edge(START, "next").compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, Command(resume="yes"), THREAD)
    assert result["log"] == ["first", "receipt of next", "yes"]
    assert stray.charges.count("next") == 1


@pytest.mark.parametrize("work", ["step", "task"])
@pytest.mark.parametrize("timeout", [None, LONG])
def test_5_2_calls_of_a_failed_attempt_finish_and_are_not_started_again(work: str, timeout: float | None) -> None:
    began, go_on, done = threading.Event(), threading.Event(), threading.Event()
    charges: list[str] = []

    def pay() -> str:
        charges.append("pay")
        began.set()
        assert go_on.wait(LONG)
        return get_runtime().step("mail", lambda: charges.append("mail") or "mailed")

    def begin() -> Any:
        return task(pay)() if work == "task" else get_runtime().step("pay", pay)

    def leave() -> None:
        begin()
        done.set()

    def node(state: State) -> State:
        if not began.is_set():
            if work == "task":
                begin().add_done_callback(lambda _: done.set())
            else:
                threading.Thread(target=contextvars.copy_context().run, args=(leave,)).start()
            assert began.wait(LONG)
            raise ConnectionError
        go_on.set()
        assert done.wait(LONG)
        return {"log": [begin().result() if work == "task" else begin()]}

    retries = RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    app = compile_node(node, retry_policy=retries, timeout=timeout)
    assert app.invoke({}, thread_id="t")["log"] == ["mailed"]
    assert charges == ["pay", "mail"]
