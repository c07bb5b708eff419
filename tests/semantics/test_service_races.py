"""Two concurrent operations on a run: one of them is first, and the other one detects that."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, Places, events_of, rested, run_to_rest, serving, types_of, until

from statewright import END, START, Command, Runtime, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition, NotFound, PayloadTooLarge, RequestConflict
from statewright.runs import ENDED, Run, RunStatus, Signal, StepStatus, UpdateAll, Wait, Worker
from statewright.service import Catalog, RunFilter, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(look_every=0.02, drain=0.2)
HOUR = timedelta(hours=1)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Places]:
    """A file on which two services work."""
    places = Places(tmp_path / "runs.db")
    yield places
    places.close()


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


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def pays(state: State) -> State:
    told = wait_for_event("paid", timeout=HOUR)
    return {"log": ["late" if told is None else told["amount"]]}


def ends(state: State) -> State:
    return {"log": ["end"]}


class Held:
    """A node that stops until it is let go, and tells when it has begun."""

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
    """What a node asks that wants something approved."""
    asked = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": prompt}
    return interrupt(asked, timeout=timeout) if timeout is not None else interrupt(asked)


def approves(state: State) -> State:
    decided = approval("send it?", HOUR)
    return {"log": ["expired" if decided is None else decided["decision"]]}


class Interposed:
    """A ledger that lets something happen right after the next look into an inbox, or for a key."""

    def __init__(self, ledger: Any, *, after: Callable[[Any, Any], bool]) -> None:
        self._ledger, self._after = ledger, after
        self.happens: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        found = self._ledger.find(kind, where, **options)
        if self.happens is None or not self._after(kind, where):
            return found
        happens, self.happens = self.happens, None
        known = found.result() if hasattr(found, "result") else found
        happens()
        return known


def interposed(
    place: Places,
    graph: StateGraph,
    *,
    clock: FakeClock | None = None,
    looks_at: Any = Signal,
    column: str | None = None,
) -> tuple[Interposed, Service]:
    """A ledger in which something may happen after a look at records, by a column of theirs; and a service on it."""

    def is_meant(kind: Any, where: Any) -> bool:
        return kind is looks_at and (column is None or any(one.column == column for one in where))

    views = place.views()
    ledger = Interposed(views["ledger"], after=is_meant)
    catalog = Catalog()
    catalog.serve(graph.name or "graph", graph)
    return ledger, Service(catalog, ledger=ledger, saver=views["saver"], clock=clock, settings=QUICK)  # pyright: ignore


async def ended(service: Any, run_id: str) -> Any:
    """The run once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (run := await service.run(WS, run_id)).status not in ENDED:
            await asyncio.sleep(0.005)
    return run


async def reached(service: Any, run_id: str, status: RunStatus) -> Any:
    async def one() -> Any:
        run = await service.run(WS, run_id)
        return run if run.status is status else None

    return await until(one)


