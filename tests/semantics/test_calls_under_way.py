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
AGAIN = RetryPolicy(max_attempts=50, initial_interval=0.001, backoff_factor=1, jitter=False, retry_on=Exception)


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


@pytest.fixture(params=["alone", "beside"])
def graph_of(request: Any) -> Any:
    """A graph of one node, with another one beside it or not."""

    def build(node: Any, **options: Any) -> StateGraph:
        graph = StateGraph(State).add_node("node", node, **options).add_edge(START, "node")
        if request.param == "beside":
            graph.add_node("other", lambda state: None).add_edge(START, "other")
        return graph

    return build


class Charging:
    """Tasks that are under way until they are told to go on, and that count how often they were begun."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.under_way = threading.Event()
        self.go_on = threading.Event()
        self.charge = task(self._charge, name="charge")
        self.charge_async = task(self._charge_async, name="charge_async")

    def _charge(self, amount: int) -> str:
        self.begun.append(amount)
        self.under_way.set()
        assert self.go_on.wait(LONG)
        self.ended.append(amount)
        return f"receipt {len(self.begun)}"

    async def _charge_async(self, amount: int) -> str:
        self.begun.append(amount)
        self.under_way.set()
        while not self.go_on.is_set():
            await asyncio.sleep(0.001)
        self.ended.append(amount)
        return f"receipt {len(self.begun)}"

    def go_on_soon(self) -> None:
        """Go on when those who do not wait have had the time not to."""
        threading.Timer(0.1, self.go_on.set).start()


class OnFinished(Instrument):
    """Calls back when the node has ended, before anybody acts on it."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def on_task_finished(self, event: Any) -> None:
        if event.node == "node":
            self._callback()


@pytest.fixture
def charging() -> Any:
    made = Charging()
    yield made
    made.go_on.set()  # nothing of a test that failed goes on


class Tries:
    """Nodes that start a call, and whose first attempt fails while it is under way."""

    def __init__(self, charging: Charging) -> None:
        self._charging = charging
        self._tries = 0

    def _fail_once(self) -> None:
        assert self._charging.under_way.wait(LONG)
        self._tries += 1
        if self._tries == 1:
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
        while not self._charging.under_way.is_set():
            await asyncio.sleep(0)
        self._fail_once()
        return {"log": [await receipt]}

    async def mixed(self, state: State) -> State:
        receipt = self._charging.charge(10)
        self._fail_once()
        return {"log": [await receipt]}


@pytest.mark.parametrize("colour", ["plain", "plain_of_coroutine", "coroutine", "mixed"])
def test_5_2_the_next_attempt_takes_the_call_that_is_in_progress(
    driver: Any, within: Any, charging: Charging, graph_of: Any, colour: str
) -> None:
    for saved in (InMemorySaver(), None):
        node = getattr(Tries(charging), colour)
        app = graph_of(node, retry_policy=AGAIN).compile(saved)
        charging.begun.clear()
        charging.go_on.clear()
        result = within(lambda app=app, saved=saved: driver.invoke(app, {}, THREAD if saved else None))

        assert (result["log"], charging.begun) == (["receipt 1"], [10])


