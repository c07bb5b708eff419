"""Races between two operations on a run: one comes first, and the other detects it."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    RunStorage,
    events_of,
    run_until_idle,
    serving,
    types_of,
    wait_until,
    wait_until_idle,
)

from statewright import END, START, Command, Runtime, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition, NotFound, PayloadTooLarge, RequestConflict
from statewright.runs import ENDED, Run, RunStatus, Signal, StepStatus, UpdateAll, Wait, Worker
from statewright.service import Catalog, RunFilter, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
HOUR = timedelta(hours=1)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[RunStorage]:
    """Yield storage in a file that two services share."""
    run_storage = RunStorage(tmp_path / "runs.db")
    yield run_storage
    run_storage.close()


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def graph_of(name: str, *nodes: Any, side_by_side: bool = False) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(START if side_by_side else before, node.__name__)
        before = node.__name__
        if side_by_side:
            graph.add_edge(before, END)
    if not side_by_side:
        graph.add_edge(before, END)
    return graph


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def await_payment(state: State) -> State:
    payment = wait_for_event("paid", timeout=HOUR)
    return {"log": ["late" if payment is None else payment["amount"]]}


def finish(state: State) -> State:
    return {"log": ["end"]}


class BlockingNode:
    """A node that blocks until it is released, and signals when it has begun."""

    def __init__(self, name: str = "held") -> None:
        self.__name__ = name
        self.begun, self.go = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, state: State) -> State:
        self.calls += 1
        self.begun.set()
        self.go.wait(PATIENCE)
        return {"log": [self.__name__]}

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)


def approval(prompt: str, timeout: timedelta | None = None) -> Any:
    """Ask for an approval, and return the decision."""
    question = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": prompt}
    return interrupt(question, timeout=timeout) if timeout is not None else interrupt(question)


def await_approval(state: State) -> State:
    answer = approval("send it?", HOUR)
    return {"log": ["expired" if answer is None else answer["decision"]]}


class InterceptingLedger:
    """A ledger that calls `callback` once, right after the next query that matches."""

    def __init__(self, ledger: Any, *, matches: Callable[[Any, Any], bool]) -> None:
        self._ledger, self._matches = ledger, matches
        self.callback: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        records = self._ledger.find(kind, where, **options)
        if self.callback is None or not self._matches(kind, where):
            return records
        callback, self.callback = self.callback, None
        records = records.result() if hasattr(records, "result") else records
        callback()
        return records


def service_with_interception(
    run_storage: RunStorage,
    graph: StateGraph,
    *,
    clock: FakeClock | None = None,
    kind: Any = Signal,
    column: str | None = None,
) -> tuple[InterceptingLedger, Service]:
    """Return a ledger that intercepts queries of one kind, or those with a condition on `column`; and a service."""

    def matches(queried: Any, where: Any) -> bool:
        return queried is kind and (column is None or any(condition.column == column for condition in where))

    views = run_storage.views()
    ledger = InterceptingLedger(views["ledger"], matches=matches)
    catalog = Catalog()
    catalog.serve(graph.name or "graph", graph)
    return ledger, Service(catalog, ledger=ledger, saver=views["saver"], clock=clock, settings=QUICK)  # pyright: ignore


async def ended(service: Any, run_id: str) -> Any:
    """Return the run once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (run := await service.run(WS, run_id)).status not in ENDED:
            await asyncio.sleep(0.005)
    return run


async def reached(service: Any, run_id: str, status: RunStatus) -> Any:
    """Return the run once it has this status."""

    async def run_with_status() -> Any:
        run = await service.run(WS, run_id)
        return run if run.status is status else None

    return await wait_until(run_with_status)