async def outcomes(*calls: Awaitable[Any]) -> list[str]:
    """What came of calls that were made at once: `done`, or the name of the error."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    return sorted(type(one).__name__ if isinstance(one, BaseException) else "done" for one in found)


# -- what comes for a run while its time runs out


async def test_a_decision_that_was_accepted_is_not_undone_by_the_end_of_its_time(place: Places) -> None:
    clock = FakeClock()
    ledger, serves = interposed(place, graph_of("approves", approves), clock=clock)
    here = asyncio.get_running_loop()
    async with serves as service:
        run = await run_to_rest(service, "approves")
        [asked] = (await service.approvals(WS, pending=True)).items

        def decide() -> None:
            deciding = service.decide(WS, asked.id, "approved")
            asyncio.run_coroutine_threadsafe(deciding, here).result(PATIENCE)

        ledger.happens = decide
        clock.advance(HOUR)
        service.wake_background_tasks()
        done = await ended(service, run.id)
        assert (await service.approval(WS, asked.id)).decision == "approved"
        assert done.output == {"log": ["approved"]}
        assert "APPROVAL_EXPIRED" not in await types_of(service, run)


async def test_a_signal_that_was_accepted_by_a_waiting_run_is_what_it_gets(place: Places) -> None:
    clock = FakeClock()
    ledger, serves = interposed(place, graph_of("pays", pays), clock=clock)
    here = asyncio.get_running_loop()
    async with serves as service:
        run = await run_to_rest(service, "pays")

        def pay() -> None:
            paying = service.signal(WS, run.id, "paid", {"amount": 7}, must_wait=True)
            asyncio.run_coroutine_threadsafe(paying, here).result(PATIENCE)

        ledger.happens = pay
        clock.advance(HOUR)
        service.wake_background_tasks()
        assert (await ended(service, run.id)).output == {"log": [7]}


async def test_a_signal_after_the_end_of_a_wait_is_kept_and_changes_nothing(place: Places) -> None:
    clock, held = FakeClock(), Held()
    async with serving(place, graph_of("pays", pays, held), clock=clock, settings=QUICK) as service:
        run = await run_to_rest(service, "pays")
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


@pytest.mark.parametrize("way", ["signal", "answer"])
async def test_input_during_the_end_of_a_wait_is_refused(place: Places, way: str) -> None:
    clock, held = FakeClock(), Held()
    ledger, serves = interposed(place, graph_of("pays", pays, held), clock=clock, looks_at=Wait)
    async with serves as service:
        run = await run_to_rest(service, "pays")
        [wait] = (await service.waits(WS)).items

        def end_the_wait() -> None:
            clock.advance(HOUR)
            service.wake_background_tasks()
            assert held.begun.wait(PATIENCE)

        def comes() -> Any:
            if way == "signal":
                return service.signal(WS, run.id, "paid", {"amount": 7}, must_wait=True)
            return service.answer(WS, run.id, {wait.id: {"amount": 7}})

        ledger.happens = end_the_wait
        try:
            with pytest.raises(InvalidTransition):
                await comes()
        finally:
            held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["late", "held"]}
        assert "SIGNAL_RECEIVED" not in await types_of(service, run)


async def test_a_signal_that_comes_while_the_end_of_a_wait_is_handled_is_kept_for_the_next_wait(place: Places) -> None:
    clock, held = FakeClock(), Held()

    def pays_again(state: State) -> State:
        return pays(state)

    async with serving(place, graph_of("pays", pays, held, pays_again), clock=clock, settings=QUICK) as service:
        run = await run_to_rest(service, "pays")
        clock.advance(HOUR)
        service.wake_background_tasks()
        await held.has_begun()
        await service.signal(WS, run.id, "paid", {"amount": 7})
        held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["late", "held", 7]}


async def test_two_approvals_are_decided_one_while_the_other_continues(place: Places) -> None:
    held = threading.Event()

    def slowly(state: State) -> State:
        decided = approval("first")
        held.wait(PATIENCE)
        return {"log": [decided["decision"]]}

    async with serving(place, graph_of("both", slowly, approves, side_by_side=True), settings=QUICK) as service:
        run = await run_to_rest(service, "both")
        asked = {one.step_name: one.id for one in (await service.approvals(WS, pending=True)).items}
        await service.decide(WS, asked["slowly"], "approved")
        await reached(service, run.id, RunStatus.RUNNING)
        try:
            await service.decide(WS, asked["approves"], "rejected")
        finally:
            held.set()
        assert (await ended(service, run.id)).output == {"log": ["approved", "rejected"]}


# -- the same at once


async def test_one_decision_of_many_at_once_counts(place: Places) -> None:
    async with serving(place, graph_of("approves", approves), settings=QUICK) as service:
        run = await run_to_rest(service, "approves")
        [asked] = (await service.approvals(WS, pending=True)).items
        decisions = ["approved", "rejected"] * 5
        found = await outcomes(*(service.decide(WS, asked.id, one) for one in decisions))
        assert found == ["InvalidTransition"] * 9 + ["done"]
        decided = (await service.approval(WS, asked.id)).decision
        assert (await ended(service, run.id)).output == {"log": [decided]}
        assert len(await events_of(service, run, "APPROVAL_DECIDED")) == 1


async def test_one_answer_of_many_at_once_counts(place: Places) -> None:
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        run = await run_to_rest(service, "asks")
        [wait] = (await service.waits(WS)).items
        found = await outcomes(*(service.answer(WS, run.id, {wait.id: n}) for n in range(10)))
        assert found.count("done") == 1
        assert len((await ended(service, run.id)).output["log"]) == 1
        assert len(await events_of(service, run, "SIGNAL_RECEIVED")) == 1


async def test_one_of_two_retries_at_once_counts(place: Places) -> None:
    broken, held = [True], Held()

    def breaks(state: State) -> State:
        if broken:
            raise ValueError("not yet")
        return held(state)

    async with serving(place, graph_of("breaks", breaks), settings=QUICK) as service:
        run = await run_to_rest(service, "breaks")
        broken.clear()
        found = await outcomes(*(service.retry(WS, run.id) for _ in range(5)))
        held.go.set()
        assert found == ["InvalidTransition"] * 4 + ["done"]
        await ended(service, run.id)
        assert (held.calls, (await types_of(service, run)).count("WORKFLOW_RETRIED")) == (1, 1)


async def test_a_signal_that_is_sent_many_times_at_once_counts_once(place: Places) -> None:
    def twice(state: State) -> State:
        return {"log": [wait_for_event("paid")["amount"], wait_for_event("paid", timeout=HOUR)]}

    async with serving(place, graph_of("twice", twice), settings=QUICK) as service:
        run = await run_to_rest(service, "twice")
        await asyncio.gather(*(service.signal(WS, run.id, "paid", {"amount": 1}, key="k") for _ in range(10)))
        await until(lambda: events_of(service, run, "TIMER_SCHEDULED"))
        run = await rested(service, run)
        assert run.status is RunStatus.WAITING
        assert len(await events_of(service, run, "SIGNAL_RECEIVED")) == 1


async def test_signals_are_taken_one_a_wait_in_the_order_in_which_they_came(place: Places) -> None:
    async with serving(place, ticking(12), settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="ticking"))).run
        for n in range(12):
            await service.signal(WS, run.id, "tick", {"n": n})
        assert (await ended(service, run.id)).output["log"] == list(range(12))
        assert service.worker is not None
        await until(lambda: _idle(service))


def ticking(times: int) -> StateGraph:
    """A graph that waits so many times for the same signal."""

    def tick(state: State) -> Command[Any]:
        told = wait_for_event("tick")
        return Command(update={"log": [told["n"]]}, goto="tick" if len(state.get("log", [])) < times - 1 else END)

    graph = StateGraph(State, name="ticking")
    graph.add_node("tick", tick, destinations=["tick", END])
    graph.add_edge(START, "tick")
    return graph


async def _idle(service: Any) -> bool:
    return service.worker.active_runs == 0


RARE = ServiceSettings(look_every=3600, drain=0.2)


async def test_signals_that_came_early_are_taken_at_once(place: Places) -> None:
    held = Held()
    async with serving(place, graph_of("early", held, pays), settings=RARE) as service:
        run = (await service.start(WS, StartRun(graph="early"))).run
        await held.has_begun()
        await service.signal(WS, run.id, "paid", {"amount": 1})
        await asyncio.sleep(0.05)
        held.go.set()
        assert (await ended(service, run.id)).output == {"log": ["held", 1]}


def parent(state: State, runtime: Runtime[Any]) -> State:
    return {"log": runtime.start_run("kid")["log"]}


async def test_a_child_begins_at_once_and_its_end_wakes_its_parent_at_once(place: Places) -> None:
    async with serving(place, graph_of("parent", parent), graph_of("kid", ends), settings=RARE) as service:
        run = (await service.start(WS, StartRun(graph="parent"))).run
        assert (await ended(service, run.id)).output == {"log": ["end"]}


# -- an idempotency key at once


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_a_key_given_many_times_at_once_makes_one_run(place: Places, on_busy: str) -> None:
    wanted = StartRun(graph="asks", idempotency_key="k", on_busy=on_busy)
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        found = await asyncio.gather(*(service.start(WS, wanted) for _ in range(10)))
        assert len({one.run.id for one in found}) == 1
        assert sum(one.created for one in found) == 1
        assert (await service.runs(WS, RunFilter())).total == 1


@pytest.mark.parametrize("on_busy", ["reject", "interrupt"])
async def test_a_key_given_again_finds_its_run_though_that_has_the_thread_by_now(place: Places, on_busy: str) -> None:
    wanted = StartRun(graph="asks", idempotency_key="k", on_busy=on_busy, thread_id="t")
    views = place.views()
    ledger = Interposed(views["ledger"], after=lambda kind, where: kind is Run and _asks_for_key(where))
    catalog = Catalog()
    catalog.serve("asks", graph_of("asks", asks))
    async with Service(catalog, ledger=ledger, saver=views["saver"], settings=QUICK) as service:  # pyright: ignore
        first: list[Any] = []

        def before() -> None:
            beside = threading.Thread(target=lambda: first.append(asyncio.run(service.start(WS, wanted))))
            beside.start()
            beside.join()

        ledger.happens = before
        again = await asyncio.to_thread(lambda: asyncio.run(service.start(WS, wanted)))
        assert (again.created, again.run.id) == (False, first[0].run.id)
        run = await rested(service, first[0].run)
        assert run.status is RunStatus.WAITING


def _asks_for_key(where: Any) -> bool:
    return any(one.column == "idempotency_key" for one in where)


# -- a thread at once


async def test_of_many_runs_that_want_a_thread_to_themselves_at_once_one_gets_it(place: Places) -> None:
    wanted = StartRun(graph="asks", thread_id="t")
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        found = await asyncio.gather(*(service.start(WS, wanted) for _ in range(10)), return_exceptions=True)
        [started] = [one for one in found if not isinstance(one, BaseException)]
        refused = [one for one in found if isinstance(one, RequestConflict)]
        assert len(refused) == 9
        assert all(started.run.id in str(one) for one in refused)
        assert (await service.runs(WS, RunFilter())).total == 1


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_two_workspaces_that_name_one_thread_at_once_get_one_each(place: Places, on_busy: str) -> None:
    wanted = StartRun(graph="asks", thread_id="t", on_busy=on_busy)
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        for started in await asyncio.gather(*(service.start(workspace, wanted) for workspace in (WS, "other"))):
            run = await service.wait(started.run.workspace_id, started.run.id, PATIENCE)
            assert run.status is RunStatus.WAITING
            assert len(await service.threads.runs(run.workspace_id, "t")) == 1


# -- stopped at the same time


async def test_a_run_that_is_cancelled_in_its_last_step_ends_one_way(place: Places) -> None:
    async with serving(place, graph_of("quick", ends), settings=QUICK) as service:
        for wait in range(12):
            run = (await service.start(WS, StartRun(graph="quick"))).run
            await asyncio.sleep(wait * 0.0005)
            told = await service.cancel(WS, run.id)
            run = await ended(service, run.id)
            assert run.status is told.status
            types = await types_of(service, run)
            assert sum(one in ("WORKFLOW_COMPLETED", "WORKFLOW_CANCELLED") for one in types) == 1
            assert types[-1] == f"WORKFLOW_{run.status.upper()}"
            assert (run.output is None) is (run.status is RunStatus.CANCELLED)


async def test_a_run_that_is_paused_when_it_comes_to_wait_is_paused_and_then_waits(place: Places) -> None:
    held = Held()

    def holds_and_asks(state: State) -> State:
        held(state)
        return {"log": [interrupt("go on?")]}

    async with serving(place, graph_of("asks", holds_and_asks), settings=QUICK) as service:
        started = (await service.start(WS, StartRun(graph="asks"))).run
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


async def test_a_child_does_not_outlive_its_cancelled_parent(place: Places) -> None:
    async with serving(place, graph_of("parent", parent), graph_of("kid", asks), settings=QUICK) as service:
        for wait in range(8):
            run = (await service.start(WS, StartRun(graph="parent"))).run
            await asyncio.sleep(wait * 0.003)
            await service.cancel(WS, run.id)
            await until(lambda: _idle(service))
            kids = (await service.runs(WS, RunFilter(parent_id=run.id))).items
            assert [kid.status for kid in kids] in ([], [RunStatus.CANCELLED])


async def test_children_are_cancelled_though_the_service_dies_right_after_their_parent(shared: Places) -> None:
    graphs = (graph_of("parent", parent), graph_of("kid", asks))
    async with serving(shared, *graphs, settings=QUICK) as service:
        run = await run_to_rest(service, "parent")
        [kid] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        await reached(service, kid.id, RunStatus.WAITING)
    views = shared.views()
    catalog = Catalog()
    for graph in graphs:
        catalog.serve(graph.name or "", graph)
    dies = _OneWrite(views["ledger"])
    await Service(catalog, ledger=dies, saver=views["saver"]).cancel(WS, run.id)  # pyright: ignore  # in one write
    async with serving(shared, *graphs, settings=QUICK) as service:
        assert (await service.run(WS, run.id)).status is RunStatus.CANCELLED
        await asyncio.sleep(0.2)
        assert (await service.run(WS, kid.id)).status is RunStatus.CANCELLED


class _OneWrite:
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


async def test_a_run_that_has_not_begun_gives_its_thread_up(place: Places) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        first = (await service.start(WS, StartRun(graph="asks", thread_id="t", after=later))).run
        with pytest.raises(RequestConflict, match="pending"):
            await service.start(WS, StartRun(graph="asks", thread_id="t"))
        for on_busy in ("interrupt", "rollback"):
            run = await run_to_rest(service, "asks", thread_id="t", on_busy=on_busy)
            assert run.status is RunStatus.WAITING
            assert (await service.run(WS, first.id)).status is RunStatus.CANCELLED
            first = run


async def test_a_pending_rollback_is_done_by_the_run_that_replaced_its_run(place: Places) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with serving(place, graph_of("both", ends, asks), settings=QUICK) as service:
        await run_to_rest(service, "both", thread_id="t")
        await service.start(WS, StartRun(graph="both", thread_id="t", on_busy="rollback", after=later))
        last = await run_to_rest(service, "both", thread_id="t", on_busy="rollback")
        assert await service.state(WS, last.id) == {"log": ["end"]}


def in_between(ledger: Interposed, act: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Let something be done at the next look; what came of it."""
    came: list[Any] = []

    async def done() -> None:
        try:
            came.append(await act())
        except RequestConflict as error:
            came.append(error)

    def happens() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(done()))
        thread.start()
        thread.join(PATIENCE)

    ledger.happens = happens
    return came


