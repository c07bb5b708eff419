"""Part I sections 5.2, 5.5 and 8.3: siblings of a failed task, and work left over from an ended run."""

import asyncio
import contextlib
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    CachePolicy,
    CircuitBreaker,
    InMemoryCache,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    append,
    task,
)
from statewright.errors import GraphDrained, InvalidConfig, InvalidGraph, NodeTimeoutError, RunCancelled
from statewright.runtime import Instrument
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}
LONG = 600
"""Seconds after which a test that hangs fails."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


class FailingPair:
    """A node that fails while a slow plain node is running, which finishes once `go_on` is set."""

    def __init__(self, *, fails: int = 1) -> None:
        self.running = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self.charged: list[int] = []
        self.runs: list[str] = []
        self.raised: list[BaseException] = []
        self._failures = fails

    def slow(self, state: State, runtime: Runtime[Any]) -> State:
        self.runs.append("slow")
        self.running.set()
        try:
            assert self.go_on.wait(LONG)
            return {"log": [runtime.step("charge", self._charge)]}
        except BaseException as error:
            self.raised.append(error)
            raise
        finally:
            self.ended.set()

    def _charge(self) -> str:
        self.charged.append(1)
        return "charged"

    def bad(self, state: State) -> State:
        self.runs.append("bad")
        assert self.running.wait(LONG)
        if self._failures:
            self._failures -= 1
            raise ValueError("no luck")
        return {"log": ["bad"]}

    def graph(self, **options: Any) -> StateGraph:
        graph = StateGraph(State).add_node("slow", self.slow, **options).add_node("bad", self.bad)
        return graph.add_edge(START, "slow").add_edge(START, "bad")


class OnFailure(Instrument):
    """Calls back when a task has failed."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def on_task_finished(self, event: Any) -> None:
        if hasattr(event.data, "error"):
            self._callback()


@pytest.mark.parametrize("options", [{}, {"timeout": 3600}, {"max_concurrency": 1}], ids=lambda options: str(options))
def test_5_5_a_failing_run_waits_for_plain_siblings_and_keeps_their_results(
    driver: Any, within: Any, saver: Any, options: Any
) -> None:
    pair = FailingPair()
    app = pair.graph(**options).compile(saver, instruments=[OnFailure(pair.go_on.set)])

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD), LONG)
    assert pair.ended.is_set()
    assert [item.result for item in app.get_state(THREAD).tasks] == [{"log": ["charged"]}, None]
    assert within(lambda: driver.invoke(app, None, THREAD), LONG)["log"] == ["charged", "bad"]
    assert (pair.charged, sorted(pair.runs)) == ([1], ["bad", "bad", "slow"])


def test_5_5_a_failure_is_reported_and_logged_before_waiting_for_siblings(driver: Any, within: Any, saver: Any) -> None:
    pair, logged = FailingPair(), list[Any]()

    def await_event() -> None:
        while not (logged and logged[-1]):
            logged.append([event.data for event in app.get_events(THREAD) if "no luck" in str(event.data)])
        pair.go_on.set()

    app = pair.graph().compile(saver, instruments=[OnFailure(threading.Thread(target=await_event, daemon=True).start)])
    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD), LONG)
    assert logged[-1] == [{"error": "ValueError: no luck"}]
    assert [item.error for item in app.get_state(THREAD).tasks] == [None, "ValueError: no luck"]


def test_5_5_the_sibling_grace_is_measured_by_the_clock_of_the_run(driver: Any, within: Any) -> None:
    pair, clock = FailingPair(), FakeClock()
    has_ended = threading.Event()

    def let_time_pass() -> None:
        while not has_ended.is_set():
            clock.advance(1)

    app = pair.graph().compile(InMemorySaver(), clock=clock)
    timer = threading.Thread(target=let_time_pass, daemon=True)
    timer.start()
    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD, sibling_grace=timedelta(minutes=2)), LONG)
    has_ended.set()
    timer.join()
    assert not pair.ended.is_set()
    assert clock.monotonic() >= 120
    pair.go_on.set()
    assert pair.ended.wait(LONG)
    assert (pair.charged, type(pair.raised[0])) == ([], RunCancelled)


