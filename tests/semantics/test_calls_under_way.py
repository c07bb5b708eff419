"""Part I sections 5.2, 5.3, 5.5 and 8.3: calls of `@task` functions that outlive an attempt, a task or a run."""

import asyncio
import contextlib
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    StateGraph,
    append,
    get_runtime,
    interrupt,
    task,
)
from statewright.errors import InvalidUpdateError, NonDeterminismError, RunCancelled, StorageLocked
from statewright.runtime import Instrument

THREAD = {"thread_id": "1"}
LONG = 600
"""Seconds after which a test that hangs fails."""
RETRIES = RetryPolicy(max_attempts=50, initial_interval=0.001, backoff_factor=1, jitter=False, retry_on=Exception)


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


@pytest.fixture(params=["alone", "with a sibling"])
def graph_of(request: Any) -> Any:
    """Return a function that builds a graph of one node, with or without a sibling."""

    def build(node: Any, **options: Any) -> StateGraph:
        graph = StateGraph(State).add_node("node", node, **options).add_edge(START, "node")
        if request.param == "with a sibling":
            graph.add_node("other", lambda state: None).add_edge(START, "other")
        return graph

    return build


class Charging:
    """Tasks that wait until the test lets them continue, and count their calls."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.is_running = threading.Event()
        self.go_on = threading.Event()
        self.charge = task(self._charge, name="charge")
        self.charge_async = task(self._charge_async, name="charge_async")

    def _charge(self, amount: int) -> str:
        self.begun.append(amount)
        self.is_running.set()
        assert self.go_on.wait(LONG)
        self.ended.append(amount)
        return f"receipt {len(self.begun)}"

    async def _charge_async(self, amount: int) -> str:
        self.begun.append(amount)
        self.is_running.set()
        while not self.go_on.is_set():
            await asyncio.sleep(0.001)
        self.ended.append(amount)
        return f"receipt {len(self.begun)}"

    def continue_soon(self) -> None:
        """Continue a little later, so that a caller that does not wait is noticed."""
        threading.Timer(0.1, self.go_on.set).start()


class OnFinished(Instrument):
    """Calls a function when the node has ended, before the run reacts."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def on_task_finished(self, event: Any) -> None:
        if event.node == "node":
            self._callback()


@pytest.fixture
def charging() -> Any:
    charging = Charging()
    yield charging
    charging.go_on.set()  # end the calls of a failed test


class FailingOnce:
    """Nodes that start a call, and whose first attempt fails while the call is running."""

    def __init__(self, charging: Charging) -> None:
        self._charging = charging
        self._attempts = 0

    def _fail_once(self) -> None:
        assert self._charging.is_running.wait(LONG)
        self._attempts += 1
        if self._attempts == 1:
            raise ConnectionError("once")
        self._charging.go_on.set()

    def plain(self, state: State) -> State:
        receipt = self._charging.charge(10)
        self._fail_once()
        return {"log": [receipt.result()]}

    def plain_of_coroutine(self, state: State) -> State:
        receipt = self._charging.charge_async(10)
        self._fail_once()
        return {"log": [receipt.result()]}

    async def coroutine(self, state: State) -> State:
        receipt = self._charging.charge_async(10)
        while not self._charging.is_running.is_set():
            await asyncio.sleep(0)
        self._fail_once()
        return {"log": [await receipt]}

    async def mixed(self, state: State) -> State:
        receipt = self._charging.charge(10)
        self._fail_once()
        return {"log": [await receipt]}


@pytest.mark.parametrize("kind", ["plain", "plain_of_coroutine", "coroutine", "mixed"])
def test_5_2_the_next_attempt_takes_over_a_running_call(
    driver: Any, within: Any, charging: Charging, graph_of: Any, kind: str
) -> None:
    for saver in (InMemorySaver(), None):
        node = getattr(FailingOnce(charging), kind)
        app = graph_of(node, retry_policy=RETRIES).compile(saver)
        charging.begun.clear()
        charging.go_on.clear()
        result = within(lambda app=app, saver=saver: driver.invoke(app, {}, THREAD if saver else None))

        assert (result["log"], charging.begun) == (["receipt 1"], [10])