def rival_of(service: Service, ledger: Interposed) -> Service:
    """Another service on the same records, whose looks let nothing happen."""
    context = service.context
    plain: Any = ledger._ledger
    return Service(context.catalog, ledger=plain, saver=context.saver, clock=context.clock)


def breaking(broken: list[bool], *, last: Any = asks) -> StateGraph:
    """A graph that fails as long as it is broken."""

    def breaks(state: State) -> State:
        if broken:
            raise ValueError("not yet")
        return {"log": ["mended"]}

    return graph_of("breaks", breaks, last)


async def going(service: Service, thread_id: str) -> list[str]:
    """The runs on a thread that have not ended."""
    runs = (await service.runs(WS, RunFilter(thread_id=thread_id))).items
    return [run.id for run in runs if run.status not in ENDED]


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
@pytest.mark.parametrize(
    ("rivals", "busy"), [("reject", False), ("enqueue", False), ("enqueue", True), ("interrupt", True)]
)
async def test_a_run_takes_the_thread_also_from_runs_that_start_meanwhile(
    place: Places, rivals: str, busy: bool, on_busy: str
) -> None:
    ledger, serves = interposed(place, graph_of("asks", asks), looks_at=Run, column="thread_id")
    async with serves as service:
        rival = rival_of(service, ledger)
        if busy:
            await run_to_rest(service, "asks", thread_id="t")
        wanted = StartRun(graph="asks", thread_id="t", on_busy=rivals)
        came = in_between(ledger, lambda: rival.start(WS, wanted))
        last = await run_to_rest(service, "asks", thread_id="t", on_busy=on_busy)
        assert last.status is RunStatus.WAITING
        assert (await service.run(WS, came[0].run.id)).status is RunStatus.CANCELLED
        assert await going(service, "t") == [last.id]
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, last.id, {wait.id: "yes"})
        assert (await ended(service, last.id)).output == {"log": ["yes"]}


