"""A service dies between any two of its writes: the next one resumes, and nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, RunStorage, serving, types_of

from statewright import END, START, Runtime, StateGraph, interrupt, sleep, wait_for_event
from statewright.agents import tool
from statewright.async_futures import aresolve
from statewright.errors import NotFound, RequestConflict, StatewrightError, StorageUnavailable
from statewright.futures import is_future
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, Usage
from statewright.runs import ENDED, DailySpending, Delete, RunStatus, StepStatus, UpdateAll, Worker
from statewright.service import RunFilter, ServiceSettings, SpendingLimits, StartRun
from statewright.workflow.steps import compile_steps

pytestmark = pytest.mark.anyio
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
QUICK = ServiceSettings(drain=0.05, poll_interval=0.02)
MANY = SpendingLimits(requests_per_day=1000)
"""A limit that no run reaches, but that makes every write check the spending."""
WRITES = range(1, 31)
"""The numbers of the writes at which a service dies. The runs below take about as many."""


class Life:
    """The writes that a process may still make. The last one is made or not, but is never answered."""

    def __init__(self, writes: int, *, makes_last: bool) -> None:
        self.left = writes
        self.makes_last = makes_last
        self._lock = threading.Lock()

    @property
    def has_ended(self) -> bool:
        return self.left <= 0

    def write(self, make: Any) -> Any:
        with self._lock:
            self.left -= 1
            left = self.left
        if left > 0:
            return make()
        if left == 0 and self.makes_last:
            return _lost(make())
        raise StorageUnavailable("The process is dead.")


def _lost(answer: Any) -> Any:
    """Return the answer of a write that was made, but whose confirmation is lost."""
    if not is_future(answer):
        raise StorageUnavailable("The process is dead.")
    lost: Future[Any] = Future()
    answer.add_done_callback(lambda _: lost.set_exception(StorageUnavailable("The process is dead.")))
    return lost


class MortalLedger:
    """A ledger as a process uses it until it dies."""

    def __init__(self, ledger: Any, life: Life) -> None:
        self._ledger, self._life = ledger, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        if self._life.has_ended and [type(change) for change in changes] == [Delete] and changes[0].kind is Worker:
            return None  # a dead process does not deregister
        return self._life.write(lambda: self._ledger.write(changes))

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> Any:
        if self._life.has_ended:
            return ()
        return self._ledger.claim(worker_id, now, limit, **served)


class MortalSaver:
    """The saver of the same process."""

    def __init__(self, saver: Any, life: Life) -> None:
        self._saver, self._life = saver, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def for_workspace(self, workspace: str) -> MortalSaver:
        return MortalSaver(self._saver.for_workspace(workspace), self._life)

    def commit(self, *args: Any, **options: Any) -> Any:
        return self._life.write(lambda: self._saver.commit(*args, **options))

    def save_results(self, *args: Any, **options: Any) -> Any:
        return self._life.write(lambda: self._saver.save_results(*args, **options))

    def renew(self, *args: Any, **options: Any) -> Any:
        return None if self._life.has_ended else self._saver.renew(*args, **options)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def graph_of(name: str, **nodes: Any) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node, function in nodes.items():
        graph.add_node(node, function)
        graph.add_edge(before, node)
        before = node
    graph.add_edge(before, END)
    return graph


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid")["amount"]]}


def nap(state: State) -> State:
    sleep(timedelta(milliseconds=5))
    return {"log": ["slept"]}


def start_children(state: State, runtime: Runtime[Any]) -> State:
    runtime.start_run("child", {"log": ["detached"]}, wait=False)
    return {"log": runtime.start_run("child", {"log": ["awaited"]})["log"]}


def marking(word: str) -> Any:
    def mark(state: State) -> State:
        return {"log": [word]}

    return mark


class ToolCallingModel:
    """A model that calls the tools `look` and `pay`, and then answers with the result of `pay`."""

    name = "caller"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        answers = [message.text for message in request.messages if message.role == "tool"]
        if len(answers) < 2:
            call = ToolCall(f"call {len(answers)}", ("look", "pay")[len(answers)], {})
            message = Message("", role="assistant", tool_calls=[call])
        else:
            message = Message(f"I {answers[1]}", role="assistant")
        return ModelResponse(message, Usage(10, 5, 0.25), "caller")


TOOL_CALLS: Counter[str] = Counter()
"""How often each tool was called, by both processes."""


def tool_calling_workflow() -> Any:
    """Return a workflow whose model calls a tool, and then one that needs approval."""

    @tool
    def look() -> str:
        """Looks."""
        TOOL_CALLS["look"] += 1
        return "saw it"

    @tool(approve=True)
    def pay() -> str:
        """Pays."""
        TOOL_CALLS["pay"] += 1
        return "paid"

    document = {
        "name": "long",
        "version": "1",
        "steps": [
            {
                "type": "llm",
                "name": "log",
                "model": "caller",
                "messages": [{"role": "user", "content": "Go."}],
                "tools": [{"name": "look"}, {"name": "pay"}],
            }
        ],
    }
    return compile_steps(document, models=ToolCallingModel(), tools=[look, pay])


GRAPHS = {
    "tools": lambda: [tool_calling_workflow()],
    "event": lambda: [graph_of("long", first=marking("first"), event=await_payment, last=marking("last"))],
    "question": lambda: [graph_of("long", first=marking("first"), ask=ask, nap=nap)],
    "children": lambda: [
        graph_of("long", start_children=start_children, last=marking("last")),
        graph_of("child", nap=nap),
    ],
}
OUTPUTS: dict[str, Any] = {
    "tools": "I paid",
    "event": ["first", 3, "last"],
    "question": ["first", "yes", "slept"],
    "children": ["awaited", "slept", "last"],
}


async def drive_run(service: Any, *, key: str = "once") -> Any:
    """Start a run, and repeat its signal and answers until it ends, like a client that receives no confirmation."""
    started = await service.start(WS, StartRun(graph="long", idempotency_key=key))
    run_id = started.run.id
    while True:
        run = await service.wait(WS, run_id, 0.02)
        if run.status in ENDED:
            return run
        with suppress(RequestConflict):
            await service.signal(WS, run_id, "paid", {"amount": 3}, key="the payment")
        for wait in (await service.waits(WS)).items:
            if wait.run_id == run_id and wait.kind == "question":
                with suppress(RequestConflict, NotFound):  # an earlier answer was accepted
                    await service.answer(WS, run_id, {wait.id: "yes"})


async def serve_until_death(run_storage: RunStorage, life: Life, graphs: Any) -> None:
    """Run a service and a client until its process dies."""
    views = run_storage.views()
    views_until_death = {"ledger": MortalLedger(views["ledger"], life), "saver": MortalSaver(views["saver"], life)}
    with suppress(StorageUnavailable):
        async with _serving(views_until_death, graphs) as service:
            client = asyncio.create_task(drive_run(service))
            while not life.has_ended and not client.done():
                await asyncio.sleep(0.002)
            client.cancel()
            with suppress(asyncio.CancelledError, StatewrightError):
                await client
    # Some time later, the lease of the dead worker has expired.
    await aresolve(views["ledger"].write([UpdateAll(Worker, [], {"until": LONG_AGO})]))


def _serving(views: dict[str, Any], graphs: Any) -> Any:
    from statewright.service import Catalog, Service

    catalog = Catalog()
    for graph in graphs:
        catalog.serve(graph.name, graph)
    return Service(catalog, **views, settings=QUICK, spending_limits=MANY)


@pytest.mark.parametrize("makes_last", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
@pytest.mark.sampled(4)
async def test_a_run_completes_exactly_once_wherever_its_service_dies(
    tmp_path: Path, request: pytest.FixtureRequest, shape: str, makes_last: bool
) -> None:
    # Dying after a write is almost the same as dying before the next one.
    for number in WRITES[::2] if makes_last else WRITES:
        run_storage = RunStorage(tmp_path / f"{number}.db")
        try:
            TOOL_CALLS.clear()
            life = Life(number, makes_last=makes_last)
            await serve_until_death(run_storage, life, GRAPHS[shape]())
            async with serving(run_storage, *GRAPHS[shape](), settings=QUICK, spending_limits=MANY) as service:
                async with asyncio.timeout(PATIENCE):
                    run = await drive_run(service)
                await check_complete(service, run, shape)
        finally:
            run_storage.close()
        if not life.has_ended:
            return
    raise AssertionError("The run takes more writes: add some to WRITES.")


async def waits_belong_to_runs(service: Any) -> bool:
    """Return whether as many runs wait as there are waits."""
    runs = (await service.runs(WS, RunFilter())).items
    return (await service.waits(WS)).total == sum(1 for run in runs if run.status is RunStatus.WAITING)


async def check_complete(service: Any, run: Any, shape: str) -> None:
    """Check that everything has happened exactly once."""
    assert (run.status, run.error) == (RunStatus.COMPLETED, None)
    assert run.output == {"log": OUTPUTS[shape]}
    assert (run.claim, run.due_at, run.worker_id) == (None, None, None)
    types = Counter(await types_of(service, run))
    assert (types["WORKFLOW_STARTED"], types["WORKFLOW_COMPLETED"]) == (1, 1)
    steps = await service.steps(WS, run.id)
    assert [step.status for step in steps] == [StepStatus.COMPLETED] * len(steps)
    assert types["STEP_STARTED"] == types["STEP_COMPLETED"] == len(steps)
    assert types["TIMER_FIRED"] == types["TIMER_SCHEDULED"] == (1 if shape == "question" else 0)
    assert types["SIGNAL_RECEIVED"] == 1
    assert (types["LLM_CALL_COMPLETED"], types["TOOL_CALLED"]) == ((3, 2) if shape == "tools" else (0, 0))
    assert TOOL_CALLS.total() <= types["TOOL_CALLED"] + 1, "Only a call in progress is repeated."
    assert run.total_cost == 0.25 * types["LLM_CALL_COMPLETED"]
    days = await aresolve(service.context.ledger.find(DailySpending))
    calls = types["LLM_CALL_COMPLETED"]
    assert sum(day.requests for day in days) == calls, "Each call counts once."
    assert (sum(day.tokens for day in days), sum(day.cost for day in days)) == (15 * calls, 0.25 * calls)
    assert (await service.runs(WS, RunFilter())).total == (3 if shape == "children" else 1)
    async with asyncio.timeout(PATIENCE):
        while not await waits_belong_to_runs(service):  # a child may continue between the two queries
            await asyncio.sleep(0.01)
