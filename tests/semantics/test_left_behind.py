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
    """A function that waits to be let go."""

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


def one(node: Callable[..., Any], **options: Any) -> Any:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node").compile(InMemorySaver())


def start(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[threading.Thread, list[Any]]:
    """Call on a thread; what it answers or raises is in the list once it has ended."""
    brought: list[Any] = []

    def run() -> None:
        try:
            brought.append(call(*args, **options))
        except BaseException as error:
            brought.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, brought


def waits(clock: FakeClock) -> bool:
    """Whether somebody waits for time to pass."""
    return any(alarm.callback is not None for alarm in clock._alarms.copy())


# -- a cancellation by asyncio


def in_result(gate: Gate) -> Any:
    waits = task(gate.wait)

    def node(state: State) -> Any:
        called = waits(1)
        assert gate.began.acquire(timeout=LONG)  # else `result` does the work itself
        gate.began.release()
        return called.result()

    return node


def in_result_of_a_task_with_a_timeout(gate: Gate) -> Any:
    waits = task(timeout=LONG)(gate.wait)
    return lambda state: waits(1).result()


def in_a_subgraph_with_a_timeout(gate: Gate) -> Any:
    inner = one(gate.wait, timeout=LONG)
    return lambda state: inner.invoke({})


def in_a_back_off_of_a_subgraph(gate: Gate) -> Any:
    inner = one(gate.fail, retry_policy=RetryPolicy(initial_interval=LONG, max_interval=LONG))
    return lambda state: inner.invoke({})


def with_a_call_that_nobody_waits_for(gate: Gate) -> Any:
    waits = task(timeout=LONG)(gate.wait)
    return lambda state: (waits(1), gate.go_on.wait(LONG))[0]


@pytest.mark.parametrize(
    "build",
    [
        in_result,
        in_result_of_a_task_with_a_timeout,
        in_a_subgraph_with_a_timeout,
        in_a_back_off_of_a_subgraph,
        with_a_call_that_nobody_waits_for,
    ],
    ids=lambda build: build.__name__,
)
def test_5_5_a_cancelled_asyncio_task_ends_its_run_at_once(gate: Gate, build: Callable[[Gate], Any]) -> None:
    app = one(build(gate))

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
def test_5_5_a_call_that_was_left_behind_is_taken_over_and_not_begun_again(gate: Gate, timeout: float | None) -> None:
    waits, taken = task(timeout=timeout)(gate.wait), threading.Event()

    @entrypoint(InMemorySaver())
    def flow(given: Any) -> Any:
        called = waits(1)
        if control.cancel_requested:
            taken.set()
        else:
            assert gate.began.acquire(timeout=LONG)
            control.request_cancel("stop")
        return called.result()

    control = RunControl()
    with pytest.raises(RunCancelled):
        flow.invoke(1, thread_id="1", control=control)
    thread, brought = start(flow.invoke, None, thread_id="1")
    assert taken.wait(LONG)
    gate.go_on.set()
    thread.join(LONG)
    assert (brought, gate.calls) == ([{"log": ["waited"]}], 1)


class Interruption(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("of_outer", [None, LONG])
@pytest.mark.parametrize("of_inner", [None, LONG])
def test_5_5_the_calls_of_a_call_that_was_left_behind_go_with_it(
    gate: Gate, of_outer: float | None, of_inner: float | None
) -> None:
    inner, taken = task(timeout=of_inner)(gate.wait), threading.Event()
    runs, begun = list[int](), list[int]()

    @task(timeout=of_outer)
    def outer(x: int) -> Any:
        begun.append(x)
        return inner(x).result()

    @entrypoint(InMemorySaver())
    def flow(given: Any) -> Any:
        called = outer(1)
        runs.append(given)
        if len(runs) > 1:
            taken.set()
        else:
            assert gate.began.acquire(timeout=LONG)
            signal.raise_signal(signal.SIGUSR1)
        return called.result()

    def interrupt(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interruption):
            flow.invoke(1, thread_id="1")
    finally:
        signal.signal(signal.SIGUSR1, before)
    thread, brought = start(flow.invoke, None, thread_id="1")
    assert taken.wait(LONG)
    gate.go_on.set()
    thread.join(LONG)
    assert (brought, gate.calls, begun) == ([{"log": ["waited"]}], 1, [1])


def test_5_2_a_call_with_an_idle_timeout_is_taken_over_by_the_next_attempt(gate: Gate) -> None:
    """It gives signs of life while the attempt that made it is given up and the next one is waited for."""
    clock = FakeClock()
    calls: list[int] = []

    @task(timeout=TimeoutPolicy(idle_timeout=5))
    def lively(x: int) -> int:
        calls.append(x)
        gate.began.release()
        while not gate.go_on.wait(0.005):
            get_runtime().heartbeat()
        return x

    attempts: list[int] = []

    def node(state: State) -> Any:
        attempts.append(1)
        called = lively(1)
        if len(attempts) > 1:
            gate.go_on.set()
        return {"log": [called.result()]}

    policy = RetryPolicy(max_attempts=3, initial_interval=20, jitter=False, retry_on=NodeTimeoutError)
    app = (
        StateGraph(State)
        .add_node("node", node, timeout=10, retry_policy=policy)
        .add_edge(START, "node")
        .compile(InMemorySaver(), clock=clock)
    )
    thread, brought = start(app.invoke, {}, thread_id="1")
    assert gate.began.acquire(timeout=LONG)
    while thread.is_alive():
        clock.advance(1)
        thread.join(0.05)
    assert (brought[0]["log"], calls) == ([1], [1])


def test_5_5_calls_that_were_left_behind_take_no_thread_from_others(gate: Gate) -> None:
    waits = task(gate.wait)

    @entrypoint()
    def flow(given: Any) -> Any:
        called = waits(1)
        assert gate.began.acquire(timeout=LONG)
        given.request_cancel("stop")
        return called.result()

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
    """A waits for its child and lends its place to B; A is cancelled; C must still wait for B."""
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

    app = one(node, max_concurrency=1, timeout=LONG)

    def run(name: str, control: RunControl | None = None) -> tuple[threading.Thread, list[Any]]:
        given = {"log": [name]}
        if loop:
            return start(lambda: asyncio.run(app.ainvoke(given, thread_id=name, control=control)))
        return start(app.invoke, given, thread_id=name, control=control)

    control = RunControl()
    first, brought = run("A", control)
    assert gate.began.acquire(timeout=LONG)
    second, _ = run("B")
    assert began["B"].wait(LONG)
    control.request_cancel("stop")
    first.join(LONG)
    assert isinstance(brought[0], RunCancelled)
    gate.go_on.set()
    third, _ = run("C")
    assert not began["C"].wait(0.3)  # too short a wait finds nothing, and fails nobody
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
        thread, brought = start(driver.invoke, app, {}, control=control)
        while not waits(clock):
            thread.join(0.005)
        control.request_cancel("stop")
        thread.join(LONG)
        assert isinstance(brought[0], RunCancelled)
    thread, brought = start(driver.invoke, app, {})
    while thread.is_alive():
        clock.advance(0.5)
        thread.join(0.01)
    assert brought[0]["log"][0] < 30  # and not 60, behind five for whom nothing was begun


class Stray:
    """Work that a node has left behind, with its context, and that goes on while the next node is executed."""

    def __init__(self, how: str) -> None:
        self._how = how
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
        if self._how == "call":
            calling(self).invoke({})
        return {"log": [get_runtime().step("charge", self.charge, "next"), interrupt("go on?")]}

    async def next_async(self, state: State) -> State:
        return await asyncio.to_thread(self.next, state)

    def check(self) -> None:
        """The stray work was refused, and the node's own step was done once."""
        assert "stray" not in self.charges
        assert len(self.errors) == 1
        assert self.charges.count("next") == 1

    def _work(self) -> None:
        assert self.begin.wait(LONG)
        try:
            if self._how == "step":
                get_runtime().step("charge", self.charge, "stray")
            elif self._how == "task":
                task(self.charge, name="charge")("stray").result()
            elif self._how == "call":
                calling(self).invoke({})
            else:
                interrupt("stray?")
        except BaseException as error:
            self.errors.append(error)
        self.done.set()


def calling(stray: Stray) -> Any:
    return StateGraph(State).add_node("n", lambda state: {"log": [stray.charge("call")]}).add_edge(START, "n").compile()


def answered(app: Any, driver: str) -> Any:
    """The result of a run that is resumed once, all on one event loop if there is one."""

    async def run() -> Any:
        await app.ainvoke({}, thread_id="t")
        return await app.ainvoke(Command(resume="yes"), thread_id="t")

    if driver == "async":
        return asyncio.run(run())
    app.invoke({}, thread_id="t")
    return app.invoke(Command(resume="yes"), thread_id="t")


# Without an event loop of its own, a coroutine leaves no asyncio task behind.
COLOURS = [("sync", "plain"), *(("async", one) for one in ("plain", "coroutine", "plain coroutine", "coroutine plain"))]


@pytest.mark.parametrize(("name", "colours"), COLOURS)
@pytest.mark.parametrize("how", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_a_node_are_not_mistaken_for_the_next_node(name: str, how: str, colours: str) -> None:
    stray, first, second = Stray(how), colours.split()[0], colours.split()[-1]
    graph = StateGraph(State).add_node("first", stray.leave_thread if first == "plain" else stray.leave_task)
    graph.add_node("next", stray.next if second == "plain" else stray.next_async)
    app = graph.add_edge(START, "first").add_edge("first", "next").compile(InMemorySaver())

    result = answered(app, name)
    assert result["log"] == ["first", "receipt of next", "yes"]
    stray.check()


class Again:
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


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("node", "options"), ATTEMPTS)
@pytest.mark.parametrize("how", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_an_attempt_are_not_mistaken_for_the_next_attempt(
    how: str, node: tuple[str, str], options: dict[str, Any], beside: bool
) -> None:
    stray, (name, colour) = Stray(how), node
    again = RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    graph = StateGraph(State).add_node("node", getattr(Again(stray), colour), retry_policy=again, **options)
    graph.add_edge(START, "node")
    if beside:
        graph.add_node("beside", lambda state: {}).add_edge(START, "beside")
    app = graph.compile(InMemorySaver())

    result = answered(app, name)
    assert result["log"] == ["receipt of next", "yes"]
    stray.check()


@pytest.mark.parametrize("how", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_an_attempt_at_a_task_are_not_mistaken_for_the_next_attempt(how: str) -> None:
    stray = Stray(how)
    again = Again(stray)
    called = task(
        again.plain, name="called", retry_policy=RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    )
    app = one(lambda state: called(state).result())
    result = answered(app, "sync")
    assert result["log"] == ["receipt of next", "yes"]
    stray.check()


@pytest.mark.parametrize("how", ["step", "task", "call", "question"])
def test_5_2_threads_left_by_a_node_are_not_mistaken_for_the_next_one_on_a_thread(driver: Any, how: str) -> None:
    stray = Stray(how)
    graph = (
        StateGraph(State).add_node("first", stray.leave_thread, inline=True).add_node("next", stray.next, inline=True)
    )
    app = graph.add_edge(START, "first").add_edge(START, "next").compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, Command(resume="yes"), THREAD)
    assert result["log"] == ["first", "receipt of next", "yes"]
    assert stray.charges.count("next") == 1


@pytest.mark.parametrize("how", ["step", "task"])
@pytest.mark.parametrize("timeout", [None, LONG])
def test_5_2_calls_of_a_failed_attempt_finish_and_are_not_started_again(how: str, timeout: float | None) -> None:
    began, go_on, done = threading.Event(), threading.Event(), threading.Event()
    charges: list[str] = []

    def pay() -> str:
        charges.append("pay")
        began.set()
        assert go_on.wait(LONG)
        return get_runtime().step("mail", lambda: charges.append("mail") or "mailed")

    def begin() -> Any:
        return task(pay)() if how == "task" else get_runtime().step("pay", pay)

    def leave() -> None:
        begin()
        done.set()

    def node(state: State) -> State:
        if not began.is_set():
            if how == "task":
                begin().add_done_callback(lambda _: done.set())
            else:
                threading.Thread(target=contextvars.copy_context().run, args=(leave,)).start()
            assert began.wait(LONG)
            raise ConnectionError
        go_on.set()
        assert done.wait(LONG)
        return {"log": [begin().result() if how == "task" else begin()]}

    again = RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    app = one(node, retry_policy=again, timeout=timeout)
    assert app.invoke({}, thread_id="t")["log"] == ["mailed"]
    assert charges == ["pay", "mail"]