async def test_of_many_that_take_a_thread_at_once_one_has_it(shared: Places) -> None:
    graph = graph_of("asks", asks)
    async with serving(shared, graph, settings=QUICK) as one, serving(shared, graph, settings=QUICK) as other:
        first = await run_to_rest(one, "asks", thread_id="t")
        wanted = StartRun(graph="asks", thread_id="t", on_busy="interrupt")
        started = await asyncio.gather(*(service.start(WS, wanted) for service in (one, other) * 6))
        [last] = await going(one, "t")
        assert last in {each.run.id for each in started}
        await reached(one, last, RunStatus.WAITING)
        assert (await one.run(WS, first.id)).status is RunStatus.CANCELLED
        assert [wait.run_id for wait in (await one.waits(WS)).items] == [last]


async def test_a_run_that_is_queued_waits_its_turn_whatever_its_id_is(place: Places) -> None:
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        first = await run_to_rest(service, "asks", thread_id="t", run_id="run_m")
        for identity in ("run_z", "run_a"):
            await service.start(WS, StartRun(graph="asks", thread_id="t", on_busy="enqueue", run_id=identity))
        said: list[str] = []
        for identity in (first.id, "run_z", "run_a"):
            run = await reached(service, identity, RunStatus.WAITING)
            [wait] = (await service.waits(WS)).items
            assert (wait.run_id, run.id) == (identity, identity)
            said.append(identity)
            await service.answer(WS, identity, {wait.id: identity})
            assert (await ended(service, identity)).output == {"log": said}


