"""Part I sections 5.3, 5.4 and 5.7: retries, timeouts, circuit breakers, rate limits, error handlers and caches."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    CachePolicy,
    CircuitBreaker,
    Command,
    InMemoryCache,
    InMemorySaver,
    Instrument,
    NodeError,
    RateLimit,
    RetryPolicy,
    RunControl,
    Runtime,
    Send,
    StateGraph,
    TimeoutPolicy,
    append,
    entrypoint,
    interrupt,
    task,
)
from statewright.errors import (
    CircuitOpen,
    InvalidGraph,
    NodeTimeoutError,
    RateLimited,
    RunCancelled,
    StorageUnavailable,
)
from statewright.futures import LightFuture
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock, RecordingInstrument

THREAD = {"thread_id": "1"}
QUIET = RetryPolicy(jitter=False)


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class Flaky:
    """A node that fails a few times before it succeeds."""

    __name__ = "flaky"

    def __init__(self, failures: int, error: type[Exception] = ConnectionError) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    def __call__(self, state: State) -> dict[str, Any]:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(f"failure {self.calls}")
        return {"log": [self.calls]}


def compile_node(node: Any, *, clock: Any = None, compiled: Any = None, **options: Any) -> Any:
    graph = StateGraph(State).add_node("node", node, **options).add_edge(START, "node")
    return graph.compile(clock=clock, **(compiled or {}))


def run(driver: Any, app: Any, clock: FakeClock, value: Any = None, **options: Any) -> Any:
    """Run an app; the clock advances whenever everything waits for it."""
    value = {"x": 1} if value is None else value
    if driver.name == "async":
        return asyncio.run(clock.run(app.ainvoke(value, **options)))
    return app.invoke(value, **options)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(jumps=True)


# -- 5.3 retries


def test_5_3_a_failed_node_is_retried_with_growing_delays(driver: Any, paint: Any, clock: FakeClock) -> None:
    flaky = Flaky(2)
    app = compile_node(paint(flaky), clock=clock, retry_policy=QUIET)

    assert run(driver, app, clock)["log"] == [3]
    assert clock.monotonic() == 0.5 + 1.0


@pytest.mark.parametrize(("retry_after", "delay"), [(30.0, 30.0), (0.1, 0.5), (1e9, 3600.0), ("soon", 0.5), (-5, 0.5)])
def test_5_3_a_retry_after_that_is_longer_than_the_backoff_is_honoured(
    driver: Any, clock: FakeClock, retry_after: object, delay: float
) -> None:
    calls: list[float] = []

    def busy(state: Any) -> dict[str, Any]:
        calls.append(clock.monotonic())
        if len(calls) == 1:
            error = ConnectionError("429")
            error.retry_after = retry_after  # type: ignore[attr-defined]
            raise error
        return {}

    graph = StateGraph(dict).add_node("busy", busy, retry_policy=RetryPolicy(jitter=False)).add_edge(START, "busy")
    run(driver, graph.compile(clock=clock), clock, {})
    assert calls[1] - calls[0] == pytest.approx(delay)


def test_5_3_a_policy_limits_the_number_of_attempts(driver: Any, paint: Any, clock: FakeClock) -> None:
    flaky = Flaky(9)
    app = compile_node(paint(flaky), clock=clock, retry_policy=RetryPolicy(max_attempts=4, jitter=False))

    with pytest.raises(ConnectionError, match="failure 4") as raised:
        run(driver, app, clock)
    assert raised.value.__notes__ == ["in node 'node', step 1, attempt 4"]
    assert clock.monotonic() == 0.5 + 1.0 + 2.0


def test_5_3_the_first_matching_policy_applies(driver: Any, clock: FakeClock) -> None:
    errors = iter([KeyError("a"), ConnectionError("b"), KeyError("c")])

    def node(state: State) -> dict[str, Any]:
        raise next(errors)

    policies = [
        RetryPolicy(retry_on=KeyError, max_attempts=2, initial_interval=7, jitter=False),
        RetryPolicy(retry_on=(KeyError, ConnectionError), max_attempts=9, initial_interval=1, jitter=False),
    ]
    app = compile_node(node, clock=clock, retry_policy=policies)

    with pytest.raises(KeyError, match="c"):
        run(driver, app, clock)
    assert clock.monotonic() == 7 + 2


def test_5_3_errors_of_the_program_are_not_retried(driver: Any, clock: FakeClock) -> None:
    flaky = Flaky(1, ValueError)

    with pytest.raises(ValueError, match="failure 1"):
        run(driver, compile_node(flaky, clock=clock, retry_policy=QUIET), clock)
    assert flaky.calls == 1


def test_5_3_a_function_may_decide_which_errors_are_retried(driver: Any, clock: FakeClock) -> None:
    policy = RetryPolicy(retry_on=lambda error: "2" not in str(error), jitter=False)

    with pytest.raises(ValueError, match="failure 2"):
        run(driver, compile_node(Flaky(5, ValueError), clock=clock, retry_policy=policy), clock)


def test_5_3_an_interrupt_is_not_a_failure(driver: Any, clock: FakeClock) -> None:
    app = compile_node(
        lambda s: {"log": [interrupt("?")]}, clock=clock, compiled={"checkpointer": InMemorySaver()}, retry_policy=QUIET
    )

    run(driver, app, clock, **THREAD)
    assert run(driver, app, clock, Command(resume="yes"), **THREAD)["log"] == ["yes"]


def test_5_3_answers_are_kept_over_attempts(driver: Any, clock: FakeClock) -> None:
    calls: list[int] = []

    def node(state: State) -> dict[str, Any]:
        first = interrupt("first?")
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError
        return {"log": [first, interrupt("second?")]}

    app = compile_node(node, clock=clock, compiled={"checkpointer": InMemorySaver()}, retry_policy=QUIET)
    run(driver, app, clock, **THREAD)
    run(driver, app, clock, Command(resume=1), **THREAD)

    assert run(driver, app, clock, Command(resume=2), **THREAD)["log"] == [1, 2]


def test_5_3_the_number_of_attempts_survives_a_crash(driver: Any, clock: FakeClock) -> None:
    class Crash(BaseException):
        """Simulates the death of the process."""

    attempts: list[int] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        attempts.append(runtime.execution_info.attempt)
        if len(attempts) == 2:
            raise Crash
        raise ConnectionError

    app = compile_node(node, clock=clock, compiled={"checkpointer": InMemorySaver()}, retry_policy=QUIET)
    with pytest.raises(Crash):
        run(driver, app, clock, **THREAD)
    with pytest.raises(ConnectionError):
        driver.invoke(app, None, **THREAD)

    assert attempts == [1, 2, 2, 3]


def test_5_3_siblings_are_retried_independently(driver: Any, paint: Any, clock: FakeClock) -> None:
    nodes = {f"n{number}": Flaky(number) for number in range(4)}
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, paint(node), retry_policy=RetryPolicy(max_attempts=5, jitter=False)).add_edge(START, name)

    if driver.name == "sync":
        clock = FakeClock(jumps=True)
    assert run(driver, graph.compile(clock=clock), clock)["log"] == [1, 2, 3, 4]


# -- 5.3 timeouts


def test_5_3_an_attempt_that_takes_too_long_is_abandoned(driver: Any) -> None:
    clock, gate = FakeClock(), threading.Event()

    def slow(state: State) -> dict[str, Any]:
        clock.advance(6)
        gate.wait(600)
        return {"log": ["late"]}

    with pytest.raises(NodeTimeoutError, match="longer than 5 s") as raised:
        driver.invoke(compile_node(slow, clock=clock, timeout=5), {"x": 1})
    gate.set()
    assert (raised.value.kind, raised.value.seconds) == ("run", 5)


class PassingClock(FakeClock):
    """A clock that advances once, right after one of its readings, once the node has begun if that is possible."""

    def __init__(self, turn: int) -> None:
        super().__init__()
        self.has_begun, self.has_passed = threading.Event(), threading.Event()
        self._turn = turn
        self._readings = itertools.count()

    def monotonic(self) -> float:
        if next(self._readings) != self._turn:
            return super().monotonic()
        self.has_begun.wait(0.05)
        read = super().monotonic()
        self.pass_once()
        return read

    def pass_once(self) -> None:
        if not self.has_passed.is_set():
            self.has_passed.set()
            self.advance(6)


@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("policy", [TimeoutPolicy(run_timeout=5), TimeoutPolicy(idle_timeout=5)], ids=["run", "idle"])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_3_a_timeout_includes_time_that_passes_while_it_is_set(
    driver: Any, within: Any, kind: str, policy: TimeoutPolicy, turn: int
) -> None:
    clock, gate = PassingClock(turn), threading.Event()

    def plain(state: State) -> None:
        clock.has_begun.set()
        clock.has_passed.wait(0.05)
        clock.pass_once()
        gate.wait(600)

    async def coroutine(state: State) -> None:
        clock.has_begun.set()
        await asyncio.sleep(0.05)
        clock.pass_once()
        await asyncio.sleep(600)

    app = compile_node(plain if kind == "plain" else coroutine, clock=clock, timeout=policy)
    try:
        with pytest.raises(NodeTimeoutError, match="5 s"):
            within(lambda: driver.invoke(app, {"x": 1}))
    finally:
        gate.set()


@pytest.mark.parametrize("memory", ["call", "thread"])
@pytest.mark.parametrize("form", ["node", "call"])
def test_5_3_a_subgraph_of_an_abandoned_attempt_saves_nothing(
    driver: Any, form: str, memory: Any, tmp_path: Path
) -> None:
    """Its node returns while the next attempt runs, in the same namespace of the same thread."""
    clock, second_runs, first_is_over = FakeClock(), threading.Event(), threading.Event()
    runs: list[int] = []

    class AbandonListener(Instrument):
        def on_run_broken_off(self, event: Any) -> None:
            first_is_over.set()

    def slow(state: State) -> dict[str, Any]:
        runs.append(len(runs) + 1)
        number = runs[-1]
        if number == 1:
            clock.advance(6)
            assert second_runs.wait(600)
        else:
            second_runs.set()
            assert first_is_over.wait(600)
        return {"log": [f"attempt {number}"]}

    inner = StateGraph(State).add_node("before", lambda s: {"log": ["before"]}).add_node(slow)
    inner.add_node("after", lambda s: {"log": ["after"]}).add_edge(START, "before").add_edge("before", "slow")
    child = inner.add_edge("slow", "after").compile(instruments=[AbandonListener()])
    policies: dict[str, Any] = {
        "timeout": 5,
        "retry_policy": RetryPolicy(initial_interval=0, jitter=False, retry_on=NodeTimeoutError),
    }
    graph = StateGraph(State)
    if form == "node":
        graph.add_node("n", child, memory=memory, **policies)
    else:
        graph.add_node("n", lambda s: {"log": child.invoke({}, memory=memory)["log"]}, **policies)
    with SqliteSaver(tmp_path / "runs.db") as saver:
        app = graph.add_edge(START, "n").compile(saver, clock=clock)
        assert driver.invoke(app, {}, thread_id="1")["log"] == ["before", "attempt 2", "after"]
    assert runs == [1, 2]


def test_5_3_a_coroutine_that_takes_too_long_is_cancelled(driver: Any) -> None:
    ended: list[str] = []

    async def slow(state: State) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("cleaned up")

    with pytest.raises(NodeTimeoutError):
        driver.invoke(compile_node(slow, timeout=0.01), {"x": 1})
    assert ended == ["cleaned up"]


def test_5_3_a_timeout_at_the_end_of_an_attempt_cancels_nothing_else(driver: Any) -> None:
    clock = FakeClock()

    async def first(state: State) -> dict[str, Any]:
        clock.advance(60)
        return {"log": ["first"]}

    async def second(state: State) -> dict[str, Any]:
        for _ in range(5):
            await asyncio.sleep(0)
        return {"log": ["second"]}

    graph = StateGraph(State).add_node(first, timeout=30).add_node(second)
    app = graph.add_edge(START, "first").add_edge("first", "second").compile(clock=clock)
    assert driver.invoke(app, {})["log"] == ["first", "second"]


def test_5_3_a_coroutine_that_continues_after_its_timeout_does_not_affect_its_caller() -> None:
    async def stubborn(state: State) -> dict[str, Any]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {}

    async def main() -> None:
        with pytest.raises(NodeTimeoutError):
            await compile_node(stubborn, timeout=0.01).ainvoke({"x": 1})
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_5_3_the_result_of_a_coroutine_after_its_timeout_is_ignored(driver: Any) -> None:
    async def stubborn(state: State) -> dict[str, Any]:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return {"log": ["late"]}
        return {}

    with pytest.raises(NodeTimeoutError):
        driver.invoke(compile_node(stubborn, timeout=0.01), {"x": 1})


def test_5_3_a_heartbeat_restarts_the_idle_timeout(driver: Any) -> None:
    clock = FakeClock()

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        for _ in range(5):
            clock.advance(4)
            runtime.heartbeat()
        return {"log": ["alive"]}

    app = compile_node(node, clock=clock, timeout=TimeoutPolicy(idle_timeout=5))
    assert driver.invoke(app, {"x": 1})["log"] == ["alive"]


@pytest.mark.parametrize("activity", ["writer", "step"])
def test_5_3_a_policy_may_accept_only_heartbeats_as_activity(driver: Any, activity: str) -> None:
    clock, gate = FakeClock(), threading.Event()

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        clock.advance(4)
        if activity == "writer":
            runtime.stream_writer("working")
        else:
            runtime.step("work", int)
        clock.advance(4)
        gate.wait(600)
        return {"log": ["alive"]}

    auto = compile_node(node, clock=clock, timeout=TimeoutPolicy(idle_timeout=5))
    strict = compile_node(node, clock=clock, timeout=TimeoutPolicy(idle_timeout=5, refresh_on="heartbeat"))
    gate.set()
    assert driver.invoke(auto, {"x": 1})["log"] == ["alive"]
    gate.clear()
    with pytest.raises(NodeTimeoutError, match="showed no activity for 5 s"):
        driver.invoke(strict, {"x": 1})
    gate.set()


def test_5_3_a_timeout_may_be_retried_and_late_writes_are_refused(driver: Any) -> None:
    clock, may_continue = FakeClock(), threading.Event()
    calls: list[int] = []
    refused: list[BaseException] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            clock.advance(1)  # exactly the timeout: the next attempt begins at the new time
            may_continue.wait(600)
            runtime.stream_writer("late")
            try:
                runtime.step("charge", calls.append, 2)
            except BaseException as error:
                refused.append(error)
                raise
            return {"log": ["late"]}
        return {"log": ["in time"]}

    app = compile_node(node, clock=clock, timeout=1, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    parts = driver.stream(app, {"x": 1}, stream_mode=["custom", "updates"])
    may_continue.set()
    while not refused:
        pass

    assert parts == [("updates", {"node": {"log": ["in time"]}})]
    assert calls == [1, 1]


def test_5_3_policies_of_a_node_do_not_apply_inside_its_subgraph(driver: Any, clock: FakeClock) -> None:
    inner = Flaky(1)
    child = compile_node(inner)
    app = compile_node(child, clock=clock, retry_policy=QUIET)

    assert run(driver, app, clock)["log"] == [2]
    assert inner.calls == 2


# -- 5.3 circuit breakers and rate limits


def test_5_3_a_circuit_opens_after_repeated_failures_and_closes_after_a_success(driver: Any) -> None:
    clock, flaky = FakeClock(), Flaky(3)
    app = compile_node(flaky, clock=clock, circuit_breaker=CircuitBreaker(failure_threshold=2, reset_after=30))

    for _ in range(2):
        with pytest.raises(ConnectionError):
            driver.invoke(app, {"x": 1})
    with pytest.raises(CircuitOpen, match="30 s"):
        driver.invoke(app, {"x": 1})
    assert flaky.calls == 2
    clock.advance(31)
    with pytest.raises(ConnectionError):
        driver.invoke(app, {"x": 1})
    with pytest.raises(CircuitOpen):
        driver.invoke(app, {"x": 1})
    clock.advance(31)
    assert driver.invoke(app, {"x": 1})["log"] == [4]
    assert driver.invoke(app, {"x": 1})["log"] == [5]


@pytest.mark.parametrize("coroutine", [False, True])
@pytest.mark.parametrize("has_sibling", [False, True])
def test_5_3_a_cancelled_attempt_is_neither_a_failure_nor_a_success(
    driver: Any, coroutine: bool, has_sibling: bool
) -> None:
    """Two failures open the circuit; cancellations between them do not count, and do not reset the count."""
    released = threading.Event()
    behaviours: list[str] = []

    def plain(state: State) -> None:
        if behaviours[-1] == "fails":
            raise ConnectionError("not now")
        control.request_cancel("stop")
        assert released.wait(600)

    async def asynchronous(state: State) -> None:
        if behaviours[-1] == "fails":
            raise ConnectionError("not now")
        control.request_cancel("stop")
        await asyncio.sleep(600)

    graph = StateGraph(State)
    breaker = CircuitBreaker(failure_threshold=2, reset_after=30)
    graph.add_node("a", asynchronous if coroutine else plain, timeout=600, circuit_breaker=breaker).add_edge(START, "a")
    if has_sibling:
        graph.add_node("b", lambda state: None).add_edge(START, "b")
    app = graph.compile()
    for behaviour, error in [
        ("fails", ConnectionError),
        ("is cancelled", RunCancelled),
        ("is cancelled", RunCancelled),
        ("fails", ConnectionError),
        ("is not called", CircuitOpen),
    ]:
        control = RunControl()
        behaviours.append(behaviour)
        with pytest.raises(error):
            driver.invoke(app, {"x": 1}, control=control)
    released.set()


def test_5_3_a_rate_limit_delays_attempts(driver: Any, paint: Any, clock: FakeClock) -> None:
    starts: list[float] = []

    def node(state: State) -> dict[str, Any]:
        starts.append(clock.monotonic())
        return {"log": [1]}

    app = compile_node(paint(node), clock=clock, rate_limit=RateLimit(limit=1, per=10))
    for _ in range(3):
        run(driver, app, clock)

    assert starts == [0, 10, 20]


def test_5_3_a_rate_limit_may_refuse_attempts(driver: Any) -> None:
    clock = FakeClock()
    app = compile_node(lambda s: {"log": [1]}, clock=clock, rate_limit=RateLimit(limit=2, per=10, on_limit="refuse"))

    driver.invoke(app, {"x": 1})
    driver.invoke(app, {"x": 1})
    with pytest.raises(RateLimited, match="2 times in 10 s"):
        driver.invoke(app, {"x": 1})
    clock.advance(5)
    assert driver.invoke(app, {"x": 1})["log"] == [1]


def test_5_3_nodes_with_a_tag_share_its_limits(driver: Any, clock: FakeClock) -> None:
    starts: list[float] = []

    def node(state: State) -> dict[str, Any]:
        starts.append(clock.monotonic())
        return {"log": [1]}

    graph = StateGraph(State).add_node("a", node, tags=["api"]).add_node("b", node, tags=["api"])
    graph.add_edge(START, "a").add_edge("a", "b").set_tag_limits("api", rate_limit=RateLimit(limit=1, per=3))

    run(driver, graph.compile(clock=clock), clock)
    assert starts == [0, 3]


# -- 5.4 error handlers


@pytest.mark.parametrize("siblings", [0, 1, 3])
def test_5_4_a_handler_runs_once_with_the_failed_input_and_the_error(
    driver: Any, paint: Any, clock: FakeClock, siblings: int
) -> None:
    errors: list[NodeError] = []

    def bad(state: State) -> None:
        raise ConnectionError("down")

    def handler(state: State, error: NodeError) -> dict[str, Any]:
        errors.append(error)
        return {"log": [f"handled {error.node}: {error.error}, x={state['x']}"]}

    graph = StateGraph(State).add_node("bad", paint(bad), error_handler=handler, retry_policy=QUIET)
    graph.add_edge(START, "bad")
    for number in range(siblings):
        graph.add_node(f"s{number}", paint(lambda s: {"log": ["ok"]})).add_edge(START, f"s{number}")

    result = run(driver, graph.compile(clock=clock), clock)
    assert result["log"] == ["ok"] * siblings + ["handled bad: down, x=1"]
    assert len(errors) == 1


def test_5_4_a_default_handler_serves_nodes_without_a_handler(driver: Any) -> None:
    def bad(state: State) -> None:
        raise KeyError("x")

    graph = StateGraph(State).set_node_defaults(error_handler=lambda s, error: {"log": [f"default {error.node}"]})
    graph.add_node("a", bad).add_node("b", bad, error_handler=lambda s: {"log": ["own"]})
    graph.add_edge(START, "a").add_edge(START, "b")

    for _ in range(2):  # compiling again changes nothing
        assert sorted(driver.invoke(graph.compile(), {"x": 1})["log"]) == ["default a", "own"]


def test_5_4_a_handler_is_retried_like_its_node(driver: Any, clock: FakeClock) -> None:
    handler = Flaky(1)
    app = compile_node(Flaky(9), clock=clock, retry_policy=QUIET, error_handler=lambda s: handler(s))

    assert run(driver, app, clock)["log"] == [2]


# -- 5.7 caches


def compile_cached(node: Any, cache: InMemoryCache, **options: Any) -> Any:
    return compile_node(node, compiled={"cache": cache}, **{"cache_policy": CachePolicy(), **options})


def test_5_7_a_cached_result_is_reused_for_the_same_input(driver: Any, paint: Any) -> None:
    calls: list[int] = []

    def node(state: State) -> dict[str, Any]:
        calls.append(state["x"])
        return {"log": [state["x"] * 2]}

    app = compile_cached(paint(node), InMemoryCache())
    results = [driver.invoke(app, {"x": x})["log"] for x in (1, 2, 1)]

    assert results == [[2], [4], [2]]
    assert calls == [1, 2]


def test_5_7_the_targets_of_a_cached_result_are_cached(driver: Any) -> None:
    calls: list[int] = []

    def plan(state: State) -> Any:
        calls.append(1)
        return Command(goto=[Send("work", {"n": n}) for n in range(3)])

    graph = StateGraph(State).add_node("plan", plan, destinations=["work"], cache_policy=CachePolicy())
    graph.add_node("work", lambda s: {"log": [s["n"]]}).add_edge(START, "plan")
    app = graph.compile(cache=InMemoryCache())

    assert [driver.invoke(app, {"x": 1})["log"] for _ in range(2)] == [[0, 1, 2]] * 2
    assert calls == [1]


def test_5_7_a_cached_result_expires_after_its_ttl(driver: Any) -> None:
    clock, calls = FakeClock(), []
    app = compile_cached(
        lambda s: calls.append(1) or {"log": [1]}, InMemoryCache(clock=clock), cache_policy=CachePolicy(ttl=60)
    )

    for seconds in (0, 59, 2):
        clock.advance(seconds)
        driver.invoke(app, {"x": 1})
    assert len(calls) == 2


def test_5_7_a_key_function_selects_the_key_of_the_cache(driver: Any) -> None:
    calls: list[int] = []
    policy = CachePolicy(key_func=lambda state: state["x"] % 2)
    app = compile_cached(lambda s: calls.append(s["x"]) or {"log": [s["x"]]}, InMemoryCache(), cache_policy=policy)

    assert [driver.invoke(app, {"x": x})["log"] for x in (1, 3, 2)] == [[1], [1], [2]]


def test_5_7_another_version_of_the_code_is_another_key(driver: Any) -> None:
    cache, calls = InMemoryCache(), []
    for version in ("1", "2", "2"):
        driver.invoke(compile_cached(lambda s: calls.append(1) or {"log": [1]}, cache, version=version), {"x": 1})

    assert len(calls) == 2


def test_5_7_a_failure_is_not_cached(driver: Any) -> None:
    flaky = Flaky(1)
    app = compile_cached(flaky, InMemoryCache())

    with pytest.raises(ConnectionError):
        driver.invoke(app, {"x": 1})
    assert driver.invoke(app, {"x": 1})["log"] == [2]


class UnavailableCache(InMemoryCache):
    """A cache some of whose calls fail, at once or in the future that they return."""

    def __init__(self, methods: Sequence[str], *, returns_future: bool) -> None:
        super().__init__()
        self._methods = methods
        self._returns_future = returns_future
        self.calls: list[str] = []

    def get(self, key: Any) -> Any:
        return self._fail("get") if "get" in self._methods else super().get(key)

    def put(self, key: Any, value: Any, *, ttl: float | None = None) -> Any:
        return self._fail("put") if "put" in self._methods else super().put(key, value, ttl=ttl)

    def _fail(self, method: str) -> Any:
        self.calls.append(method)
        error = StorageUnavailable("The server is gone.")
        if not self._returns_future:
            raise error
        future: LightFuture[Any] = LightFuture()
        future.set_exception(error)
        return future


@pytest.mark.parametrize("returns_future", [False, True])
@pytest.mark.parametrize(("methods", "expected"), [(("get", "put"), ["get"]), (("put",), ["put"])])
def test_5_7_a_cache_that_is_unavailable_is_not_used(
    driver: Any,
    paint: Any,
    methods: Sequence[str],
    expected: list[str],
    returns_future: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = UnavailableCache(methods, returns_future=returns_future)
    app = compile_cached(paint(lambda s: {"log": [1]}), cache)

    assert driver.invoke(app, {"x": 1})["log"] == [1]
    assert cache.calls == expected
    assert [record.getMessage() for record in caplog.records] == [
        "The cache of results of nodes is not used: The server is gone."
    ]


def test_5_7_a_call_is_made_if_the_cache_is_unavailable(driver: Any) -> None:
    cache = UnavailableCache(("get", "put"), returns_future=False)

    @task(cache_policy=CachePolicy())
    def double(x: int) -> int:
        return 2 * x

    @entrypoint(cache=cache)
    def app(x: int) -> int:
        return double(x).result()

    assert app.invoke(3) == 6
    assert cache.calls == ["get"]


def test_5_7_a_stream_marks_results_from_the_cache(driver: Any) -> None:
    app = compile_cached(lambda s: {"log": [1]}, InMemoryCache())

    parts = [driver.stream(app, {"x": 1}) for _ in range(2)]
    assert parts == [
        [{"node": {"log": [1]}}],
        [{"node": {"log": [1]}, "__metadata__": {"cached": True}}],
    ]


def test_a_cache_may_be_cleared_by_node() -> None:
    cache = InMemoryCache()
    app = compile_cached(lambda s: {"log": [1]}, cache)
    app.invoke({"x": 1})
    cache.clear(["Graph/other"])
    assert next(iter(app.stream({"x": 1})))["__metadata__"] == {"cached": True}
    cache.clear(["Graph/node"])
    assert "__metadata__" not in next(iter(app.stream({"x": 1})))


# -- observers and problems


def test_a_retried_task_is_reported_started_and_finished_once(driver: Any, clock: FakeClock) -> None:
    seen = RecordingInstrument()
    app = compile_node(Flaky(2), clock=clock, compiled={"instruments": [seen]}, retry_policy=QUIET)

    run(driver, app, clock)
    tasks = [event for event in seen.events if event.kind in ("task_started", "task_finished")]
    assert [(event.kind, event.attempt) for event in tasks] == [("task_started", 1), ("task_finished", 3)]


def test_an_invalid_policy_is_refused() -> None:
    makers: list[tuple[Callable[[], object], str]] = [
        (lambda: RetryPolicy(max_attempts=0), "max_attempts is 0"),
        (lambda: RetryPolicy(initial_interval=-1), "initial_interval is -1"),
        (lambda: RetryPolicy(backoff_factor=0.5), "backoff_factor is 0.5"),
        (lambda: RetryPolicy(retry_on="x"), "retry_on is 'x'"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(retry_on=int), "retry_on"),  # type: ignore[arg-type]
        (lambda: TimeoutPolicy(), "neither run_timeout nor idle_timeout"),
        (lambda: TimeoutPolicy(run_timeout=0), "run_timeout is 0"),
        (lambda: TimeoutPolicy(run_timeout=1, refresh_on="x"), "refresh_on is 'x'"),  # type: ignore[arg-type]
        (lambda: CachePolicy(ttl=-1), "ttl is -1"),
        (lambda: CachePolicy(key_func=3), "key_func is 3"),  # type: ignore[arg-type]
        (lambda: RateLimit(limit=0), "limit is 0"),
        (lambda: RateLimit(limit=1, per=0), "per is 0"),
        (lambda: RateLimit(limit=1, on_limit="drop"), "on_limit is 'drop'"),  # type: ignore[arg-type]
        (lambda: CircuitBreaker(failure_threshold=0), "failure_threshold is 0"),
        (lambda: CircuitBreaker(reset_after=0), "reset_after is 0"),
    ]
    for make, expected in makers:
        with pytest.raises(InvalidGraph, match=expected):
            make()


def test_all_contradicting_policies_are_reported_together() -> None:
    graph = StateGraph(State)
    graph.add_node("a", lambda s: None, inline=True, timeout=3)
    graph.add_node("b", lambda s: None, timeout=TimeoutPolicy(run_timeout=1, idle_timeout=2))
    graph.add_node("c", lambda s: None, max_concurrency=0, retry_policy="often", cache_policy=CachePolicy)  # type: ignore
    graph.add_node("d", lambda s: None, reads=["y"], writes=["lgo"])
    graph.add_node("e", lambda s: None, writes=["x"]).add_node("f", lambda s: None, writes=["x"])
    graph.set_tag_limits("api", max_concurrency=-1)
    for name in "abcdef":
        graph.add_edge(START, name)

    with pytest.raises(InvalidGraph) as raised:
        graph.compile()
    text = str(raised.value)
    for expected in (
        "Node 'a' has a timeout and inline=True",
        "Node 'b': idle_timeout is longer than run_timeout",
        "Node 'c': retry_policy= is 'often'",
        "Node 'c': cache_policy= is <class",
        "Node 'c': max_concurrency is 0",
        "Node 'd' reads 'y'",
        "Did you mean 'log'?",
        "Tag 'api': max_concurrency is -1",
        "Nodes 'e' and 'f' both follow '__start__' and both write 'x'",
    ):
        assert expected in text


def test_successors_of_a_node_with_policies_are_reported(driver: Any) -> None:
    graph = StateGraph(State)
    graph.add_node("tried", lambda state: {"log": ["tried"]}, retry_policy=RetryPolicy())
    graph.add_node("plain", lambda state: {"log": ["plain"]})
    app = graph.add_edge(START, "tried").add_edge("tried", "plain").compile()
    parts = driver.stream(app, {}, stream_mode=["updates", "tasks"])
    assert [part for mode, part in parts if mode == "updates"] == [
        {"tried": {"log": ["tried"]}},
        {"plain": {"log": ["plain"]}},
    ]
    assert [part["name"] for mode, part in parts if mode == "tasks"] == ["tried", "tried", "plain", "plain"]
