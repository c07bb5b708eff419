"""Part I section 6.5: concurrent runs on one thread."""

import asyncio
import threading
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, RunControl, StateGraph, append, interrupt
from statewright.checkpoint import Commit, run_of
from statewright.errors import (
    CheckpointConflict,
    GraphRecursionError,
    InvalidConfig,
    LeaseLost,
    RunCancelled,
    ThreadBusy,
)
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class Gate:
    """A node that reports its start, and waits until the test opens it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def plain(self, state: State) -> dict[str, Any]:
        if state["x"] == 1:
            self.begun.set()
            assert self.open.wait(600)
        return {"log": [state["x"]]}

    async def coroutine(self, state: State) -> dict[str, Any]:
        if state["x"] == 1:
            self.begun.set()
            while not self.open.is_set():
                await asyncio.sleep(0.001)
        return {"log": [state["x"]]}


@pytest.fixture(params=["plain", "coroutine"])
def gate(request: pytest.FixtureRequest) -> Any:
    gate = Gate()
    gate.node = getattr(gate, request.param)  # type: ignore[attr-defined]
    return gate


def app_of(node: Any, saver: Any = None, **options: Any) -> Any:
    graph = StateGraph(State).add_node("first", lambda s: {"log": ["in"]}).add_node("node", node)
    return graph.add_edge(START, "first").add_edge("first", "node").compile(saver or InMemorySaver(), **options)


def start_run(driver: Any, app: Any, gate: Any, *, resumes: bool = False) -> tuple[threading.Thread, list[Any]]:
    """Start a run that waits at the gate; its result or error is in the list once it has ended."""
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(driver.invoke(app, None if resumes else {"x": 1}, THREAD))
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert gate.begun.wait(600)
    return thread, outcomes


def test_a_second_run_is_refused_and_nothing_is_written(driver: Any, gate: Any) -> None:
    app = app_of(gate.node)
    thread, outcomes = start_run(driver, app, gate)
    before = list(app.get_state_history(THREAD))

    with pytest.raises(ThreadBusy, match="'1'"):
        driver.invoke(app, {"x": 2}, THREAD)
    with pytest.raises(ThreadBusy):
        app.update_state(THREAD, {"x": 3}, as_node="first")
    assert list(app.get_state_history(THREAD)) == before

    gate.open.set()
    thread.join(600)
    assert outcomes == [{"x": 1, "log": ["in", 1]}]
    assert driver.invoke(app, {"x": 2}, THREAD)["log"] == ["in", 1, "in", 2]


def test_enqueued_runs_wait_and_lose_no_update(driver: Any, gate: Any) -> None:
    app = app_of(gate.node)
    thread, _ = start_run(driver, app, gate)
    others = [
        threading.Thread(target=lambda x=x: driver.invoke(app, {"x": x}, THREAD, on_busy="enqueue")) for x in (2, 3, 4)
    ]
    for other in others:
        other.start()
    gate.open.set()
    for run in (thread, *others):
        run.join(600)

    log = app.get_state(THREAD).values["log"]
    assert log[:2] == ["in", 1]
    assert sorted(log[3::2]) == [2, 3, 4]
    assert log[2::2] == ["in"] * 3


def test_many_enqueued_runs_lose_no_update(driver: Any) -> None:
    app = app_of(lambda s: {"log": [s["x"]]})
    runs = [
        threading.Thread(target=lambda x=x: driver.invoke(app, {"x": x}, THREAD, on_busy="enqueue")) for x in range(12)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join(600)

    assert sorted(app.get_state(THREAD).values["log"][1::2]) == list(range(12))


def test_concurrent_runs_are_either_refused_or_saved(driver: Any) -> None:
    app = app_of(lambda s: {"log": [s["x"]]})
    refused: list[Exception] = []

    def run() -> None:
        try:
            driver.invoke(app, {"x": 1}, THREAD)
        except (ThreadBusy, CheckpointConflict) as busy:
            refused.append(busy)

    runs = [threading.Thread(target=run) for _ in range(8)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join(600)

    assert app.get_state(THREAD).values["log"].count(1) == 8 - len(refused)


def test_interrupt_stops_the_holder_and_keeps_its_results(driver: Any, gate: Any) -> None:
    app = app_of(gate.node)
    thread, outcomes = start_run(driver, app, gate)
    is_uninterruptible = gate.node.__name__ == "plain" and driver.name == "sync"
    if is_uninterruptible:
        threading.Timer(0.05, gate.open.set).start()  # a lone plain function cannot be stopped

    result = driver.invoke(app, {"x": 2}, THREAD, on_busy="interrupt")
    thread.join(600)
    gate.open.set()

    assert isinstance(outcomes[0], RunCancelled | dict if is_uninterruptible else RunCancelled)
    assert result["log"][-2:] == ["in", 2]
    assert result["log"][0] == "in"


def test_rollback_undoes_the_run_of_the_holder(driver: Any) -> None:
    gate = Gate()
    app = app_of(gate.coroutine)
    driver.invoke(app, {"x": 7}, THREAD)
    thread, outcomes = start_run(driver, app, gate)

    result = driver.invoke(app, {"x": 2}, THREAD, on_busy="rollback")
    thread.join(600)

    assert isinstance(outcomes[0], RunCancelled)
    assert result["log"] == ["in", 7, "in", 2]


class CallbackSaver:
    """A saver that calls a function after each call of some methods, before it returns the result."""

    def __init__(self, saver: Any, **calls: Any) -> None:
        self._saver = saver
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._saver, name)
        if name not in self._calls:
            return method

        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            self._calls[name]()
            return answer

        return call


def test_rollback_does_not_undo_a_queued_run(driver: Any, saver: Any) -> None:
    """It waits behind the queued run, which continues from the state before the holder's run."""
    gate, is_queued, results = Gate(), threading.Event(), dict[int, Any]()
    app = app_of(gate.coroutine, saver)
    queued_app = app_of(gate.coroutine, CallbackSaver(saver, lease=is_queued.set))
    thread, outcomes = start_run(driver, app, gate)

    def run_queued() -> None:
        results[2] = driver.invoke(queued_app, {"x": 2}, THREAD, on_busy="enqueue")

    queued_thread = threading.Thread(target=run_queued)
    queued_thread.start()
    assert is_queued.wait(600)
    results[3] = driver.invoke(app, {"x": 3}, THREAD, on_busy="rollback")
    thread.join(600)
    queued_thread.join(600)

    assert isinstance(outcomes[0], RunCancelled)
    assert results[2]["log"] == ["in", "in", 2]
    assert results[3]["log"] == ["in", "in", 2, "in", 3]