@pytest.mark.parametrize("wrong", [{"graph": "nope"}, {"graph": "asks", "metadata": {"a": "x" * 3_000_000}}])
@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
async def test_a_start_that_is_refused_takes_no_thread(place: Places, wrong: dict[str, Any], on_busy: str) -> None:
    async with serving(place, graph_of("asks", asks), settings=QUICK) as service:
        run = await run_to_rest(service, "asks", thread_id="t")
        with pytest.raises((NotFound, PayloadTooLarge)):
            await service.start(WS, StartRun(thread_id="t", on_busy=on_busy, **wrong))
        after = await service.run(WS, run.id)
        assert (after.status, after.version) == (RunStatus.WAITING, run.version)


async def test_a_thread_is_taken_in_the_write_that_starts_the_run(shared: Places) -> None:
    graph = graph_of("asks", asks)
    async with serving(shared, graph, settings=QUICK) as service:
        first = await run_to_rest(service, "asks", thread_id="t")
    views, catalog = shared.views(), Catalog()
    catalog.serve("asks", graph)
    dies: Any = _OneWrite(views["ledger"])
    wanted = StartRun(graph="asks", thread_id="t", on_busy="interrupt")
    started = await Service(catalog, ledger=dies, saver=views["saver"]).start(WS, wanted)
    async with serving(shared, graph, settings=QUICK) as service:
        assert (await service.run(WS, first.id)).status is RunStatus.CANCELLED
        assert (await reached(service, started.run.id, RunStatus.WAITING)).id == started.run.id


