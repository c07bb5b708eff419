"""A thread is changed at any call to the saver while a run wakes up: no input for the run is lost.

Either the change is refused, or the run takes the input that woke it and continues. Changes come through the service,
which knows the run and checks its claim, or directly to the thread, without the worker knowing.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    GatedStorage,
    Gates,
    RunStorage,
    run_until_idle,
    types_of,
    wait_until,
    wait_until_idle,
)

from statewright import START, Runtime, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import CheckpointConflict, RequestConflict, ThreadBusy
from statewright.runs import ENDED, Run, RunStatus, Signal, StepRun, StepStatus, Wait, where
from statewright.service import Catalog, Service, ServiceSettings
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
HOUR = timedelta(hours=1)
REFUSALS = (RequestConflict, ThreadBusy, CheckpointConflict)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def first(state: State) -> State:
    return {"log": ["first"]}


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid", timeout=HOUR)]}


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def await_approval(state: State) -> State:
    question = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"}
    answer = interrupt(question, timeout=HOUR)
    return {"log": [answer and answer["decision"]]}


def call_child(state: State, runtime: Runtime[Any]) -> State:
    return {"log": runtime.start_run("child", {})["log"]}


def ask_other(state: State) -> State:
    return {"log": [interrupt("the other question")]}


WAKE_UPS: dict[str, tuple[Any, Any, str]] = {
    "signal": (await_payment, {"amount": 7}, "SIGNAL_RECEIVED"),
    "answer an event": (await_payment, {"amount": 7}, "SIGNAL_RECEIVED"),
    "answer": (ask, "yes", "SIGNAL_RECEIVED"),
    "decide": (await_approval, "approved", "SIGNAL_RECEIVED"),
    "timeout of an event": (await_payment, None, "TIMER_FIRED"),
    "timeout of an approval": (await_approval, None, "TIMER_FIRED"),
    "end of a child": (call_child, "yes", "SIGNAL_RECEIVED"),
}
"""By the kind of wake-up: the waiting node, the value that it receives, and the type of the event in the log."""


def graph_of(node: Any) -> StateGraph:
    graph = StateGraph(State, name="g").add_node(first).add_node("waiting", node).add_node("other", ask_other)
    return graph.add_edge(START, "first").add_edge("first", "waiting").add_edge("first", "other")


class Case:
    """A run that waits in two parallel nodes, in a service whose saver has gates."""

    def __init__(self, run_storage: RunStorage, wake_up: str, edit: str) -> None:
        self.wake_up, self.edit = wake_up, edit
        self.node, self.value, self.event_type = WAKE_UPS[wake_up]
        self.gates, self.clock, catalog = (
            Gates("load", "commit", "save_results", "renew", "lease"),
            FakeClock(),
            Catalog(),
        )
        catalog.serve("g", graph_of(self.node))
        catalog.serve("child", StateGraph(State, name="child").add_node(ask).add_edge(START, "ask"))
        views = run_storage.views()
        self.saver = views["saver"].for_workspace(WS)
        gated: Any = GatedStorage(views["saver"], self.gates)
        options: Any = {"ledger": views["ledger"], "clock": self.clock}
        self.service = Service(catalog, saver=gated, settings=QUICK, **options)
        self.editor = Service(catalog, saver=views["saver"], **options)
        """Another service on the same records, without gates."""

    async def begin(self) -> Run:
        run = await run_until_idle(self.service, "g", {}, thread_id="t")
        assert run.status is RunStatus.WAITING
        self.head = (await self.editor.threads.state(WS, "t"))["checkpointId"]
        self.wait = next(wait for wait in await self.waits(run) if wait.step_name == "waiting")
        if self.wake_up == "end of a child":
            self.child_wait = await wait_until(self.wait_of_child)
        return run

    async def wait_of_child(self) -> Wait | None:
        waits = [wait for wait in (await self.service.waits(WS)).items if wait.step_name == "ask"]
        return waits[0] if waits and (await self.service.run(WS, waits[0].run_id)).claim is None else None

    async def waits(self, run: Run) -> list[Wait]:
        return list(await aresolve(self.service.context.ledger.find(Wait, where(run_id=run.id))))

    async def wake(self, run: Run) -> None:
        service = self.service
        match self.wake_up:
            case "signal":
                await service.signal(WS, run.id, "paid", self.value)
            case "answer" | "answer an event":
                await service.answer(WS, run.id, {self.wait.id: self.value})
            case "decide":
                await service.decide(WS, self.wait.id, self.value)
            case "end of a child":
                await service.answer(WS, self.child_wait.run_id, {self.child_wait.id: self.value})
            case _:
                self.clock.advance(HOUR)
                service.wake_background_tasks()

    def change_thread(self) -> None:
        """Change the thread on another OS thread, while the caller is held at a gate."""
        errors: list[BaseException] = []

        def act() -> None:
            try:
                self._change_thread()
            except REFUSALS:
                pass
            except BaseException as error:
                errors.append(error)

        worker = threading.Thread(target=act)
        worker.start()
        worker.join(PATIENCE)
        assert not worker.is_alive()
        assert errors == []

    def _change_thread(self) -> None:
        threads = self.editor.threads
        match self.edit:
            case "fork to another branch":
                asyncio.run(threads.fork(WS, "t", self.head, "side"))
            case "fork":
                asyncio.run(threads.fork(WS, "t", self.head))
            case "update":
                asyncio.run(threads.update(WS, "t", {"log": ["edit"]}, as_node="first"))
            case _:
                app = graph_of(self.node).compile().with_services(checkpointer=self.saver, clock=self.clock)
                config = {"configurable": {"thread_id": "t", "checkpoint_id": self.head}}
                with suppress(*REFUSALS):
                    app.fork(config, branch="side")
                if self.edit == "direct fork":
                    app.fork(config)

    async def woken(self, run: Run) -> Any:
        """Return the run once it waits for the other answer only, or has ended."""

        async def run_if_woken() -> Any:
            waits = await self.waits(run)  # read before the run, which is due or claimed until it waits again
            current = await self.service.run(WS, run.id)
            is_idle = current.status is RunStatus.WAITING and current.claim is None and current.due_at is None
            return current if current.status in ENDED or (is_idle and len(waits) == 1) else None

        return await wait_until(run_if_woken)


@pytest.mark.parametrize(
    "edit", ["fork to another branch", "fork", "update", "direct fork to another branch", "direct fork"]
)
@pytest.mark.parametrize("wake_up", list(WAKE_UPS))
@pytest.mark.sampled(8)
async def test_changing_a_thread_during_a_wake_up_loses_no_input(
    run_storage: RunStorage, wake_up: str, edit: str, tmp_path: Path
) -> None:
    at = calls_made = 1
    while at <= calls_made:
        run_storage = RunStorage.of(run_storage.kind, tmp_path / f"{at}.db", schema=1)
        case = Case(run_storage, wake_up, edit)
        async with case.service as service:
            run = await case.begin()
            case.gates.arm(at, case.change_thread)
            await case.wake(run)
            waiting = await case.woken(run)
            calls_made = case.gates.calls
            assert waiting.status is RunStatus.WAITING, (at, waiting.error)
            (left,) = await case.waits(run)
            assert left.step_name == "other"
            await service.answer(WS, run.id, {left.id: "the other answer"})
            done = await wait_until_idle(service, run)
            assert (done.status, done.error) == (RunStatus.COMPLETED, None), at
            log = [item for item in done.output["log"] if item != "edit"]
            assert sorted(map(str, log)) == sorted(map(str, ["first", case.value, "the other answer"])), at
            assert await case.waits(run) == []
            ledger = service.context.ledger
            assert await aresolve(ledger.count(Signal, where(run_id=run.id, taken=False))) == 0
            steps = await aresolve(ledger.find(StepRun, where(run_id=run.id)))
            assert {step.status for step in steps} <= {StepStatus.COMPLETED, StepStatus.CANCELLED}
            types = await types_of(service, run)
            assert types.count("WORKFLOW_RESUMED") == 2, (at, types)
            assert types.count("SIGNAL_RECEIVED") + types.count("TIMER_FIRED") == 2, (at, types)
            assert case.event_type in types
        run_storage.close()
        at += 1
    assert calls_made > 2