async def outcomes(*calls: Awaitable[Any]) -> list[str]:
    """Make calls concurrently, and return for each `done` or the name of its error, sorted."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    return sorted(type(result).__name__ if isinstance(result, BaseException) else "done" for result in results)


# -- input for a run whose wait times out


async def test_an_accepted_decision_wins_over_the_timeout(run_storage: RunStorage) -> None:
    clock = FakeClock()
    ledger, service = service_with_interception(run_storage, graph_of("await_approval", await_approval), clock=clock)
    loop = asyncio.get_running_loop()
    async with service:
        run = await run_until_idle(service, "await_approval")
        [approval_request] = (await service.approvals(WS, pending=True)).items

        def decide() -> None:
            deciding = service.decide(WS, approval_request.id, "approved")
            asyncio.run_coroutine_threadsafe(deciding, loop).result(PATIENCE)

        ledger.callback = decide
        clock.advance(HOUR)
        service.wake_background_tasks()
        done = await ended(service, run.id)
        assert (await service.approval(WS, approval_request.id)).decision == "approved"
        assert done.output == {"log": ["approved"]}
        assert "APPROVAL_EXPIRED" not in await types_of(service, run)


async def test_an_accepted_signal_wins_over_the_timeout(run_storage: RunStorage) -> None:
    clock = FakeClock()
    ledger, service = service_with_interception(run_storage, graph_of("await_payment", await_payment), clock=clock)
    loop = asyncio.get_running_loop()
    async with service:
        run = await run_until_idle(service, "await_payment")

        def pay() -> None:
            paying = service.signal(WS, run.id, "paid", {"amount": 7}, must_wait=True)
            asyncio.run_coroutine_threadsafe(paying, loop).result(PATIENCE)

        ledger.callback = pay
        clock.advance(HOUR)
        service.wake_background_tasks()
        assert (await ended(service, run.id)).output == {"log": [7]}


async def test_a_signal_after_a_wait_timed_out_is_stored_without_effect(run_storage: RunStorage) -> None:
    clock, held = FakeClock(), BlockingNode()
    async with serving(
        run_storage, graph_of("await_payment", await_payment, held), clock=clock, settings=QUICK
    ) as service:
        run = await run_until_idle(service, "await_payment")
        clock.advance(HOUR)
        service.wake_background_tasks()
        await held.has_begun()
        with pytest.raises(InvalidTransition):
            await service.signal(WS, run.id, "paid", {"amount": 7}, must_wait=True)
        await service.signal(WS, run.id, "paid", {"amount": 7})
        held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["late", "held"]}
        types = await types_of(service, run)
        assert (types.count("TIMER_FIRED"), types.count("SIGNAL_RECEIVED")) == (1, 0)


@pytest.mark.parametrize("form", ["signal", "answer"])
async def test_input_is_refused_while_a_wait_times_out(run_storage: RunStorage, form: str) -> None:
    clock, held = FakeClock(), BlockingNode()
    ledger, service = service_with_interception(
        run_storage, graph_of("await_payment", await_payment, held), clock=clock, kind=Wait
    )
    async with service:
        run = await run_until_idle(service, "await_payment")
        [wait] = (await service.waits(WS)).items

        def end_the_wait() -> None:
            clock.advance(HOUR)
            service.wake_background_tasks()
            assert held.begun.wait(PATIENCE)

        def send_input() -> Any:
            if form == "signal":
                return service.signal(WS, run.id, "paid", {"amount": 7}, must_wait=True)
            return service.answer(WS, run.id, {wait.id: {"amount": 7}})

        ledger.callback = end_the_wait
        try:
            with pytest.raises(InvalidTransition):
                await send_input()
        finally:
            held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["late", "held"]}
        assert "SIGNAL_RECEIVED" not in await types_of(service, run)


async def test_a_signal_during_the_timeout_of_a_wait_is_kept_for_the_next_wait(run_storage: RunStorage) -> None:
    clock, held = FakeClock(), BlockingNode()

    def await_payment_again(state: State) -> State:
        return await_payment(state)

    async with serving(
        run_storage, graph_of("await_payment", await_payment, held, await_payment_again), clock=clock, settings=QUICK
    ) as service:
        run = await run_until_idle(service, "await_payment")
        clock.advance(HOUR)
        service.wake_background_tasks()
        await held.has_begun()
        await service.signal(WS, run.id, "paid", {"amount": 7})
        held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["late", "held", 7]}


async def test_a_second_approval_can_be_decided_while_the_run_is_running(run_storage: RunStorage) -> None:
    held = threading.Event()

    def approve_slowly(state: State) -> State:
        answer = approval("first")
        held.wait(PATIENCE)
        return {"log": [answer["decision"]]}

    async with serving(
        run_storage, graph_of("both", approve_slowly, await_approval, side_by_side=True), settings=QUICK
    ) as service:
        run = await run_until_idle(service, "both")
        approval_ids = {item.step_name: item.id for item in (await service.approvals(WS, pending=True)).items}
        await service.decide(WS, approval_ids["approve_slowly"], "approved")
        await reached(service, run.id, RunStatus.RUNNING)
        try:
            await service.decide(WS, approval_ids["await_approval"], "rejected")
        finally:
            held.set()
        assert (await ended(service, run.id)).output == {"log": ["approved", "rejected"]}


# -- the same request, concurrently


async def test_only_one_of_many_concurrent_decisions_counts(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("await_approval", await_approval), settings=QUICK) as service:
        run = await run_until_idle(service, "await_approval")
        [approval_request] = (await service.approvals(WS, pending=True)).items
        decisions = ["approved", "rejected"] * 5
        results = await outcomes(*(service.decide(WS, approval_request.id, decision) for decision in decisions))
        assert results == ["InvalidTransition"] * 9 + ["done"]
        decided = (await service.approval(WS, approval_request.id)).decision
        assert (await ended(service, run.id)).output == {"log": [decided]}
        assert len(await events_of(service, run, "APPROVAL_DECIDED")) == 1


async def test_only_one_of_many_concurrent_answers_counts(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        run = await run_until_idle(service, "ask")
        [wait] = (await service.waits(WS)).items
        results = await outcomes(*(service.answer(WS, run.id, {wait.id: n}) for n in range(10)))
        assert results.count("done") == 1
        assert len((await ended(service, run.id)).output["log"]) == 1
        assert len(await events_of(service, run, "SIGNAL_RECEIVED")) == 1


async def test_only_one_of_many_concurrent_retries_counts(run_storage: RunStorage) -> None:
    broken, held = [True], BlockingNode()

    def fail(state: State) -> State:
        if broken:
            raise ValueError("not yet")
        return held(state)

    async with serving(run_storage, graph_of("fail", fail), settings=QUICK) as service:
        run = await run_until_idle(service, "fail")
        broken.clear()
        results = await outcomes(*(service.retry(WS, run.id) for _ in range(5)))
        held.go.set()
        assert results == ["InvalidTransition"] * 4 + ["done"]
        await ended(service, run.id)
        assert (held.calls, (await types_of(service, run)).count("WORKFLOW_RETRIED")) == (1, 1)


async def test_a_signal_sent_many_times_concurrently_counts_once(run_storage: RunStorage) -> None:
    def twice(state: State) -> State:
        return {"log": [wait_for_event("paid")["amount"], wait_for_event("paid", timeout=HOUR)]}

    async with serving(run_storage, graph_of("twice", twice), settings=QUICK) as service:
        run = await run_until_idle(service, "twice")
        await asyncio.gather(*(service.signal(WS, run.id, "paid", {"amount": 1}, key="k") for _ in range(10)))
        await wait_until(lambda: events_of(service, run, "TIMER_SCHEDULED"))
        run = await wait_until_idle(service, run)
        assert run.status is RunStatus.WAITING
        assert len(await events_of(service, run, "SIGNAL_RECEIVED")) == 1


async def test_consecutive_waits_take_signals_in_order_of_arrival(run_storage: RunStorage) -> None:
    async with serving(run_storage, ticking(12), settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="ticking"))).run
        for n in range(12):
            await service.signal(WS, run.id, "tick", {"n": n})
        assert (await ended(service, run.id)).output["log"] == list(range(12))
        assert service.worker is not None
        await wait_until(lambda: _idle(service))


def ticking(times: int) -> StateGraph:
    """Return a graph that waits this many times for the same signal."""

    def tick(state: State) -> Command[Any]:
        event = wait_for_event("tick")
        return Command(update={"log": [event["n"]]}, goto="tick" if len(state.get("log", [])) < times - 1 else END)

    graph = StateGraph(State, name="ticking")
    graph.add_node("tick", tick, destinations=["tick", END])
    graph.add_edge(START, "tick")
    return graph


async def _idle(service: Any) -> bool:
    return service.worker.active_runs == 0


RARE = ServiceSettings(poll_interval=3600, drain=0.2)


async def test_a_wait_takes_an_earlier_signal_without_polling(run_storage: RunStorage) -> None:
    held = BlockingNode()
    async with serving(run_storage, graph_of("early", held, await_payment), settings=RARE) as service:
        run = (await service.start(WS, StartRun(graph="early"))).run
        await held.has_begun()
        await service.signal(WS, run.id, "paid", {"amount": 1})
        await asyncio.sleep(0.05)
        held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["held", 1]}


def parent(state: State, runtime: Runtime[Any]) -> State:
    return {"log": runtime.start_run("child")["log"]}


async def test_a_child_run_starts_and_wakes_its_parent_without_polling(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("parent", parent), graph_of("child", finish), settings=RARE) as service:
        run = (await service.start(WS, StartRun(graph="parent"))).run
        assert (await ended(service, run.id)).output == {"log": ["end"]}


# -- one idempotency key, used concurrently


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_concurrent_starts_with_one_idempotency_key_create_one_run(run_storage: RunStorage, on_busy: str) -> None:
    request = StartRun(graph="ask", idempotency_key="k", on_busy=on_busy)
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        started = await asyncio.gather(*(service.start(WS, request) for _ in range(10)))
        assert len({each.run.id for each in started}) == 1
        assert sum(each.created for each in started) == 1
        assert (await service.runs(WS, RunFilter())).total == 1


@pytest.mark.parametrize("on_busy", ["reject", "interrupt"])
async def test_a_repeated_key_finds_its_run_even_if_that_run_holds_the_thread(
    run_storage: RunStorage, on_busy: str
) -> None:
    request = StartRun(graph="ask", idempotency_key="k", on_busy=on_busy, thread_id="t")
    views = run_storage.views()
    ledger = InterceptingLedger(views["ledger"], matches=lambda kind, where: kind is Run and _has_key_condition(where))
    catalog = Catalog()
    catalog.serve("ask", graph_of("ask", ask))
    async with Service(catalog, ledger=ledger, saver=views["saver"], settings=QUICK) as service:  # pyright: ignore
        first: list[Any] = []

        def start_first() -> None:
            thread = threading.Thread(target=lambda: first.append(asyncio.run(service.start(WS, request))))
            thread.start()
            thread.join()

        ledger.callback = start_first
        again = await asyncio.to_thread(lambda: asyncio.run(service.start(WS, request)))
        assert (again.created, again.run.id) == (False, first[0].run.id)
        run = await wait_until_idle(service, first[0].run)
        assert run.status is RunStatus.WAITING


def _has_key_condition(where: Any) -> bool:
    return any(condition.column == "idempotency_key" for condition in where)


# -- one thread, requested concurrently


async def test_only_one_of_many_concurrent_starts_gets_the_thread(run_storage: RunStorage) -> None:
    request = StartRun(graph="ask", thread_id="t")
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        results = await asyncio.gather(*(service.start(WS, request) for _ in range(10)), return_exceptions=True)
        [started] = [result for result in results if not isinstance(result, BaseException)]
        refused = [result for result in results if isinstance(result, RequestConflict)]
        assert len(refused) == 9
        assert all(started.run.id in str(error) for error in refused)
        assert (await service.runs(WS, RunFilter())).total == 1


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_two_workspaces_can_use_the_same_thread_id_concurrently(run_storage: RunStorage, on_busy: str) -> None:
    request = StartRun(graph="ask", thread_id="t", on_busy=on_busy)
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        for started in await asyncio.gather(*(service.start(workspace, request) for workspace in (WS, "other"))):
            run = await service.wait(started.run.workspace_id, started.run.id, PATIENCE)
            assert run.status is RunStatus.WAITING
            assert len(await service.threads.runs(run.workspace_id, "t")) == 1


# -- runs that are stopped at an inconvenient moment


async def test_a_run_cancelled_in_its_last_step_has_one_outcome(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("quick", finish), settings=QUICK) as service:
        for wait in range(12):
            run = (await service.start(WS, StartRun(graph="quick"))).run
            await asyncio.sleep(wait * 0.0005)
            cancelled = await service.cancel(WS, run.id)
            run = await ended(service, run.id)
            assert run.status is cancelled.status
            types = await types_of(service, run)
            assert sum(kind in ("WORKFLOW_COMPLETED", "WORKFLOW_CANCELLED") for kind in types) == 1
            assert types[-1] == f"WORKFLOW_{run.status.upper()}"
            assert (run.output is None) is (run.status is RunStatus.CANCELLED)


async def test_a_run_paused_before_its_interrupt_waits_once_it_is_resumed(run_storage: RunStorage) -> None:
    held = BlockingNode()

    def block_and_ask(state: State) -> State:
        held(state)
        return {"log": [interrupt("go on?")]}

    async with serving(run_storage, graph_of("ask", block_and_ask), settings=QUICK) as service:
        started = (await service.start(WS, StartRun(graph="ask"))).run
        await held.has_begun()
        await service.pause(WS, started.id)
        held.go.set()
        await reached(service, started.id, RunStatus.PAUSED)
        [wait] = (await service.waits(WS)).items
        with pytest.raises(InvalidTransition):
            await service.answer(WS, started.id, {wait.id: "early"})
        await service.resume(WS, started.id)
        await reached(service, started.id, RunStatus.WAITING)
        await service.answer(WS, started.id, {wait.id: "yes"})
        assert (await ended(service, started.id)).output == {"log": ["yes"]}
        assert (await service.waits(WS)).total == 0


async def test_a_child_does_not_outlive_its_cancelled_parent(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("parent", parent), graph_of("child", ask), settings=QUICK) as service:
        for wait in range(8):
            run = (await service.start(WS, StartRun(graph="parent"))).run
            await asyncio.sleep(wait * 0.003)
            await service.cancel(WS, run.id)
            await wait_until(lambda: _idle(service))
            children = (await service.runs(WS, RunFilter(parent_id=run.id))).items
            assert [child.status for child in children] in ([], [RunStatus.CANCELLED])


async def test_children_are_cancelled_even_if_the_service_dies_after_cancelling_the_parent(shared: RunStorage) -> None:
    graphs = (graph_of("parent", parent), graph_of("child", ask))
    async with serving(shared, *graphs, settings=QUICK) as service:
        run = await run_until_idle(service, "parent")
        [child] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        await reached(service, child.id, RunStatus.WAITING)
    views = shared.views()
    catalog = Catalog()
    for graph in graphs:
        catalog.serve(graph.name or "", graph)
    failing = _OneWriteLedger(views["ledger"])
    await Service(catalog, ledger=failing, saver=views["saver"]).cancel(WS, run.id)  # pyright: ignore  # in one write
    async with serving(shared, *graphs, settings=QUICK) as service:
        assert (await service.run(WS, run.id)).status is RunStatus.CANCELLED
        await asyncio.sleep(0.2)
        assert (await service.run(WS, child.id)).status is RunStatus.CANCELLED


class _OneWriteLedger:
    """A ledger whose process dies after one write."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self._writes = ledger, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        self._writes += 1
        if self._writes > 1:
            raise ConnectionError("dead")
        return self._ledger.write(changes)