@pytest.mark.parametrize("given_to", ["compile", "call"])
def test_5_5_without_grace_the_run_ends_at_once_and_late_steps_are_refused(
    driver: Any, within: Any, given_to: str
) -> None:
    pair = FailingPair()
    app = pair.graph().compile(InMemorySaver(), **({"sibling_grace": 0} if given_to == "compile" else {}))

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD, **({"sibling_grace": 0} if given_to == "call" else {})), LONG)
    assert not pair.ended.is_set()
    pair.go_on.set()
    assert pair.ended.wait(LONG)
    assert (pair.charged, type(pair.raised[0])) == ([], RunCancelled)


def test_5_5_an_explicit_grace_applies_without_a_checkpointer(driver: Any, within: Any) -> None:
    pair = FailingPair()
    app = pair.graph().compile(instruments=[OnFailure(pair.go_on.set)])

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, sibling_grace=None), LONG)
    assert pair.ended.is_set()


@pytest.mark.parametrize("grace", [-1, "30", True, float("nan")])
def test_5_5_an_invalid_grace_is_refused(driver: Any, grace: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda state: None).add_edge(START, "a")
    with pytest.raises(InvalidGraph, match="sibling_grace"):
        graph.compile(sibling_grace=grace)
    with pytest.raises(InvalidConfig, match="sibling_grace"):
        driver.invoke(graph.compile(), {}, sibling_grace=grace)


def test_5_5_no_task_begins_after_a_failure(driver: Any, within: Any) -> None:
    pair, begun = FailingPair(), list[str]()
    graph = pair.graph()
    for number in range(20):
        name = f"later{number}"
        graph.add_node(name, lambda state, name=name: begun.append(name)).add_edge(START, name)
    app = graph.compile(InMemorySaver(), instruments=[OnFailure(pair.go_on.set)])

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD, max_concurrency=2), LONG)
    assert pair.charged == [1]
    assert begun == []


def test_5_5_a_failing_run_does_not_wait_for_a_sibling_between_attempts(driver: Any, within: Any) -> None:
    clock, tried = FakeClock(), threading.Event()

    def flaky(state: State) -> State:
        tried.set()
        raise ConnectionError

    def bad(state: State) -> State:
        assert tried.wait(LONG)
        raise ValueError("no luck")

    graph = StateGraph(State).add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=1000))
    app = (
        graph.add_node("bad", bad).add_edge(START, "flaky").add_edge(START, "bad").compile(InMemorySaver(), clock=clock)
    )
    with pytest.raises((ValueError, ConnectionError)):
        within(lambda: driver.invoke(app, {}, THREAD, sibling_grace=None), LONG)


def test_5_5_cancelling_the_run_ends_the_wait_for_siblings(driver: Any, within: Any) -> None:
    pair, control = FailingPair(), RunControl()
    app = pair.graph().compile(InMemorySaver(), instruments=[OnFailure(control.request_cancel)])

    with pytest.raises((ValueError, RunCancelled)):
        within(lambda: driver.invoke(app, {}, THREAD, control=control, sibling_grace=None), LONG)
    assert not pair.ended.is_set()
    pair.go_on.set()


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("has_sibling", [False, True])
def test_5_5_coroutine_siblings_are_cancelled_at_once_at_any_depth(
    driver: Any, within: Any, depth: int, has_sibling: bool
) -> None:
    running, cancelled = threading.Event(), threading.Event()

    async def forever(state: State) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def bad(state: State) -> None:
        while not running.is_set():
            await asyncio.sleep(0.001)
        raise ValueError("no luck")

    nested: Any = forever
    for _ in range(depth):
        inner = StateGraph(State).add_node("inner", nested).add_edge(START, "inner")
        if has_sibling:
            inner.add_node("quick", lambda state: {"log": ["quick"]}).add_edge(START, "quick")
        nested = inner.compile()
    graph = StateGraph(State).add_node("nested", nested).add_node("bad", bad)
    app = graph.add_edge(START, "nested").add_edge(START, "bad").compile(InMemorySaver(), sibling_grace=None)

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD))
    assert cancelled.wait(LONG)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("has_sibling", [False, True])