@pytest.mark.parametrize("first", ["alone", "of a workspace"])
@pytest.mark.parametrize("second", ["alone", "of a workspace"])
def test_5_5_the_next_run_takes_the_call_through_another_saver_of_the_same_data(
    driver: Any, charging: Charging, saver: Any, first: str, second: str
) -> None:
    taken, entered = threading.Event(), list[int]()

    def node(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.under_way.wait(LONG)
        entered.append(1)
        if len(entered) == 2:
            taken.set()
        return {"log": [receipt.result()]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    one, other = (
        graph.compile(saver if how == "alone" else saver.for_workspace(saver.workspace)) for how in (first, second)
    )
    control = RunControl()

    def cancel() -> None:
        assert charging.under_way.wait(LONG)
        control.request_cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(RunCancelled):
        driver.invoke(one, {}, THREAD, control=control)
    results: list[Any] = []
    running = threading.Thread(target=lambda: results.append(driver.invoke(other, None, THREAD)))
    running.start()
    assert taken.wait(LONG)
    charging.go_on.set()
    running.join()
    assert (results[0]["log"], charging.begun) == (["receipt 1"], [10])


def test_5_2_a_plain_task_that_gives_a_coroutine_is_an_error(driver: Any) -> None:
    async def charge() -> str:
        return "receipt"

    app = StateGraph(State).add_node("node", lambda state: {"log": [task(lambda: charge())().result()]})
    with pytest.raises(InvalidUpdateError, match="async def"):
        driver.invoke(app.add_edge(START, "node").compile(InMemorySaver()), {}, THREAD)


def test_5_2_a_call_in_progress_with_other_arguments_is_an_error(driver: Any, within: Any, charging: Charging) -> None:
    amounts = iter([10, 11])

    def node(state: State) -> State:
        charging.charge(next(amounts))
        assert charging.under_way.wait(LONG)
        raise ConnectionError("again")

    policy = RetryPolicy(max_attempts=5, initial_interval=0.001, retry_on=ConnectionError)
    app = StateGraph(State).add_node("node", node, retry_policy=policy).add_edge(START, "node")
    with pytest.raises(NonDeterminismError, match="'charge'"):
        within(lambda: driver.invoke(app.compile(), {}))
    assert charging.begun == [10]


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
def test_5_3_an_attempt_ends_at_its_time_and_the_next_takes_its_calls(
    driver: Any, within: Any, charging: Charging, graph_of: Any, colour: str
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

    app = graph_of({"plain": plain, "coroutine": coroutine}[colour], timeout=0.2, retry_policy=AGAIN)
    assert within(lambda: driver.invoke(app.compile(InMemorySaver()), {}, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]
    assert len(attempts) > 1


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
def test_5_3_a_call_that_was_refused_a_step_between_two_attempts_is_done_for_the_next(
    driver: Any, within: Any, colour: str
) -> None:
    begun, attempts = list[int](), list[int]()

    def begin_again() -> bool:
        begun.append(1)
        return len(begun) > 1

    @task
    def charge() -> str:
        if begin_again():
            return "done"
        try:
            while True:  # until the attempt is given up
                get_runtime().step("inside", time.sleep, 0.001)
        except RunCancelled:
            while len(attempts) == 1:
                time.sleep(0.001)
            raise

    @task
    async def charge_async() -> str:
        if begin_again():
            return "done"
        try:
            while True:
                await get_runtime().step("inside", asyncio.sleep, 0.001)
        except RunCancelled:
            while len(attempts) == 1:
                await asyncio.sleep(0.001)
            raise

    def node(state: State) -> State:
        receipt = charge() if colour == "plain" else charge_async()
        attempts.append(1)
        return {"log": [receipt.result()]}

    app = StateGraph(State).add_node("node", node, timeout=0.2, retry_policy=AGAIN).add_edge(START, "node")
    assert within(lambda: driver.invoke(app.compile(), {}))["log"] == ["done"]
    assert begun == [1, 1]


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
@pytest.mark.parametrize("inside", [False, True], ids=["graph", "subgraph"])
def test_5_2_a_node_that_pauses_waits_for_the_plain_calls_that_it_has_begun(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, colour: str, inside: bool
) -> None:
    def plain(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.under_way.wait(LONG)
        answer = interrupt("go on?")
        return {"log": [receipt.result(), answer]}

    async def coroutine(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.under_way.wait(LONG)
        answer = interrupt("go on?")
        return {"log": [await receipt, answer]}

    node = {"plain": plain, "coroutine": coroutine}[colour]
    graph = graph_of(graph_of(node).compile() if inside else node)
    app = graph.compile(saver, instruments=[OnFinished(charging.go_on_soon)])
    within(lambda: driver.invoke(app, {}, THREAD))

    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["receipt 1", "yes"]
    assert charging.begun == [10]


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
def test_5_5_a_node_that_fails_waits_for_the_plain_calls_that_it_has_begun(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, colour: str
) -> None:
    def fail_once(receipt: Any) -> Any:
        assert charging.under_way.wait(LONG)
        if not charging.ended:
            raise ValueError("no luck")
        return receipt

    def plain(state: State) -> State:
        return {"log": [fail_once(charging.charge(10)).result()]}

    async def coroutine(state: State) -> State:
        return {"log": [await fail_once(charging.charge(10))]}

    graph = graph_of({"plain": plain, "coroutine": coroutine}[colour])
    app = graph.compile(saver, instruments=[OnFinished(charging.go_on_soon)])
    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD))

    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, None, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]


def test_5_5_plain_calls_of_a_coroutine_that_a_failure_cancels_are_waited_for(
    driver: Any, within: Any, saver: Any, charging: Charging
) -> None:
    failures = iter([ValueError("no luck")])

    async def node(state: State) -> State:
        return {"log": [await charging.charge(10)]}

    async def bad(state: State) -> None:
        while not charging.under_way.is_set():
            await asyncio.sleep(0.001)
        for error in failures:
            charging.go_on_soon()
            raise error

    app = StateGraph(State).add_node(node).add_node(bad).add_edge(START, "node").add_edge(START, "bad").compile(saver)
    with pytest.raises(ValueError, match="no luck"):
        within(lambda: driver.invoke(app, {}, THREAD))
    assert charging.ended == [10]
    assert within(lambda: driver.invoke(app, None, THREAD))["log"] == ["receipt 1"]
    assert charging.begun == [10]


def test_5_5_steps_of_a_call_that_is_waited_for_are_done(driver: Any, within: Any, charging: Charging) -> None:
    done: list[str] = []

    @task
    def charge() -> str:
        charging.under_way.set()
        assert charging.go_on.wait(LONG)
        return get_runtime().step("inside", lambda: done.append("inside") or "done")

    def node(state: State) -> State:
        receipt = charge()
        assert charging.under_way.wait(LONG)
        return {"log": [interrupt("go on?"), receipt.result()]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    app = graph.compile(InMemorySaver(), instruments=[OnFinished(charging.go_on_soon)])
    within(lambda: driver.invoke(app, {}, THREAD))
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["yes", "done"]
    assert done == ["inside"]


@pytest.mark.parametrize("ends", ["pause", "failure", "cancellation"])
def test_5_2_a_later_run_takes_over_unfinished_calls(
    driver: Any, within: Any, saver: Any, charging: Charging, graph_of: Any, ends: str
) -> None:
    control = RunControl()
    executions: list[int] = []

    def node(state: State) -> State:
        receipt = charging.charge(10)
        assert charging.under_way.wait(LONG)
        executions.append(1)
        if len(executions) > 1:
            charging.go_on.set()
        elif ends == "failure":
            raise ValueError("no luck")
        elif ends == "cancellation":
            control.request_cancel()
            raise ValueError("too late")
        answer = interrupt("go on?") if ends == "pause" else None
        return {"log": [receipt.result(), answer]}

    app = graph_of(node).compile(saver)
    options: Any = {"control": control} if ends == "cancellation" else {"sibling_grace": 0}
    with contextlib.suppress(Exception):
        within(lambda: driver.invoke(app, {}, THREAD, **options))
    assert charging.ended == []
    given = Command(resume="yes") if ends == "pause" else None
    result = within(lambda: driver.invoke(app, given, THREAD))
    assert (result["log"], charging.begun) == (["receipt 1", "yes" if ends == "pause" else None], [10])


def test_5_5_tasks_that_have_not_begun_do_not_begin_after_a_pause(driver: Any, within: Any) -> None:
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
    soon = OnFinished(lambda: threading.Timer(0.1, go_on.set).start())
    app = graph.compile(InMemorySaver(), instruments=[soon])
    few = {**THREAD, "max_concurrency": 4}  # the others wait for those, which wait for the end of the run
    within(lambda: driver.invoke(app, {}, few))
    at_pause = len(begun)
    assert at_pause <= 4
    assert within(lambda: driver.invoke(app, Command(resume="yes"), THREAD))["log"] == ["yes", sum(range(100))]
    assert sorted(begun) == list(range(100))


class Forgetful(InMemorySaver):
    """Cannot write the first entry of a journal."""

    failures = 1

    def save_results(self, line: Any, checkpoint_id: Any, pending: Any, **options: Any) -> Any:
        if pending.journal and self.failures:
            self.failures -= 1
            raise StorageLocked("locked for a moment")
        return super().save_results(line, checkpoint_id, pending, **options)


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
def test_5_2_a_record_that_could_not_be_written_is_written_by_the_next_attempt(driver: Any, colour: str) -> None:
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

    node = {"plain": plain, "coroutine": coroutine}[colour]
    app = StateGraph(State).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node").compile(Forgetful())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == [10, "yes"]
    assert done == [10]


@pytest.mark.parametrize("saved", [True, False])
def test_5_2_changes_of_an_attempt_to_a_result_are_invisible_to_the_next_one(driver: Any, saved: bool) -> None:
    seen: list[Any] = []

    @task
    def found() -> list[str]:
        return ["found"]

    def node(state: State) -> State:
        result = found().result()
        seen.append(list(result))
        result.append("changed")
        if len(seen) < 3:
            raise ConnectionError
        return {"log": result}

    graph = StateGraph(State).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    driver.invoke(graph.compile(InMemorySaver() if saved else None), {}, THREAD if saved else None)
    assert seen == [["found"]] * 3


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
@pytest.mark.parametrize("ends", ["result", "pause", "failure", "cancellation"])
def test_8_3_no_coroutine_lives_on_after_its_run(
    driver: Any, within: Any, graph_of: Any, colour: str, ends: str
) -> None:
    told: list[str] = []
    begun = threading.Event()
    control = RunControl()

    @task
    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(0)
            told.append("cleaned up")

    def end() -> State:
        if ends == "pause":
            interrupt("go on?")
        if ends == "failure":
            raise ValueError("no luck")
        if ends == "cancellation":
            control.request_cancel()
        return {"log": ["done"]}

    def plain(state: State) -> State:
        long()
        assert begun.wait(LONG)
        return end()

    async def coroutine(state: State) -> State:
        long()
        while not begun.is_set():
            await asyncio.sleep(0.001)
        return end()

    async def run() -> None:
        with contextlib.suppress(Exception):
            await app.ainvoke({}, THREAD, control=control)
        told.append("over")

    app = graph_of({"plain": plain, "coroutine": coroutine}[colour]).compile(InMemorySaver())
    if driver.name == "async":
        within(lambda: asyncio.run(run()))
    else:
        with contextlib.suppress(Exception):
            within(lambda: driver.invoke(app, {}, THREAD, control=control))
        told.append("over")
    assert told == ["cleaned up", "over"]


def test_a_coroutine_on_a_loop_that_its_node_has_left_is_not_waited_for(driver: Any, within: Any) -> None:
    loop = asyncio.new_event_loop()

    @task
    async def long() -> None:
        await asyncio.sleep(LONG)

    async def leave() -> None:
        long()
        await asyncio.sleep(0)

    def node(state: State) -> State:
        loop.run_until_complete(leave())
        return {"log": ["done"]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    assert within(lambda: driver.invoke(app, {}))["log"] == ["done"]
    (left,) = asyncio.all_tasks(loop)
    loop.run_until_complete(asyncio.wait([left]))  # it was told to end, and does when its loop runs on
    loop.close()


def test_a_result_can_be_waited_for_again_after_a_wait_was_cancelled(charging: Charging) -> None:
    async def node(state: State) -> State:
        receipt = charging.charge(10)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(receipt, 0.01)
        charging.go_on.set()
        return {"log": [await receipt]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    assert asyncio.run(app.ainvoke({}))["log"] == ["receipt 1"]