def test_rollback_does_not_undo_a_holder_that_has_completed(driver: Any, saver: Any) -> None:
    """The holder completes before it notices the request to stop, as in another process."""
    gate = Gate()
    app = app_of(gate.plain, saver)
    thread, outcomes = start_run(driver, app, gate)

    def end() -> None:
        gate.open.set()
        thread.join(600)

    late = app_of(gate.plain, CallbackSaver(saver, load=end))
    result = driver.invoke(late, {"x": 2}, THREAD, on_busy="rollback")

    assert outcomes == [{"x": 1, "log": ["in", 1]}]
    assert result["log"] == ["in", 1, "in", 2]


def test_rollback_undoes_a_holder_that_continued_another_run(driver: Any, saver: Any) -> None:
    gate = Gate()
    app = app_of(gate.coroutine, saver)
    driver.invoke(app, {"x": 7}, THREAD)
    driver.invoke(app, {"x": 1}, THREAD, interrupt_before="node")
    thread, outcomes = start_run(driver, app, gate, resumes=True)

    result = driver.invoke(app, {"x": 2}, THREAD, on_busy="rollback")
    thread.join(600)

    assert isinstance(outcomes[0], RunCancelled)
    assert result["log"] == ["in", 7, "in", 2]


READERS = {
    "stream": lambda app, **options: app.stream({"x": 1}, THREAD, durability="sync", **options),
    "iter": lambda app, **options: app.iter({"x": 1}, THREAD, durability="sync", **options),
}
EXPECTED_LOGS = {
    "interrupt": ["in", "in", 2],
    "rollback": ["in", 2],
}


