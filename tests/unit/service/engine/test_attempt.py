"""One attempt of a worker to advance one run."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, RetryPolicy, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, LeaseRequest
from statewright.errors import NotFound, Problem, SerdeError, StorageLocked, WorkflowError
from statewright.futures import is_future
from statewright.runs import Approval, Insert, Ledger, Run, RunStatus, Signal, StepRun, Wait, where
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.engine.attempt import RunAttempt
from statewright.service.engine.waits import wake_change
from statewright.service.following.hub import Hub
from statewright.service.operations.signals import SignalOperations
from statewright.service.operations.starting import Starter
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def create_attempt(run: Run, context: ServiceContext, load_graph: Any) -> RunAttempt:
    context.versions.load_graph = load_graph  # type: ignore[method-assign]
    return RunAttempt(run, context, Starter(context))


class State(TypedDict, total=False):
    one: int
    two: int


class AttemptBench:
    """Attempts at one run of a graph with two steps."""

    def __init__(self, storage: tuple[Ledger, Checkpointer], run: Run) -> None:
        self.ledger, self.saver = storage
        self.clock, self.run, self.finished_steps = FakeClock(), run, list[str]()
        self.error: Exception | None = None
        self.during_step: Callable[[], object] = lambda: None
        graph = StateGraph(State, name="g")
        graph.add_node("one", self._one)
        graph.add_node("two", self._two)
        for before, after in ((START, "one"), ("one", "two"), ("two", END)):
            graph.add_edge(before, after)
        self.app = graph.compile()

    def _one(self, state: Any) -> dict[str, int]:
        self.finished_steps.append("one")
        self.during_step()
        return {"one": 1}

    def _two(self, state: Any) -> dict[str, int]:
        self.finished_steps.append("two")
        return {"two": 2}

    async def _app_of(self, run: Run) -> Any:
        if self.error is not None:
            raise self.error
        return self.app

    def attempt(self) -> RunAttempt:
        settings = ServiceSettings(max_steps=10, max_output=1000)
        context = ServiceContext(self.ledger, self.saver, Catalog(), self.clock, settings)
        return create_attempt(self.run, context, self._app_of)

    async def insert_run(self) -> None:
        await aresolve(self.ledger.write([Insert(self.run)]))

    async def find_run(self) -> Any:
        return await aresolve(self.ledger.get(Run, self.run.id))


@pytest.fixture
def bench(storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]) -> AttemptBench:
    return AttemptBench(storage, new_run(claim="c", worker_id="wrk_1", input={}))


async def test_a_run_is_advanced_to_its_end(bench: AttemptBench) -> None:
    await bench.insert_run()
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.status, run.output, bench.finished_steps) == (RunStatus.COMPLETED, {"one": 1, "two": 2}, ["one", "two"])
    assert (run.claim, run.worker_id, run.due_at) == (None, None, None)


@pytest.mark.parametrize(("stop", "status"), [("pause", RunStatus.PAUSED), ("release", RunStatus.RUNNING)])
async def test_a_stopped_run_finishes_its_current_step(bench: AttemptBench, stop: str, status: Any) -> None:
    await bench.insert_run()
    attempt = bench.attempt()
    bench.during_step = getattr(attempt, stop)
    await attempt.advance()
    run = await bench.find_run()
    assert (run.status, run.claim, bench.finished_steps) == (status, None, ["one"])
    assert (run.due_at is not None) is (stop == "release")


async def test_a_pause_requested_before_the_claim_is_honoured(bench: AttemptBench) -> None:
    bench.run.settings = {"pause": True}
    await bench.insert_run()
    await bench.attempt().advance()
    assert ((await bench.find_run()).status, bench.finished_steps) == (RunStatus.PAUSED, [])


async def test_an_attempt_follows_changes_of_its_record(bench: AttemptBench, new_run: Callable[..., Run]) -> None:
    await bench.insert_run()
    attempt = bench.attempt()
    bench.during_step = lambda: attempt.check_record(new_run(id=bench.run.id, claim="c", settings={"pause": True}))
    await attempt.advance()
    assert ((await bench.find_run()).status, bench.finished_steps) == (RunStatus.PAUSED, ["one"])


async def test_a_busy_thread_is_retried(bench: AttemptBench) -> None:
    await bench.insert_run()
    now = bench.clock.now()
    before = bench.app.with_services(checkpointer=bench.saver, clock=bench.clock)
    await before.ainvoke({}, thread_id=bench.run.thread_id, run_id="other")
    bench.finished_steps.clear()
    lease = LeaseRequest("other/1", now, now + timedelta(minutes=1), claims=True)
    await aresolve(bench.saver.renew(bench.run.thread_id, lease))
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.claim, bench.finished_steps, run.status in (RunStatus.PENDING, RunStatus.RUNNING)) == (None, [], True)
    assert now < run.due_at < now + timedelta(seconds=5)


MISSING = [NotFound("Graph 'g' does not exist."), WorkflowError([Problem("steps[0].handler", 0, 0, "There is none.")])]


@pytest.mark.parametrize("error", MISSING)
async def test_a_run_without_its_code_is_postponed(bench: AttemptBench, error: Exception) -> None:
    bench.error = error
    await bench.insert_run()
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.claim, run.status) == (None, RunStatus.PENDING)
    assert run.due_at > bench.clock.now()


@pytest.mark.parametrize("error", MISSING)
async def test_a_run_without_its_code_fails_at_its_deadline(bench: AttemptBench, error: Exception) -> None:
    bench.error = error
    bench.run.deadline_at = bench.clock.now()
    await bench.insert_run()
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


async def test_a_run_whose_graph_cannot_be_compiled_fails(bench: AttemptBench) -> None:
    bench.error = ValueError("no such module")
    await bench.insert_run()
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.status, run.error["message"]) == (RunStatus.FAILED, "ValueError: no such module")


class UnreadableRecords:
    """A saver or a ledger in which one kind of read fails."""

    def __init__(self, inner: Any, read: str, error: Exception) -> None:
        self._inner, self._read, self._error = inner, read, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._read else getattr(self._inner, name)

    def for_workspace(self, workspace_id: str) -> Any:
        return UnreadableRecords(self._inner.for_workspace(workspace_id), self._read, self._error)

    def _fail(self, *args: Any, **options: Any) -> Any:
        raise self._error


@pytest.mark.parametrize("read", ["saver.load", "ledger.find"])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SerdeError("State.foo", "there is no class Foo"), RunStatus.FAILED),
        (ValueError("bad"), RunStatus.FAILED),
        (StorageLocked("locked"), RunStatus.RUNNING),
    ],
)
async def test_a_run_that_cannot_be_read_fails_unless_the_storage_is_unavailable(
    bench: AttemptBench, read: str, error: Exception, status: RunStatus
) -> None:
    bench.run.begun, bench.run.status = True, RunStatus.RUNNING
    await bench.insert_run()
    ledger = bench.ledger
    storage, method = read.split(".")
    setattr(bench, storage, UnreadableRecords(getattr(bench, storage), method, error))
    await bench.attempt().advance()
    run: Any = await aresolve(ledger.get(Run, bench.run.id))
    assert (run.claim, run.status, run.due_at is None) == (None, status, status is RunStatus.FAILED)
    assert (str(error) in str(run.error)) is (status is RunStatus.FAILED)


async def test_a_late_run_fails_without_another_step(bench: AttemptBench) -> None:
    bench.run.deadline_at = bench.clock.now()
    await bench.insert_run()
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.status, run.error["code"], bench.finished_steps) == (RunStatus.FAILED, "RUN_TIMEOUT", [])


async def test_an_attempt_without_its_claim_changes_nothing(bench: AttemptBench) -> None:
    await bench.insert_run()
    bench.run.claim = "old"
    await bench.attempt().advance()
    run = await bench.find_run()
    assert (run.claim, run.version, run.status) == ("c", 1, RunStatus.PENDING)


# -- waiting runs


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def parallel(*nodes: Any, **options: Any) -> StateGraph:
    graph = StateGraph(Log, name="g")
    for node in nodes:
        graph.add_node(node.__name__, node, **options)
        graph.add_edge(START, node.__name__)
        graph.add_edge(node.__name__, END)
    return graph


def ask_one(state: Log) -> Log:
    return {"log": [interrupt("one?")]}


def ask_two(state: Log) -> Log:
    return {"log": [interrupt("two?", schema=int)]}


def wait_for_payment(state: Log) -> Log:
    return {"log": [wait_for_event("paid")["amount"]]}


def ask_for_approval(state: Log) -> Log:
    decision = interrupt({"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"})
    return {"log": [decision["decision"]]}


class WaitingRun:
    """A run that is claimed and advanced repeatedly."""

    def __init__(self, storage: tuple[Ledger, Checkpointer], run: Run, graph: StateGraph) -> None:
        self.context = ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_steps=10, max_output=1000))
        self.ledger, self.clock, self.run = self.context.ledger, self.context.clock, run
        self.app = graph.compile()
        self.signals = SignalOperations(self.context)

    async def _app_of(self, run: Run) -> Any:
        return self.app

    async def begin(self) -> Run:
        self.run.due_at, self.run.input = self.clock.now(), {}
        await self.context.write([Insert(self.run)])
        return await self.advance()

    async def claim_run(self, ledger: Ledger | None = None) -> RunAttempt:
        """Claim the run, which must be due, and return an attempt at it."""
        [run] = await aresolve(self.ledger.claim("wrk_1", self.clock.now(), 5))
        context = replace(self.context, ledger=ledger or self.ledger, hub=Hub())
        return create_attempt(run, context, self._app_of)

    async def advance(self, ledger: Ledger | None = None) -> Run:
        await (await self.claim_run(ledger)).advance()
        return await self.find_run()

    async def find_run(self) -> Run:
        return await self.context.records.run("default", self.run.id)

    async def open_waits(self) -> dict[Any, str]:
        """Return the ids of the open waits by question or event."""
        return {str(wait.value or wait.event): wait.id for wait in await aresolve(self.ledger.find(Wait))}

    async def events(self) -> list[str]:
        return [event.type for event in await aresolve(self.ledger.events(self.run.id))]


async def test_questions_of_a_nested_graph_are_answered_one_after_the_other(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    outer = StateGraph(Log, name="outer")
    outer.add_node("inner", parallel(ask_one, ask_two).compile())
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    bench = WaitingRun(storage, new_run(), outer)
    assert (await bench.begin()).status is RunStatus.WAITING
    wait_ids = await bench.open_waits()
    assert sorted(wait_ids) == ["one?", "two?"]
    await bench.signals.answer("default", bench.run.id, {wait_ids["two?"]: 2})
    run = await bench.advance()
    assert (run.status, run.due_at, await bench.open_waits()) == (RunStatus.WAITING, None, {"one?": wait_ids["one?"]})
    await bench.signals.answer("default", bench.run.id, {wait_ids["one?"]: 1})
    assert (await bench.advance()).output == {"log": [1, 2]}
    events = await bench.events()
    assert [events.count(item) for item in ("STEP_STARTED", "STEP_WAITING", "SIGNAL_RECEIVED")] == [1, 2, 2]


async def test_an_approval_decided_while_another_branch_runs_is_handled_afterwards(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    decisions: list[Approval] = []

    async def wait_for_payment_and_decide(state: Log) -> Log:
        amount = wait_for_event("paid")["amount"]
        [approval] = await aresolve(bench.ledger.find(Approval))
        decisions.append(await bench.signals.decide("default", approval.id, "rejected"))
        assert (await bench.find_run()).due_at is None
        return {"log": [amount]}

    bench = WaitingRun(storage, new_run(), parallel(wait_for_payment_and_decide, ask_for_approval))
    await bench.begin()
    await bench.signals.signal("default", bench.run.id, "paid", {"amount": 3})
    run = await bench.advance()
    assert [item.decision for item in decisions] == ["rejected"]
    assert (run.status, run.due_at) == (RunStatus.WAITING, bench.clock.now())
    run = await bench.advance()
    assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": [3, "rejected"]})
    assert (await bench.events()).count("APPROVAL_DECIDED") == 1


async def test_a_run_without_a_matching_signal_keeps_waiting(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    bench = WaitingRun(storage, new_run(), parallel(wait_for_payment))
    await bench.begin()
    before = await bench.events()
    await bench.signals.signal("default", bench.run.id, "sent", {})
    run = await bench.advance()
    assert (run.status, run.claim, run.due_at) == (RunStatus.WAITING, None, None)
    assert await bench.events() == before


async def test_an_invalid_answer_leaves_the_question_open(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    bench = WaitingRun(storage, new_run(), parallel(ask_two))
    await bench.begin()
    [wait] = await aresolve(bench.ledger.find(Wait))
    now = bench.clock.now()
    # A stored signal whose payload was not checked.
    wrong = Signal(
        id="sig", run_id=bench.run.id, type="", interrupt_id=wait.interrupt_id, payload="many", key="k", created_at=now
    )
    await bench.context.write([Insert(wrong), wake_change(bench.run.id, now)])
    run = await bench.advance()
    assert (run.status, run.claim, run.due_at, await bench.open_waits()) == (
        RunStatus.WAITING,
        None,
        None,
        {"two?": wait.id},
    )
    assert (await bench.events())[-1] == "SIGNAL_IGNORED"
    await bench.signals.answer("default", bench.run.id, {wait.id: 3})
    assert (await bench.advance()).output == {"log": [3]}


@pytest.mark.parametrize("due", [None, 60])
async def test_a_signal_that_arrives_while_the_inbox_is_read_is_not_lost(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run], due: int | None
) -> None:
    """The inbox is read again whether the run keeps waiting or has timed out."""

    def wait_for_payment_in_time(state: Log) -> Log:
        event = wait_for_event("paid", timeout=due)
        return {"log": [event["amount"] if event is not None else "late"]}

    bench = WaitingRun(storage, new_run(), parallel(wait_for_payment_in_time))
    await bench.begin()
    if due is not None:
        bench.clock.advance(due)
    else:
        await bench.signals.signal("default", bench.run.id, "sent", {})
    late: Any = LateSignalLedger(bench)
    run = await bench.advance(late)
    assert (late.sent, run.status, run.claim, run.due_at) == (1, RunStatus.WAITING, None, bench.clock.now())
    assert (await bench.advance()).output == {"log": [5]}
    assert "TIMER_FIRED" not in await bench.events()


class LateSignalLedger:
    """A ledger in which a signal arrives once, right after the inbox was read."""

    def __init__(self, bench: WaitingRun) -> None:
        self._ledger, self._run_id, self.sent = bench.ledger, bench.run.id, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, kind: Any, *args: Any, **options: Any) -> Any:
        result: Any = self._ledger.find(kind, *args, **options)
        if kind is Signal:
            result = result.result() if is_future(result) else result
            self._send()
        return result

    def _send(self) -> None:
        self.sent += 1
        now = FakeClock().now()
        signal = Signal(id="sig", run_id=self._run_id, type="paid", payload={"amount": 5}, key="k", created_at=now)
        written: Any = self._ledger.write([Insert(signal), wake_change(self._run_id, now)])
        if is_future(written):
            written.result()


async def test_a_run_that_only_waits_for_retries_is_released_at_once(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    attempts: list[int] = []

    def flaky(state: Log) -> Log:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("again")
        return {"log": ["well"]}

    graph = parallel(flaky, retry_policy=RetryPolicy(initial_interval=3600, jitter=False))
    bench = WaitingRun(storage, new_run(input={}), graph)
    bench.run.due_at = bench.clock.now()
    await bench.context.write([Insert(bench.run)])
    attempt = await bench.claim_run()
    advancing = asyncio.create_task(attempt.advance())
    while "STEP_RETRY_SCHEDULED" not in await bench.events():
        await asyncio.sleep(0.001)
    attempt.release()
    await asyncio.wait_for(advancing, 600)
    run = await bench.find_run()
    assert (run.status, run.claim, run.due_at) == (RunStatus.RUNNING, None, bench.clock.now())
    [step] = await aresolve(bench.ledger.find(StepRun, where(run_id=run.id)))
    assert (step.status, step.attempt) == ("running", 2)