def test_5_5_a_failing_run_waits_for_plain_siblings_in_subgraphs(
    driver: Any, within: Any, saver: Any, depth: int, has_sibling: bool
) -> None:
    pair, after = FailingPair(), list[str]()
    inner = StateGraph(State).add_node("slow", pair.slow).add_node("after", lambda state: after.append("after"))
    inner.add_edge(START, "slow").add_edge("slow", "after")
    if has_sibling:
        inner.add_node("quick", lambda state: {"log": ["quick"]}).add_edge(START, "quick")
    nested: Any = inner.compile()
    for _ in range(depth - 1):
        nested = StateGraph(State).add_node("deeper", nested).add_edge(START, "deeper").compile()
    graph = StateGraph(State).add_node("nested", nested).add_node("bad", pair.bad)
    app = graph.add_edge(START, "nested").add_edge(START, "bad")
    app = app.compile(saver, instruments=[OnFailure(pair.go_on.set)])

    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD, durability="sync"), LONG)
    assert (pair.charged, after) == ([1], [])
    log = within(lambda: driver.invoke(app, None, THREAD), LONG)["log"]
    assert sorted(log) == sorted(["charged", "bad", *(["quick"] if has_sibling else [])])
    assert (pair.charged, pair.runs.count("slow"), after) == ([1], 1, ["after"])


def test_5_5_the_first_of_two_failures_is_raised_and_both_are_saved(driver: Any, within: Any) -> None:
    both, first = threading.Barrier(2), threading.Event()

    def late(state: State) -> State:
        both.wait(LONG)
        assert first.wait(LONG)
        raise KeyError("late")

    def early(state: State) -> State:
        both.wait(LONG)
        raise ValueError("early")

    graph = StateGraph(State).add_node("late", late).add_node("early", early).add_edge(START, "late")
    app = graph.add_edge(START, "early").compile(InMemorySaver(), instruments=[OnFailure(first.set)])
    with pytest.raises(ValueError, match="early"):
        within(lambda: driver.invoke(app, {}, THREAD), LONG)
    assert [item.error for item in app.get_state(THREAD).tasks] == ["KeyError: 'late'", "ValueError: early"]


# -- steps of an ended run


@pytest.mark.parametrize("kind", ["step", "task"])
@pytest.mark.parametrize("end", ["cancelled", "interrupted", "timeout", "abandoned"])
def test_5_2_an_ended_run_begins_no_steps(driver: Any, within: Any, kind: str, end: str) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    done, refused, control, clock = list[str](), list[BaseException](), RunControl(), FakeClock()

    def effect() -> str:
        done.append("done")
        return "done"

    call = task(effect)

    def node(state: State, runtime: Runtime[Any]) -> State:
        if begun.is_set():  # in the next run
            return {"log": ["again"]}
        begun.set()
        if end == "timeout":
            clock.advance(10)
        try:
            assert go_on.wait(LONG)
            return {"log": [runtime.step("effect", effect) if kind == "step" else call().result(LONG)]}
        except BaseException as error:
            refused.append(error)
            raise
        finally:
            ended.set()

    def stop(state: State) -> State:
        assert begun.wait(LONG)
        if end == "cancelled":
            control.request_cancel()
        return {"log": ["stop"]}

    graph = StateGraph(State).add_node("node", node, **({"timeout": 5} if end == "timeout" else {}))
    graph.add_node("stop", stop).add_edge(START, "node").add_edge(START, "stop")
    app = graph.compile(InMemorySaver(), clock=clock if end == "timeout" else None)
    if end == "cancelled":
        with pytest.raises(RunCancelled):
            within(lambda: driver.invoke(app, {}, THREAD, control=control), LONG)
    elif end == "timeout":
        with pytest.raises(NodeTimeoutError):
            within(lambda: driver.invoke(app, {}, THREAD), LONG)
    elif end == "interrupted":
        first = threading.Thread(
            target=_ignore_cancellation, args=(lambda: driver.invoke(app, {}, THREAD),), daemon=True
        )
        first.start()
        assert begun.wait(LONG)
        within(lambda: driver.invoke(app, None, THREAD, on_busy="interrupt"), LONG)
        first.join(LONG)
    else:
        assert within(lambda: driver.take(app, {}, 1, config=THREAD), LONG) == [{"stop": {"log": ["stop"]}}]
    go_on.set()
    assert ended.wait(LONG)
    assert (done, [type(error) for error in refused]) == ([], [RunCancelled])


def _ignore_cancellation(call: Any) -> None:
    with contextlib.suppress(RunCancelled):
        call()