@pytest.mark.parametrize("on_busy", EXPECTED_LOGS)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_run_with_a_stalled_reader_releases_its_thread_on_request(
    driver: Any, saver: Any, read: Any, on_busy: str
) -> None:
    clock, outcomes = FakeClock(), list[Any]()
    app = app_of(lambda s: {"log": [s["x"]]}, saver, clock=clock)
    parts = iter(read(app))
    next(parts)

    newcomer = threading.Thread(target=lambda: outcomes.append(driver.invoke(app, {"x": 2}, THREAD, on_busy=on_busy)))
    newcomer.start()
    while newcomer.is_alive():
        clock.advance(1)
        newcomer.join(0.01)

    assert outcomes[0]["log"] == EXPECTED_LOGS[on_busy]
    with pytest.raises(RunCancelled, match=on_busy):
        next(parts)
    assert app.get_state(THREAD).values["log"] == EXPECTED_LOGS[on_busy]
    assert saver.lease("1") is None


def test_an_interrupted_run_keeps_its_thread_while_its_reader_continues(driver: Any, saver: Any) -> None:
    """Only the run itself can save the results of its concurrent tasks."""
    wanted, go_on = threading.Event(), threading.Event()

    def slow(state: State, writer: Any) -> dict[str, Any]:
        if state["x"] == 1 and not go_on.is_set():
            writer("begun")
            assert go_on.wait(600)
        return {"log": ["slow"]}

    calls: list[int] = []

    def quick(state: State) -> dict[str, Any]:
        calls.append(1)
        return {"log": ["quick"]}

    graph = StateGraph(State).add_node("quick", quick).add_node("slow", slow)
    graph.add_edge(START, "quick").add_edge(START, "slow")
    clock = FakeClock()
    app, other = (graph.compile(each, clock=clock) for each in (saver, CallbackSaver(saver, want=wanted.set)))
    parts = app.stream({"x": 1}, THREAD, stream_mode=["custom", "updates"])
    assert ("custom", "begun") in [next(parts), next(parts)]
    forking = threading.Thread(target=lambda: other.fork(THREAD, branch="b", on_busy="interrupt"))
    forking.start()
    assert wanted.wait(600)
    with pytest.raises(RunCancelled):
        next(parts)
    while forking.is_alive():
        clock.advance(1)
        forking.join(0.01)
    go_on.set()

    assert driver.invoke(app, None, THREAD)["log"] == ["quick", "slow"]
    assert calls == [1]


def test_a_run_with_a_stalled_reader_notices_requests_of_other_processes(saver: Any) -> None:
    clock = FakeClock()
    app = app_of(lambda s: {"log": [s["x"]]}, saver, clock=clock)
    parts = app.stream({"x": 1}, THREAD, durability="sync")
    next(parts)
    saver.want("1", "interrupt")
    clock.advance(20)  # it notices the request at the next renewal
    assert saver.lease("1") is not None
    clock.advance(1)
    assert saver.lease("1") is None
    parts.close()


def test_a_plain_call_does_not_block_the_event_loop_of_the_holder(saver: Any, within: Any) -> None:
    gate = Gate()
    app = app_of(gate.coroutine, saver)

    async def main() -> Any:
        holder = asyncio.ensure_future(app.ainvoke({"x": 1}, THREAD))
        while not gate.begun.is_set():
            await asyncio.sleep(0.001)
        with pytest.raises(ThreadBusy):
            app.update_state(THREAD, {"x": 3}, as_node="first", on_busy="enqueue")
        gate.open.set()
        return await holder

    assert within(lambda: asyncio.run(main()))["log"] == ["in", 1]


def test_thread_busy_names_the_run_that_holds_the_thread(driver: Any, saver: Any) -> None:
    gate = Gate()
    app = app_of(gate.plain, saver)
    thread, _ = start_run(driver, app, gate)

    with pytest.raises(ThreadBusy) as busy:
        driver.invoke(app, {"x": 2}, THREAD)
    assert run_of(busy.value.owner) == app.get_state(THREAD).metadata["run_id"]
    gate.open.set()
    thread.join(600)


