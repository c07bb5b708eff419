"""A thread that is changed at any call that the wake-up of a run makes to its saver: no input for it is lost.

The change is refused, or the run takes what it was woken by and goes on. One comes through the service, which knows the
run and asks for its claim; one comes from elsewhere, straight to the thread, and moves it under the worker.
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
from tests.semantics.on_services import PATIENCE, WS, Gated, Gates, Places, rested, run_to_rest, types_of, until

from statewright import START, Runtime, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import CheckpointConflict, RequestConflict, ThreadBusy
from statewright.runs import ENDED, Run, RunStatus, Signal, StepRun, StepStatus, Wait, where
from statewright.service import Catalog, Service, ServiceSettings
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(look_every=0.02, drain=0.2)
HOUR = timedelta(hours=1)
REFUSALS = (RequestConflict, ThreadBusy, CheckpointConflict)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def first(state: State) -> State:
    return {"log": ["first"]}


def pays(state: State) -> State:
    return {"log": [wait_for_event("paid", timeout=HOUR)]}


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def approves(state: State) -> State:
    asked = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"}
    decided = interrupt(asked, timeout=HOUR)
    return {"log": [decided and decided["decision"]]}


def calls(state: State, runtime: Runtime[Any]) -> State:
    return {"log": runtime.start_run("child", {})["log"]}


def other(state: State) -> State:
    return {"log": [interrupt("the other question")]}


WAYS: dict[str, tuple[Any, Any, str]] = {
    "signal": (pays, {"amount": 7}, "SIGNAL_RECEIVED"),
    "answer an event": (pays, {"amount": 7}, "SIGNAL_RECEIVED"),
    "answer": (asks, "yes", "SIGNAL_RECEIVED"),
    "decide": (approves, "approved", "SIGNAL_RECEIVED"),
    "time of an event": (pays, None, "TIMER_FIRED"),
    "time of an approval": (approves, None, "TIMER_FIRED"),
    "end of a child": (calls, "yes", "SIGNAL_RECEIVED"),
}
"""How a run is woken: the node that waits, what it gets, and what its log tells of that."""


def graph_of(node: Any) -> StateGraph:
    graph = StateGraph(State, name="g").add_node(first).add_node("one", node).add_node(other)
    return graph.add_edge(START, "first").add_edge("first", "one").add_edge("first", "other")


class Case:
    """A run that waits in two nodes beside each other, in a service whose saver has gates."""

    def __init__(self, place: Places, way: str, edit: str) -> None:
        self.way, self.edit = way, edit
        self.node, self.value, self.told = WAYS[way]
        self.gates, self.clock, catalog = (
            Gates("load", "commit", "save_results", "renew", "lease"),
            FakeClock(),
            Catalog(),
        )
        catalog.serve("g", graph_of(self.node))
        catalog.serve("child", StateGraph(State, name="child").add_node(asks).add_edge(START, "asks"))
        views = place.views()
        self.saver = views["saver"].for_workspace(WS)
        gated: Any = Gated(views["saver"], self.gates)
        options: Any = {"ledger": views["ledger"], "clock": self.clock}
        self.service = Service(catalog, saver=gated, settings=QUICK, **options)
        self.editor = Service(catalog, saver=views["saver"], **options)
        """Another one on the same records, which passes no gates."""

    async def begin(self) -> Run:
        run = await run_to_rest(self.service, "g", {}, thread_id="t")
        assert run.status is RunStatus.WAITING
        self.head = (await self.editor.threads.state(WS, "t"))["checkpointId"]
        self.wait = next(one for one in await self.waits(run) if one.step_name == "one")
        if self.way == "end of a child":
            self.asked = await until(self.of_child)
        return run

    async def of_child(self) -> Wait | None:
        found = [one for one in (await self.service.waits(WS)).items if one.step_name == "asks"]
        return found[0] if found and (await self.service.run(WS, found[0].run_id)).claim is None else None

    async def waits(self, run: Run) -> list[Wait]:
        return list(await aresolve(self.service.context.ledger.find(Wait, where(run_id=run.id))))

    async def wake(self, run: Run) -> None:
        service = self.service
        match self.way:
            case "signal":
                await service.signal(WS, run.id, "paid", self.value)
            case "answer" | "answer an event":
                await service.answer(WS, run.id, {self.wait.id: self.value})
            case "decide":
                await service.decide(WS, self.wait.id, self.value)
            case "end of a child":
                await service.answer(WS, self.asked.run_id, {self.asked.id: self.value})
            case _:
                self.clock.advance(HOUR)
                service.wake_background_tasks()

    def change_thread(self) -> None:
        """Change the thread on a thread of its own, while the caller stands at a gate."""
        errors: list[BaseException] = []

        def act() -> None:
            try:
                self._change_thread()
            except REFUSALS:
                pass
            except BaseException as error:
                errors.append(error)

        doing = threading.Thread(target=act)
        doing.start()
        doing.join(PATIENCE)
        assert not doing.is_alive()
        assert errors == []

    def _change_thread(self) -> None:
        threads = self.editor.threads
        match self.edit:
            case "fork aside":
                asyncio.run(threads.fork(WS, "t", self.head, "side"))
            case "fork":
                asyncio.run(threads.fork(WS, "t", self.head))
            case "update":
                asyncio.run(threads.update(WS, "t", {"log": ["edit"]}, as_node="first"))
            case _:
                app = graph_of(self.node).compile().with_services(checkpointer=self.saver, clock=self.clock)
                named = {"configurable": {"thread_id": "t", "checkpoint_id": self.head}}
                with suppress(*REFUSALS):
                    app.fork(named, branch="side")
                if self.edit == "from elsewhere":
                    app.fork(named)

    async def woken(self, run: Run) -> Any:
        """The run once it waits for the other answer alone, or has ended."""

        async def one() -> Any:
            waits = await self.waits(run)  # first: once one is left, the run is due or claimed until it waits again
            now = await self.service.run(WS, run.id)
            rests = now.status is RunStatus.WAITING and now.claim is None and now.due_at is None
            return now if now.status in ENDED or (rests and len(waits) == 1) else None

        return await until(one)


@pytest.mark.parametrize("edit", ["fork aside", "fork", "update", "aside from elsewhere", "from elsewhere"])
@pytest.mark.parametrize("way", list(WAYS))
async def test_a_thread_that_is_changed_during_a_wake_up(place: Places, way: str, edit: str, tmp_path: Path) -> None:
    at = calls_made = 1
    while at <= calls_made:
        with_file = Places(tmp_path / f"{at}.db" if place.path is not None else None)
        case = Case(with_file, way, edit)
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
            done = await rested(service, run)
            assert (done.status, done.error) == (RunStatus.COMPLETED, None), at
            said = [one for one in done.output["log"] if one != "edit"]
            assert sorted(map(str, said)) == sorted(map(str, ["first", case.value, "the other answer"])), at
            assert await case.waits(run) == []
            ledger = service.context.ledger
            assert await aresolve(ledger.count(Signal, where(run_id=run.id, taken=False))) == 0
            steps = await aresolve(ledger.find(StepRun, where(run_id=run.id)))
            assert {step.status for step in steps} <= {StepStatus.COMPLETED, StepStatus.CANCELLED}
            told = await types_of(service, run)
            assert told.count("WORKFLOW_RESUMED") == 2, (at, told)
            assert told.count("SIGNAL_RECEIVED") + told.count("TIMER_FIRED") == 2, (at, told)
            assert case.told in told
        with_file.close()
        at += 1
    assert calls_made > 2