def test_5_2_a_task_with_its_own_policy_does_not_outlive_its_attempt(driver: Any, within: Any) -> None:
    clock, go_on, ended, done = FakeClock(), threading.Event(), threading.Event(), list[int]()
    call = task(lambda: done.append(1), name="call", retry_policy=RetryPolicy())

    def node(state: State) -> State:
        clock.advance(10)
        assert go_on.wait(LONG)
        try:
            call().result(LONG)
        finally:
            ended.set()
        return {}

    app = StateGraph(State).add_node("node", node, timeout=5).add_edge(START, "node").compile(clock=clock)
    with pytest.raises(NodeTimeoutError):
        within(lambda: driver.invoke(app, {}), LONG)
    go_on.set()
    assert ended.wait(LONG)
    assert done == []


@pytest.mark.parametrize("is_taken_over", [False, True])
@pytest.mark.parametrize("node_kind", ["plain", "coroutine"])
def test_5_2_an_expired_lease_is_renewed_before_a_step(
    driver: Any, within: Any, saver: Any, is_taken_over: bool, node_kind: str
) -> None:
    """This is a process that was suspended for longer than its lease: its timers have not fired either."""

    class SuspendedClock(FakeClock):
        def call_later(self, seconds: float, callback: Any) -> Any:
            return super().call_later(seconds + 1e6, callback)

    clock, other_runs = SuspendedClock(), list[Any]()
    done: list[str] = []

    def effect() -> str:
        done.append("effect")
        return "effect"

    async def aeffect() -> str:
        return effect()

    def suspend() -> bool:
        """Suspend the process, and return True, except in the other run."""
        if other_runs:
            return False
        clock.advance(1000)
        if is_taken_over:
            other_runs.append(threading.Thread(target=lambda: app.invoke(None, THREAD), daemon=True))
            other_runs[0].start()
            other_runs[0].join(LONG)
        return True

    def node(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.step("effect", effect) if suspend() else "other"]}

    async def anode(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [await runtime.step("effect", aeffect) if suspend() else "other"]}

    graph = StateGraph(State).add_node("node", node if node_kind == "plain" else anode).add_edge(START, "node")
    app = graph.compile(saver, clock=clock)
    if is_taken_over:
        with pytest.raises(Exception):  # noqa: B017, PT011  # refused, as is its last write
            within(lambda: driver.invoke(app, {}, THREAD, durability="sync"), LONG)
        assert (done, app.get_state(THREAD).values["log"]) == ([], ["other"])
    else:
        assert within(lambda: driver.invoke(app, {}, THREAD), LONG)["log"] == ["effect"]


# -- cancellation


def test_5_5_a_run_cancelled_during_its_last_node_keeps_the_result(driver: Any, within: Any, saver: Any) -> None:
    control, runs = RunControl(), list[int]()

    def last(state: State) -> State:
        runs.append(1)
        control.request_cancel()
        return {"log": ["last"]}

    app = StateGraph(State).add_node("last", last).add_edge(START, "last").compile(saver)
    with pytest.raises(RunCancelled):
        within(lambda: driver.invoke(app, {}, THREAD, control=control), LONG)
    assert app.get_events(THREAD)[-1].data["status"] == "cancelled"
    assert within(lambda: driver.invoke(app, None, THREAD), LONG)["log"] == ["last"]
    assert len(runs) == (1 if driver.name == "sync" else 2)  # the async driver does not wait for its worker thread


@pytest.mark.parametrize("has_sibling", [False, True])
@pytest.mark.parametrize("node_kind", ["plain", "coroutine"])
def test_5_5_cancelling_a_shared_control_ends_both_runs(
    driver: Any, within: Any, has_sibling: bool, node_kind: str
) -> None:
    control, sleeping = RunControl(), threading.Event()

    async def forever(state: State) -> State:
        sleeping.set()
        await asyncio.Event().wait()
        return {}

    inner = StateGraph(State).add_node("forever", forever).add_edge(START, "forever").compile(InMemorySaver())

    def outer(state: State, runtime: Runtime[Any]) -> State:
        return inner.invoke({}, thread_id="inner", control=runtime.control)

    async def aouter(state: State, runtime: Runtime[Any]) -> State:
        return await inner.ainvoke({}, thread_id="inner", control=runtime.control)

    graph = StateGraph(State).add_node("outer", outer if node_kind == "plain" else aouter).add_edge(START, "outer")
    if has_sibling:
        graph.add_node("beside", forever).add_edge(START, "beside")
    app = graph.compile(InMemorySaver())

    def cancel() -> None:
        assert sleeping.wait(LONG)
        control.request_cancel()

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(RunCancelled):
        within(lambda: driver.invoke(app, {}, THREAD, control=control), LONG)