@pytest.mark.parametrize("last", [asks, ends])
async def test_a_run_that_starts_while_another_is_retried_has_the_thread(place: Places, last: Any) -> None:
    broken = [True]
    ledger, serves = interposed(place, breaking(broken, last=last), looks_at=Run, column="thread_id")
    async with serves as service:
        rival = rival_of(service, ledger)
        run = await run_to_rest(service, "breaks", thread_id="t")
        broken.clear()
        wanted = StartRun(graph="breaks", thread_id="t")
        came = in_between(ledger, lambda: rival.start_and_wait(WS, wanted, PATIENCE))
        with pytest.raises(RequestConflict, match=r"cannot be retried"):
            await service.retry(WS, run.id)
        assert (await service.run(WS, run.id)).status is RunStatus.FAILED
        other = came[0].run
        assert other.status is (RunStatus.WAITING if last is asks else RunStatus.COMPLETED)
        assert await going(service, "t") == [other.id] * (last is asks)


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt"])
async def test_a_run_that_is_retried_while_another_starts_has_the_thread(place: Places, on_busy: str) -> None:
    broken = [True]
    ledger, serves = interposed(place, breaking(broken), looks_at=Run, column="thread_id")
    async with serves as service:
        rival = rival_of(service, ledger)
        run = await run_to_rest(service, "breaks", thread_id="t")
        broken.clear()
        came = in_between(ledger, lambda: rival.retry(WS, run.id))
        wanted = StartRun(graph="breaks", thread_id="t", on_busy=on_busy)
        if on_busy == "reject":
            with pytest.raises(RequestConflict, match=f"busy with run {run.id}"):
                await service.start(WS, wanted)
            assert await going(service, "t") == [run.id]
            return
        if on_busy == "enqueue":  # it does not look
            ledger.happens = None
            await rival.retry(WS, run.id)
        last = (await service.start(WS, wanted)).run
        if on_busy == "interrupt":
            assert came[0].id == run.id
            assert await going(service, "t") == [last.id]
            await reached(service, last.id, RunStatus.WAITING)
            return
        await reached(service, run.id, RunStatus.WAITING)
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await ended(service, run.id)).output == {"log": ["mended", "yes"]}
        await reached(service, last.id, RunStatus.WAITING)