# -- threads that runs take from each other


async def test_a_pending_run_is_cancelled_by_a_run_that_takes_its_thread(run_storage: RunStorage) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        first = (await service.start(WS, StartRun(graph="ask", thread_id="t", after=later))).run
        with pytest.raises(RequestConflict, match="pending"):
            await service.start(WS, StartRun(graph="ask", thread_id="t"))
        for on_busy in ("interrupt", "rollback"):
            run = await run_until_idle(service, "ask", thread_id="t", on_busy=on_busy)
            assert run.status is RunStatus.WAITING
            assert (await service.run(WS, first.id)).status is RunStatus.CANCELLED
            first = run


async def test_a_run_performs_the_rollback_of_the_pending_run_it_replaces(run_storage: RunStorage) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with serving(run_storage, graph_of("both", finish, ask), settings=QUICK) as service:
        await run_until_idle(service, "both", thread_id="t")
        await service.start(WS, StartRun(graph="both", thread_id="t", on_busy="rollback", after=later))
        last = await run_until_idle(service, "both", thread_id="t", on_busy="rollback")
        assert await service.state(WS, last.id) == {"log": ["end"]}


def act_during_query(ledger: InterceptingLedger, act: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Act during the next intercepted query; the returned list receives the result or the error."""
    results: list[Any] = []

    async def collect() -> None:
        try:
            results.append(await act())
        except RequestConflict as error:
            results.append(error)

    def act_on_a_thread() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(collect()))
        thread.start()
        thread.join(PATIENCE)

    ledger.callback = act_on_a_thread
    return results


def rival_of(service: Service, ledger: InterceptingLedger) -> Service:
    """Return another service on the same records, whose queries are not intercepted."""
    context = service.context
    plain: Any = ledger._ledger
    return Service(context.catalog, ledger=plain, saver=context.saver, clock=context.clock)


def failing_graph(broken: list[bool], *, last: Any = ask) -> StateGraph:
    """Return a graph that fails as long as `broken` is not empty."""

    def fail(state: State) -> State:
        if broken:
            raise ValueError("not yet")
        return {"log": ["fixed"]}

    return graph_of("fail", fail, last)


async def unfinished(service: Service, thread_id: str) -> list[str]:
    """Return the ids of the runs on a thread that have not ended."""
    runs = (await service.runs(WS, RunFilter(thread_id=thread_id))).items
    return [run.id for run in runs if run.status not in ENDED]


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
@pytest.mark.parametrize(
    ("rival_on_busy", "is_busy"), [("reject", False), ("enqueue", False), ("enqueue", True), ("interrupt", True)]
)
async def test_a_run_takes_the_thread_from_runs_that_start_concurrently(
    run_storage: RunStorage, rival_on_busy: str, is_busy: bool, on_busy: str
) -> None:
    ledger, service = service_with_interception(run_storage, graph_of("ask", ask), kind=Run, column="thread_id")
    async with service:
        rival = rival_of(service, ledger)
        if is_busy:
            await run_until_idle(service, "ask", thread_id="t")
        request = StartRun(graph="ask", thread_id="t", on_busy=rival_on_busy)
        results = act_during_query(ledger, lambda: rival.start(WS, request))
        last = await run_until_idle(service, "ask", thread_id="t", on_busy=on_busy)
        assert last.status is RunStatus.WAITING
        assert (await service.run(WS, results[0].run.id)).status is RunStatus.CANCELLED
        assert await unfinished(service, "t") == [last.id]
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, last.id, {wait.id: "yes"})
        assert (await ended(service, last.id)).output == {"log": ["yes"]}


async def test_one_of_many_runs_that_concurrently_take_a_thread_keeps_it(shared: RunStorage) -> None:
    graph = graph_of("ask", ask)
    async with serving(shared, graph, settings=QUICK) as service, serving(shared, graph, settings=QUICK) as other:
        previous = await run_until_idle(service, "ask", thread_id="t")
        request = StartRun(graph="ask", thread_id="t", on_busy="interrupt")
        started = await asyncio.gather(*(each.start(WS, request) for each in (service, other) * 6))
        [last] = await unfinished(service, "t")
        assert last in {each.run.id for each in started}
        await reached(service, last, RunStatus.WAITING)
        assert (await service.run(WS, previous.id)).status is RunStatus.CANCELLED
        assert [wait.run_id for wait in (await service.waits(WS)).items] == [last]


async def test_queued_runs_start_in_order_of_arrival_regardless_of_their_ids(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        first = await run_until_idle(service, "ask", thread_id="t", run_id="run_m")
        for run_id in ("run_z", "run_a"):
            await service.start(WS, StartRun(graph="ask", thread_id="t", on_busy="enqueue", run_id=run_id))
        answers: list[str] = []
        for run_id in (first.id, "run_z", "run_a"):
            run = await reached(service, run_id, RunStatus.WAITING)
            [wait] = (await service.waits(WS)).items
            assert (wait.run_id, run.id) == (run_id, run_id)
            answers.append(run_id)
            await service.answer(WS, run_id, {wait.id: run_id})
            assert (await ended(service, run_id)).output == {"log": answers}


@pytest.mark.parametrize("invalid", [{"graph": "nope"}, {"graph": "ask", "metadata": {"a": "x" * 3_000_000}}])
@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
async def test_a_refused_start_does_not_take_the_thread(
    run_storage: RunStorage, invalid: dict[str, Any], on_busy: str
) -> None:
    async with serving(run_storage, graph_of("ask", ask), settings=QUICK) as service:
        run = await run_until_idle(service, "ask", thread_id="t")
        with pytest.raises((NotFound, PayloadTooLarge)):
            await service.start(WS, StartRun(thread_id="t", on_busy=on_busy, **invalid))
        after = await service.run(WS, run.id)
        assert (after.status, after.version) == (RunStatus.WAITING, run.version)


async def test_taking_a_thread_and_starting_the_run_are_one_write(shared: RunStorage) -> None:
    graph = graph_of("ask", ask)
    async with serving(shared, graph, settings=QUICK) as service:
        first = await run_until_idle(service, "ask", thread_id="t")
    views, catalog = shared.views(), Catalog()
    catalog.serve("ask", graph)
    failing: Any = _OneWriteLedger(views["ledger"])
    request = StartRun(graph="ask", thread_id="t", on_busy="interrupt")
    started = await Service(catalog, ledger=failing, saver=views["saver"]).start(WS, request)
    async with serving(shared, graph, settings=QUICK) as service:
        assert (await service.run(WS, first.id)).status is RunStatus.CANCELLED
        assert (await reached(service, started.run.id, RunStatus.WAITING)).id == started.run.id


@pytest.mark.parametrize("last", [ask, finish])
@pytest.mark.sampled(2)
async def test_a_run_that_starts_during_a_retry_of_another_gets_the_thread(run_storage: RunStorage, last: Any) -> None:
    broken = [True]
    ledger, service = service_with_interception(
        run_storage, failing_graph(broken, last=last), kind=Run, column="thread_id"
    )
    async with service:
        rival = rival_of(service, ledger)
        run = await run_until_idle(service, "fail", thread_id="t")
        broken.clear()
        request = StartRun(graph="fail", thread_id="t")
        results = act_during_query(ledger, lambda: rival.start_and_wait(WS, request, PATIENCE))
        with pytest.raises(RequestConflict, match=r"cannot be retried"):
            await service.retry(WS, run.id)
        assert (await service.run(WS, run.id)).status is RunStatus.FAILED
        other = results[0].run
        assert other.status is (RunStatus.WAITING if last is ask else RunStatus.COMPLETED)
        assert await unfinished(service, "t") == [other.id] * (last is ask)


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt"])
async def test_a_retry_during_the_start_of_another_run_makes_the_thread_busy(
    run_storage: RunStorage, on_busy: str
) -> None:
    broken = [True]
    ledger, service = service_with_interception(run_storage, failing_graph(broken), kind=Run, column="thread_id")
    async with service:
        rival = rival_of(service, ledger)
        run = await run_until_idle(service, "fail", thread_id="t")
        broken.clear()
        results = act_during_query(ledger, lambda: rival.retry(WS, run.id))
        request = StartRun(graph="fail", thread_id="t", on_busy=on_busy)
        if on_busy == "reject":
            with pytest.raises(RequestConflict, match=f"busy with run {run.id}"):
                await service.start(WS, request)
            assert await unfinished(service, "t") == [run.id]
            return
        if on_busy == "enqueue":  # this mode does not query the thread
            ledger.callback = None
            await rival.retry(WS, run.id)
        last = (await service.start(WS, request)).run
        if on_busy == "interrupt":
            assert results[0].id == run.id
            assert await unfinished(service, "t") == [last.id]
            await reached(service, last.id, RunStatus.WAITING)
            return
        await reached(service, run.id, RunStatus.WAITING)
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await ended(service, run.id)).output == {"log": ["fixed", "yes"]}
        await reached(service, last.id, RunStatus.WAITING)


# -- two services on one file


async def test_two_services_share_the_work_and_do_nothing_twice(shared: RunStorage) -> None:
    done: list[str] = []

    def note(state: State) -> State:
        done.append(state["log"][0])
        return {"log": ["noted"]}

    settings = ServiceSettings(capacity=3, poll_interval=0.02, drain=1)
    graph = graph_of("note", note, finish)
    async with serving(shared, graph, settings=settings) as first, serving(shared, graph, settings=settings) as second:
        requests = [StartRun(graph="note", input={"log": [f"{n}"]}, idempotency_key=f"{n}") for n in range(40)]
        started = await asyncio.gather(
            *(service.start(WS, request) for request in requests for service in (first, second)),
        )
        runs = {each.run.id for each in started}
        assert len(runs) == 40
        for run_id in runs:
            run = await ended(first, run_id)
            assert run.status is RunStatus.COMPLETED
            assert (await types_of(second, run)).count("WORKFLOW_COMPLETED") == 1
        assert sorted(done) == sorted(f"{n}" for n in range(40))


async def test_writes_of_a_worker_considered_dead_have_no_effect(shared: RunStorage) -> None:
    slow_node, fast_node = BlockingNode("work"), BlockingNode("work")
    fast_node.go.set()
    long_lease = ServiceSettings(lease=1000, drain=0.2)
    short_lease = ServiceSettings(lease=0.15, poll_interval=0.02, drain=0.2)
    async with serving(shared, graph_of("work", slow_node, finish), settings=long_lease) as service:
        run = (await service.start(WS, StartRun(graph="work"))).run
        await slow_node.has_begun()
        async with serving(shared, graph_of("work", fast_node, finish), settings=short_lease) as other:
            expiry = [UpdateAll(Worker, [], {"until": LONG_AGO})]
            await aresolve(other.context.ledger.write(expiry))
            done = await ended(other, run.id)
            assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": ["work", "end"]})
            slow_node.go.set()
            await wait_until(lambda: _idle(service))
            after = await other.run(WS, run.id)
            assert (after.version, after.last_event) == (done.version, done.last_event)
            assert (await types_of(other, run)).count("STEP_COMPLETED") == 2
            assert {step.status for step in await other.steps(WS, run.id)} == {StepStatus.COMPLETED}


async def test_a_service_can_stop_a_run_that_another_service_executes(shared: RunStorage) -> None:
    settings = ServiceSettings(lease=0.15, poll_interval=0.02, drain=0.2)
    for act, status in (("cancel", RunStatus.CANCELLED), ("pause", RunStatus.PAUSED)):
        held = BlockingNode()
        graph = graph_of(act, held, finish)
        async with serving(shared, graph, settings=settings) as service:
            run = (await service.start(WS, StartRun(graph=act))).run
            await held.has_begun()
            async with serving(shared, graph, settings=settings) as other:
                await getattr(other, act)(WS, run.id)
                await asyncio.sleep(0.15)
                held.go.set()
                run = await reached(other, run.id, status)
                await wait_until(lambda: _idle(service))
                assert (await other.run(WS, run.id)).version == run.version
                assert held.calls == 1


async def test_a_pause_noticed_too_late_applies_when_the_run_continues(shared: RunStorage) -> None:
    held = BlockingNode()
    slow_to_notice = ServiceSettings(lease=1000, poll_interval=0.02, drain=0.2)
    graph = graph_of("ask", held, ask, finish)
    async with (
        serving(shared, graph, settings=slow_to_notice) as service,
        serving(shared, graph, settings=QUICK) as other,
    ):
        run = (await service.start(WS, StartRun(graph="ask"))).run
        await held.has_begun()
        if service.worker is None or other.worker is None or service.worker.attempt_at(run.id) is None:
            raise AssertionError("The run must be executing in the service that started it.")
        await other.pause(WS, run.id)
        held.go.set()
        await reached(other, run.id, RunStatus.WAITING)
        [wait] = (await other.waits(WS)).items
        await other.answer(WS, run.id, {wait.id: "yes"})
        await reached(other, run.id, RunStatus.PAUSED)
        await other.resume(WS, run.id)
        assert (await ended(other, run.id)).output == {"log": ["held", "yes", "end"]}