def test_a_run_that_waits_for_an_answer_does_not_hold_its_thread(driver: Any) -> None:
    app = app_of(lambda s: {"log": [interrupt("?")]})

    driver.invoke(app, {"x": 1}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["in", "yes"]


@pytest.mark.parametrize("ending", ["failure", "limit", "abandoned", "drained", "breakpoint"])
def test_a_run_releases_its_thread_however_it_ends(driver: Any, ending: str) -> None:
    fails = ending == "failure"

    def node(state: State) -> dict[str, Any]:
        if fails:
            raise KeyError("x")
        return {"log": [state["x"]]}

    app = app_of(node)
    if ending == "failure":
        with pytest.raises(KeyError):
            driver.invoke(app, {"x": 1}, THREAD)
        fails = False
    elif ending == "limit":
        with pytest.raises(GraphRecursionError):
            driver.invoke(app, {"x": 1}, THREAD, recursion_limit=1)
    elif ending == "abandoned":
        driver.take(app, {"x": 1}, 1, thread_id="1")
    elif ending == "drained":
        control = RunControl()
        control.request_drain()
        with pytest.raises(Exception, match="drained"):
            driver.invoke(app, {"x": 1}, THREAD, control=control)
    else:
        driver.invoke(app, {"x": 1}, THREAD, interrupt_before="node")

    assert driver.invoke(app, {"x": 2}, THREAD)["log"][-1] == 2


def test_a_lapsed_lease_is_taken_over_and_the_former_owner_is_fenced_off(driver: Any) -> None:
    clock = FakeClock()
    saver = InMemorySaver()
    gate = Gate()
    app = app_of(gate.plain, LostRenewals(saver), clock=clock)
    other = app_of(lambda s: {"log": [s["x"]]}, saver, clock=clock)
    thread, outcomes = start_run(driver, app, gate)

    with pytest.raises(ThreadBusy):
        driver.invoke(other, {"x": 2}, THREAD)
    clock.advance(timedelta(seconds=61))
    assert driver.invoke(other, {"x": 2}, THREAD)["log"] == ["in", "in", 2]
    gate.open.set()
    thread.join(600)

    assert isinstance(outcomes[0], LeaseLost)
    assert other.get_state(THREAD).values["log"] == ["in", "in", 2]


class LostRenewals:
    """A saver whose renewals are lost, like those of a machine that hangs."""

    def __init__(self, saver: InMemorySaver) -> None:
        self._saver = saver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def load(self, *args: Any, **options: Any) -> Any:
        return self._saver.load(*args, **options)

    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        return self._saver.commit(commit, also=also)

    def save_results(self, *args: Any, **options: Any) -> Any:
        return self._saver.save_results(*args, **options)

    def renew(self, thread_id: str, hold: Any) -> Any:
        return None

    def allow(self, types: Any) -> None:
        self._saver.allow(types)

    threads = prune = lease = want = events = history = branches = namespaces = copy_thread = delete_thread = property(
        lambda self: None
    )  # type: ignore


def test_a_lease_is_renewed_while_a_node_works(driver: Any, gate: Any) -> None:
    clock = FakeClock()
    app = app_of(gate.node, clock=clock)
    thread, outcomes = start_run(driver, app, gate)

    for _ in range(10):
        clock.advance(20)
    with pytest.raises(ThreadBusy):
        driver.invoke(app, {"x": 2}, THREAD)
    gate.open.set()
    thread.join(600)

    assert outcomes == [{"x": 1, "log": ["in", 1]}]


def test_an_unknown_policy_is_refused(driver: Any) -> None:
    with pytest.raises(InvalidConfig, match="enqueue"):
        driver.invoke(app_of(lambda s: None), {"x": 1}, THREAD, on_busy="enqeue")


def test_late_steps_of_a_sibling_are_refused_and_take_no_lease(driver: Any) -> None:
    gate, refused = threading.Event(), threading.Event()
    failing = [True]

    def late(state: State, runtime: Any) -> None:
        gate.wait(600)
        try:
            runtime.step("late", int)
        except RunCancelled:
            refused.set()

    def bad(state: State) -> None:
        if failing[0]:
            raise KeyError("x")

    saver = InMemorySaver()
    graph = StateGraph(State).add_node("late", late).add_node("bad", bad)
    app = graph.add_edge(START, "late").add_edge(START, "bad").compile(saver, sibling_grace=0)
    with pytest.raises(KeyError):
        driver.invoke(app, {"x": 1}, THREAD)
    gate.set()

    assert refused.wait(600)
    assert saver.lease("1") is None
    failing[0] = False
    driver.invoke(app, {"x": 2}, THREAD)