def test_5_5_a_task_waiting_for_a_slot_can_be_cancelled(driver: Any, within: Any) -> None:
    control, holds, free = RunControl(), threading.Event(), threading.Event()

    def node(state: State) -> State:
        holds.set()
        assert free.wait(LONG)
        return {}

    app = StateGraph(State).add_node("node", node, max_concurrency=1).add_edge(START, "node").compile()
    holder = threading.Thread(target=lambda: app.invoke({}), daemon=True)
    holder.start()
    assert holds.wait(LONG)
    threading.Timer(0.05, control.request_cancel).start()
    with pytest.raises(RunCancelled):
        within(lambda: driver.invoke(app, {}, control=control), LONG)
    free.set()
    holder.join(LONG)
    assert within(lambda: driver.invoke(app, {}), LONG) is not None  # the slot is free again


# -- exceptions around an attempt


class BrokenCache(InMemoryCache):
    """A cache with one method that fails."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method

    def get(self, key: Any) -> Any:
        if self._method == "get":
            raise LookupError("no luck")
        return super().get(key)

    def put(self, key: Any, result: Any, **options: Any) -> Any:
        if self._method == "put":
            raise LookupError("no luck")
        return super().put(key, result, **options)


def _raises(*_: Any) -> Any:
    raise LookupError("no luck")


POLICIES: dict[str, Any] = {
    "key_func": {"cache_policy": CachePolicy(key_func=_raises)},
    "retry_on": {"retry_policy": RetryPolicy(retry_on=_raises)},
    "counts": {"circuit_breaker": CircuitBreaker(counts=_raises), "max_concurrency": 1},
    "get": {"cache_policy": CachePolicy()},
    "put": {"cache_policy": CachePolicy()},
}


@pytest.mark.parametrize("has_sibling", [False, True])
@pytest.mark.parametrize("node_kind", ["plain", "coroutine"])
@pytest.mark.parametrize("policy", POLICIES)
def test_5_3_an_exception_from_a_policy_or_a_cache_fails_the_task(
    driver: Any, within: Any, policy: str, node_kind: str, has_sibling: bool
) -> None:
    def node(state: State) -> State:
        if policy in ("retry_on", "counts"):
            raise ConnectionError
        return {"log": ["node"]}

    async def anode(state: State) -> State:
        return node(state)

    graph = StateGraph(State).add_node("node", node if node_kind == "plain" else anode, **POLICIES[policy])
    graph.add_edge(START, "node")
    if has_sibling:
        graph.add_node("other", lambda state: {"log": ["other"]}).add_edge(START, "other")
    app = graph.compile(InMemorySaver(), cache=BrokenCache(policy))
    for _ in range(2):  # the first failure has released its slot
        with pytest.raises(LookupError, match="no luck") as raised:
            within(lambda: driver.invoke(app, {}, THREAD), LONG)
    assert any("node 'node'" in note for note in raised.value.__notes__)
    assert app.get_state(THREAD).tasks[0].error == "LookupError: no luck"


@dataclass(frozen=True)
class FrozenError(Exception):
    """An error whose attributes cannot be set."""

    code: int


class UnnotableError(Exception):
    """An error that refuses notes."""

    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")


@pytest.mark.parametrize("error", [FrozenError(7), UnnotableError("x")], ids=["frozen", "unnotable"])
@pytest.mark.parametrize("node_kind", ["plain", "coroutine"])
@pytest.mark.parametrize("has_sibling", [False, True])
@pytest.mark.parametrize("options", [{}, {"retry_policy": RetryPolicy(max_attempts=1)}], ids=["plain", "guarded"])
def test_5_3_an_error_that_rejects_notes_is_raised_unchanged(
    driver: Any, within: Any, error: Exception, node_kind: str, has_sibling: bool, options: Any
) -> None:
    def fails(state: State) -> None:
        raise error

    async def fails_async(state: State) -> None:
        raise error

    graph = StateGraph(State).add_node("bad", fails if node_kind == "plain" else fails_async, **options)
    graph.add_edge(START, "bad")
    if has_sibling:
        graph.add_node("good", lambda state: {"log": ["good"]}).add_edge(START, "good")
    app = graph.compile(InMemorySaver())
    with pytest.raises(type(error)) as raised:
        within(lambda: driver.invoke(app, {}, THREAD))
    assert raised.value is error


@pytest.mark.parametrize("options", ["none", "handler", "retries"])
def test_5_5_a_drain_inside_a_subgraph_is_not_a_failure_of_its_node(driver: Any, options: str) -> None:
    control = RunControl()

    def first(state: State) -> State:
        control.request_drain("deploy")
        return {"log": ["first"]}

    def handler(state: State) -> State:
        return {"log": ["handled"]}

    node_options: dict[str, Any] = {
        "none": {},
        "handler": {"error_handler": handler},
        "retries": {"retry_policy": RetryPolicy(max_attempts=3, initial_interval=0)},
    }[options]
    inner = StateGraph(State).add_node(first).add_node("second", lambda state: {"log": ["second"]})
    graph = StateGraph(State).add_node(
        "sub", inner.add_edge(START, "first").add_edge("first", "second").compile(), **node_options
    )
    app = graph.add_edge(START, "sub").compile(InMemorySaver())
    with pytest.raises(GraphDrained):
        driver.invoke(app, {}, THREAD, control=control)
    assert app.get_state(THREAD).next == ("sub",)
    assert driver.invoke(app, None, THREAD)["log"] == ["first", "second"]


def test_5_3_a_node_that_cancels_its_own_asyncio_task_fails_without_hanging(driver: Any, within: Any) -> None:
    async def cancel_itself(state: State) -> State:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(0)
        return {}

    graph = (
        StateGraph(State).add_node("cancel_itself", cancel_itself).add_node("other", lambda state: {"log": ["other"]})
    )
    app = graph.add_edge(START, "cancel_itself").add_edge(START, "other").compile()
    with pytest.raises(BaseException, match="cancel_itself"):
        within(lambda: driver.invoke(app, {}), LONG)


def test_8_6_an_exception_from_an_instrument_is_logged_and_the_run_continues(
    driver: Any, within: Any, caplog: Any
) -> None:
    class FailingInstrument(Instrument):
        def on_run_started(self, event: Any) -> None:
            raise asyncio.CancelledError

        def on_task_finished(self, event: Any) -> None:
            raise ValueError

        def on_message(self, event: Any) -> None:
            raise ValueError

        def wants_messages(self) -> bool:
            raise ValueError

    def node(state: State, runtime: Runtime[Any]) -> State:
        return {"log": ["node"]}

    app = StateGraph(State).add_node("node", node, retry_policy=RetryPolicy()).add_edge(START, "node")
    with caplog.at_level(logging.ERROR, "statewright"):
        assert within(lambda: driver.invoke(app.compile(instruments=[FailingInstrument()]), {}), LONG)["log"] == [
            "node"
        ]
    assert "An instrument failed: FailingInstrument.on_run_started" in caplog.text


def test_7_2_an_unstorable_result_does_not_hide_the_error_of_a_sibling(
    driver: Any, within: Any, tmp_path: Path
) -> None:
    class Unknown:
        pass

    both = threading.Barrier(3)

    def unstorable(state: State) -> State:
        both.wait(LONG)
        return {"log": [Unknown()]}

    def good(state: State) -> State:
        both.wait(LONG)
        return {"log": ["good"]}

    def bad(state: State) -> State:
        both.wait(LONG)
        raise LookupError("the real one")

    graph = StateGraph(State)
    for node in (unstorable, good, bad):
        graph.add_node(node).add_edge(START, node.__name__)
    with SqliteSaver(tmp_path / "threads.db") as saver:
        app = graph.compile(saver)
        with pytest.raises(LookupError, match="the real one") as raised:
            within(lambda: driver.invoke(app, {}, THREAD), LONG)
        assert any("'unstorable'" in note and "cannot be stored" in note for note in raised.value.__notes__)
        assert [item.result for item in app.get_state(THREAD).tasks] == [None, {"log": ["good"]}, None]
        lease: Any = saver.lease("1")
        assert lease is None or lease.result() is None