@pytest.mark.parametrize("first", ["alone", "workspace"])
@pytest.mark.parametrize("second", ["alone", "workspace"])
def test_5_5_the_next_run_takes_over_a_call_through_another_saver_of_the_data(
    driver: Any, charging: Charging, saver: Any, first: str, second: str
) -> None:
    has_restarted, entered = threading.Event(), list[int]()

    def node(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.is_running.wait(LONG)
        entered.append(1)
        if len(entered) == 2:
            has_restarted.set()
        return {"log": [receipt.result()]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    first_app, second_app = (
        graph.compile(saver if form == "alone" else saver.for_workspace(saver.workspace)) for form in (first, second)
    )
    control = RunControl()

    def cancel() -> None:
        assert charging.is_running.wait(LONG)
        control.request_cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(RunCancelled):
        driver.invoke(first_app, {}, THREAD, control=control)
    results: list[Any] = []
    running = threading.Thread(target=lambda: results.append(driver.invoke(second_app, None, THREAD)))
    running.start()
    assert has_restarted.wait(LONG)
    charging.go_on.set()
    running.join()
    assert (results[0]["log"], charging.begun) == (["receipt 1"], [10])


def test_5_2_a_plain_task_must_not_return_a_coroutine(driver: Any) -> None:
    async def charge() -> str:
        return "receipt"

    app = StateGraph(State).add_node("node", lambda state: {"log": [task(lambda: charge())().result()]})
    with pytest.raises(InvalidUpdateError, match="async def"):
        driver.invoke(app.add_edge(START, "node").compile(InMemorySaver()), {}, THREAD)


def test_5_2_calling_a_running_task_with_other_arguments_is_an_error(
    driver: Any, within: Any, charging: Charging
) -> None:
    amounts = iter([10, 11])

    def node(state: State) -> State:
        charging.charge(next(amounts))
        assert charging.is_running.wait(LONG)
        raise ConnectionError("again")

    policy = RetryPolicy(max_attempts=5, initial_interval=0.001, retry_on=ConnectionError)
    app = StateGraph(State).add_node("node", node, retry_policy=policy).add_edge(START, "node")
    with pytest.raises(NonDeterminismError, match="'charge'"):
        within(lambda: driver.invoke(app.compile(), {}))
    assert charging.begun == [10]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_3_the_next_attempt_takes_over_calls_of_a_timed_out_attempt(
    driver: Any, within: Any, charging: Charging, graph_of: Any, kind: str
) -> None:
    attempts: list[int] = []

    def begin() -> Any:
        receipt = charging.charge(10)
        attempts.append(1)
        if len(attempts) > 1:
            charging.go_on.set()
        return receipt

    def plain(state: State) -> State:
        return {"log": [begin().result()]}

    async def coroutine(state: State) -> State:
        return {"log": [await begin()]}

    app = graph_of({"plain": plain, "coroutine": coroutine}[kind], timeout=0.2, retry_policy=RETRIES)
    assert within(lambda: driver.invoke(app.compile(InMemorySaver()), {}, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]
    assert len(attempts) > 1


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_3_a_call_whose_step_was_refused_is_repeated_by_the_next_attempt(driver: Any, within: Any, kind: str) -> None:
    begun, attempts = list[int](), list[int]()

    def is_second_call() -> bool:
        begun.append(1)
        return len(begun) > 1

    @task
    def charge() -> str:
        if is_second_call():
            return "done"
        try:
            while True:  # until the attempt is abandoned
                get_runtime().step("inside", time.sleep, 0.001)
        except RunCancelled:
            while len(attempts) == 1:
                time.sleep(0.001)
            raise

    @task
    async def charge_async() -> str:
        if is_second_call():
            return "done"
        try:
            while True:
                await get_runtime().step("inside", asyncio.sleep, 0.001)
        except RunCancelled:
            while len(attempts) == 1:
                await asyncio.sleep(0.001)
            raise

    def node(state: State) -> State:
        receipt = charge() if kind == "plain" else charge_async()
        attempts.append(1)
        return {"log": [receipt.result()]}

    app = StateGraph(State).add_node("node", node, timeout=0.2, retry_policy=RETRIES).add_edge(START, "node")
    assert within(lambda: driver.invoke(app.compile(), {}))["log"] == ["done"]
    assert begun == [1, 1]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("in_subgraph", [False, True], ids=["graph", "subgraph"])
def test_5_2_a_pausing_node_waits_for_its_plain_calls(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, kind: str, in_subgraph: bool
) -> None:
    def plain(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.is_running.wait(LONG)
        answer = interrupt("go on?")
        return {"log": [receipt.result(), answer]}

    async def coroutine(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.is_running.wait(LONG)
        answer = interrupt("go on?")
        return {"log": [await receipt, answer]}

    node = {"plain": plain, "coroutine": coroutine}[kind]
    graph = graph_of(graph_of(node).compile() if in_subgraph else node)
    app = graph.compile(saver, instruments=[OnFinished(charging.continue_soon)])
    within(lambda: driver.invoke(app, {}, THREAD))

    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["receipt 1", "yes"]
    assert charging.begun == [10]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_5_a_failing_node_waits_for_its_plain_calls(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, kind: str
) -> None:
    def fail_once(receipt: Any) -> Any:
        assert charging.is_running.wait(LONG)
        if not charging.ended:
            raise ValueError("failed")
        return receipt

    def plain(state: State) -> State:
        return {"log": [fail_once(charging.charge(10)).result()]}

    async def coroutine(state: State) -> State:
        return {"log": [await fail_once(charging.charge(10))]}

    graph = graph_of({"plain": plain, "coroutine": coroutine}[kind])
    app = graph.compile(saver, instruments=[OnFinished(charging.continue_soon)])
    with pytest.raises(ValueError, match="failed"):
        within(lambda: driver.invoke(app, {}, THREAD))

    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, None, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]


def test_5_5_a_run_waits_for_plain_calls_of_cancelled_coroutines(
    driver: Any, within: Any, saver: Any, charging: Charging
) -> None:
    failures = iter([ValueError("failed")])

    async def node(state: State) -> State:
        return {"log": [await charging.charge(10)]}

    async def bad(state: State) -> None:
        while not charging.is_running.is_set():
            await asyncio.sleep(0.001)
        for error in failures:
            charging.continue_soon()
            raise error

    app = StateGraph(State).add_node(node).add_node(bad).add_edge(START, "node").add_edge(START, "bad").compile(saver)
    with pytest.raises(ValueError, match="failed"):
        within(lambda: driver.invoke(app, {}, THREAD))
    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, None, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]


def test_5_5_a_call_may_make_steps_while_its_pausing_node_waits(driver: Any, within: Any, charging: Charging) -> None:
    done: list[str] = []

    @task
    def charge() -> str:
        charging.is_running.set()
        assert charging.go_on.wait(LONG)
        return get_runtime().step("inside", lambda: done.append("inside") or "done")

    def node(state: State) -> State:
        receipt = charge()
        assert charging.is_running.wait(LONG)
        return {"log": [interrupt("go on?"), receipt.result()]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    app = graph.compile(InMemorySaver(), instruments=[OnFinished(charging.continue_soon)])
    within(lambda: driver.invoke(app, {}, THREAD))
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["yes", "done"]
    assert done == ["inside"]


@pytest.mark.parametrize("ending", ["pause", "failure", "cancellation"])
def test_5_2_a_later_run_takes_over_unfinished_calls(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, ending: str
) -> None:
    control = RunControl()
    executions: list[int] = []

    def node(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.is_running.wait(LONG)
        executions.append(1)
        if len(executions) > 1:
            charging.go_on.set()
        elif ending == "failure":
            raise ValueError("failed")
        elif ending == "cancellation":
            control.request_cancel()
            raise ValueError("too late")
        answer = interrupt("go on?") if ending == "pause" else None
        return {"log": [receipt.result(), answer]}

    app = graph_of(node).compile(saver)
    options: Any = {"control": control} if ending == "cancellation" else {"sibling_grace": 0}
    with contextlib.suppress(Exception):
        within(lambda: driver.invoke(app, {}, THREAD, **options))
    assert charging.ended == []
    value = Command(resume="yes") if ending == "pause" else None
    result = within(lambda: driver.invoke(app, value, THREAD))
    assert (result["log"], charging.begun) == (["receipt 1", "yes" if ending == "pause" else None], [10])


def test_5_5_a_pause_starts_no_further_tasks(driver: Any, within: Any) -> None:
    begun, go_on = list[int](), threading.Event()

    @task
    def slow(number: int) -> int:
        begun.append(number)
        assert go_on.wait(LONG)
        return number

    def node(state: State) -> State:
        numbers = [slow(number) for number in range(100)]
        while not begun:
            time.sleep(0.001)
        answer = interrupt("go on?")
        return {"log": [answer, sum(number.result() for number in numbers)]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    continuing = OnFinished(lambda: threading.Timer(0.1, go_on.set).start())
    app = graph.compile(InMemorySaver(), instruments=[continuing])
    config = {**THREAD, "max_concurrency": 4}  # the other tasks wait until these end, which is after the run
    within(lambda: driver.invoke(app, {}, config))
    begun_before_pause = len(begun)
    assert begun_before_pause <= 4
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["yes", sum(range(100))]
    assert sorted(begun) == list(range(100))


class FailingSaver(InMemorySaver):
    """A saver that fails to write the first entry of a journal."""

    failures = 1

    def save_results(self, line: Any, checkpoint_id: Any, pending: Any, **options: Any) -> Any:
        if pending.journal and self.failures:
            self.failures -= 1
            raise StorageLocked("locked for a moment")
        return super().save_results(line, checkpoint_id, pending, **options)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_2_the_next_attempt_writes_a_record_that_could_not_be_written(driver: Any, kind: str) -> None:
    done: list[int] = []

    @task
    def charge(amount: int) -> int:
        done.append(amount)
        return amount

    @task
    async def charge_async(amount: int) -> int:
        done.append(amount)
        return amount

    def plain(state: State) -> State:
        return {"log": [charge(10).result(), interrupt("ok?")]}

    async def coroutine(state: State) -> State:
        return {"log": [await charge_async(10), interrupt("ok?")]}

    node = {"plain": plain, "coroutine": coroutine}[kind]
    app = StateGraph(State).add_node("node", node, retry_policy=RETRIES).add_edge(START, "node").compile(FailingSaver())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == [10, "yes"]
    assert done == [10]


@pytest.mark.parametrize("is_saved", [True, False])
def test_5_2_an_attempt_does_not_see_changes_to_results_by_earlier_attempts(driver: Any, is_saved: bool) -> None:
    seen: list[Any] = []

    @task
    def fetch() -> list[str]:
        return ["fetched"]

    def node(state: State) -> State:
        result = fetch().result()
        seen.append(list(result))
        result.append("changed")
        if len(seen) < 3:
            raise ConnectionError
        return {"log": result}

    graph = StateGraph(State).add_node("node", node, retry_policy=RETRIES).add_edge(START, "node")
    driver.invoke(graph.compile(InMemorySaver() if is_saved else None), {}, THREAD if is_saved else None)
    assert seen == [["fetched"]] * 3


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("ending", ["result", "pause", "failure", "cancellation"])
def test_8_3_coroutines_end_before_their_run(driver: Any, within: Any, graph_of: Any, kind: str, ending: str) -> None:
    events: list[str] = []
    begun = threading.Event()
    control = RunControl()

    @task
    async def sleep_long() -> None:
        begun.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")

    def end() -> State:
        if ending == "pause":
            interrupt("go on?")
        if ending == "failure":
            raise ValueError("failed")
        if ending == "cancellation":
            control.request_cancel()
        return {"log": ["done"]}

    def plain(state: State) -> State:
        sleep_long()
        assert begun.wait(LONG)
        return end()

    async def coroutine(state: State) -> State:
        sleep_long()
        while not begun.is_set():
            await asyncio.sleep(0.001)
        return end()

    async def run() -> None:
        with contextlib.suppress(Exception):
            await app.ainvoke({}, THREAD, control=control)
        events.append("over")

    app = graph_of({"plain": plain, "coroutine": coroutine}[kind]).compile(InMemorySaver())
    if driver.name == "async":
        within(lambda: asyncio.run(run()))
    else:
        with contextlib.suppress(Exception):
            within(lambda: driver.invoke(app, {}, THREAD, control=control))
        events.append("over")
    assert events == ["cleaned up", "over"]


def test_a_run_does_not_wait_for_coroutines_on_a_stopped_loop(driver: Any, within: Any) -> None:
    loop = asyncio.new_event_loop()

    @task
    async def sleep_long() -> None:
        await asyncio.sleep(LONG)

    async def leave() -> None:
        sleep_long()
        await asyncio.sleep(0)

    def node(state: State) -> State:
        loop.run_until_complete(leave())
        return {"log": ["done"]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    assert within(lambda: driver.invoke(app, {}))["log"] == ["done"]
    (abandoned,) = asyncio.all_tasks(loop)
    loop.run_until_complete(asyncio.wait([abandoned]))  # it was cancelled, and ends when its loop runs again
    loop.close()


def test_a_result_can_be_awaited_again_after_a_cancelled_wait(charging: Charging) -> None:
    async def node(state: State) -> State:
        receipt = charging.charge(10)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(receipt, 0.01)
        charging.go_on.set()
        return {"log": [await receipt]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    assert asyncio.run(app.ainvoke({}))["log"] == ["receipt 1"]