# -- two services on one file


async def test_two_services_share_the_work_and_nothing_is_done_twice(shared: Places) -> None:
    done: list[str] = []

    def notes(state: State) -> State:
        done.append(state["log"][0])
        return {"log": ["noted"]}

    few = ServiceSettings(capacity=3, look_every=0.02, drain=1)
    graph = graph_of("notes", notes, ends)
    async with serving(shared, graph, settings=few) as one, serving(shared, graph, settings=few) as other:
        wanted = [StartRun(graph="notes", input={"log": [f"{n}"]}, idempotency_key=f"{n}") for n in range(40)]
        started = await asyncio.gather(
            *(service.start(WS, each) for each in wanted for service in (one, other)),
        )
        runs = {each.run.id for each in started}
        assert len(runs) == 40
        for run_id in runs:
            run = await ended(one, run_id)
            assert run.status is RunStatus.COMPLETED
            assert (await types_of(other, run)).count("WORKFLOW_COMPLETED") == 1
        assert sorted(done) == sorted(f"{n}" for n in range(40))


async def test_writes_of_a_worker_that_was_considered_dead_have_no_effect(shared: Places) -> None:
    zombie, alive = Held("work"), Held("work")
    alive.go.set()
    slow = ServiceSettings(lease=1000, drain=0.2)
    live = ServiceSettings(lease=0.15, look_every=0.02, drain=0.2)
    async with serving(shared, graph_of("works", zombie, ends), settings=slow) as one:
        run = (await one.start(WS, StartRun(graph="works"))).run
        await zombie.has_begun()
        async with serving(shared, graph_of("works", alive, ends), settings=live) as other:
            mine = [UpdateAll(Worker, [], {"until": LONG_AGO})]
            await aresolve(other.context.ledger.write(mine))
            done = await ended(other, run.id)
            assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": ["work", "end"]})
            zombie.go.set()
            await until(lambda: _idle(one))
            after = await other.run(WS, run.id)
            assert (after.version, after.last_event) == (done.version, done.last_event)
            assert (await types_of(other, run)).count("STEP_COMPLETED") == 2
            assert {step.status for step in await other.steps(WS, run.id)} == {StepStatus.COMPLETED}


async def test_a_run_is_stopped_by_a_service_that_does_not_have_it(shared: Places) -> None:
    settings = ServiceSettings(lease=0.15, look_every=0.02, drain=0.2)
    for act, status in (("cancel", RunStatus.CANCELLED), ("pause", RunStatus.PAUSED)):
        held = Held()
        graph = graph_of(act, held, ends)
        async with serving(shared, graph, settings=settings) as one:
            run = (await one.start(WS, StartRun(graph=act))).run
            await held.has_begun()
            async with serving(shared, graph, settings=settings) as other:
                await getattr(other, act)(WS, run.id)
                await asyncio.sleep(0.15)
                held.go.set()
                run = await reached(other, run.id, status)
                await until(lambda: _idle(one))
                assert (await other.run(WS, run.id)).version == run.version
                assert held.calls == 1


async def test_a_pause_that_its_worker_notices_too_late_applies_when_the_run_continues(shared: Places) -> None:
    held = Held()
    deaf = ServiceSettings(lease=1000, look_every=0.02, drain=0.2)
    graph = graph_of("asks", held, asks, ends)
    async with serving(shared, graph, settings=deaf) as one, serving(shared, graph, settings=QUICK) as other:
        run = (await one.start(WS, StartRun(graph="asks"))).run
        await held.has_begun()
        if one.worker is None or other.worker is None or one.worker.attempt_at(run.id) is None:
            raise AssertionError("The run is to be at work in the service that has started it.")
        await other.pause(WS, run.id)
        held.go.set()
        await reached(other, run.id, RunStatus.WAITING)
        [wait] = (await other.waits(WS)).items
        await other.answer(WS, run.id, {wait.id: "yes"})
        await reached(other, run.id, RunStatus.PAUSED)
        await other.resume(WS, run.id)
        assert (await ended(other, run.id)).output == {"log": ["held", "yes", "end"]}
