"""The checkpointer of a run: checkpoints and records are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statewright import END, START, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import RecordConflict
from statewright.runs import Advance, Condition, Insert, Ledger, Run, RunEvent, RunStatus, StepRun
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.engine.progress import Progress
from statewright.service.engine.recorder import RunRecorder
from statewright.service.following.hub import Hub
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Recorded:
    """A run whose graph saves through a recorder."""

    def __init__(self, storage: tuple[Ledger, Checkpointer], run: Run, *nodes: Any) -> None:
        graph, before = StateGraph(dict, name="g"), START
        for node in nodes:
            graph.add_node(node.__name__, node)
            graph.add_edge(before, node.__name__)
            before = node.__name__
        graph.add_edge(before, END)
        self.ledger, self.saver = storage
        self.run, self.told, self.hub = run, list[RunEvent](), Hub()
        app = graph.compile()
        self.progress = Progress(run, app.graph)
        context = ServiceContext(self.ledger, self.saver, Catalog(), FakeClock(), ServiceSettings(), hub=self.hub)
        recorder = RunRecorder(context, self.progress)
        self.app = recorder.graph(app)

    async def advance(self) -> None:
        await aresolve(self.ledger.write([Insert(self.run)]))
        with self.hub.listening(self.run.id) as listener:
            try:
                await self.app.ainvoke({}, thread_id=self.run.thread_id, run_id=self.run.id)
            finally:
                self.told.extend(self.hub.take_events(listener))

    async def found(self) -> Any:
        return await aresolve(self.ledger.get(Run, self.run.id))


def one(state: Any) -> dict[str, int]:
    return {"one": 1}


def asks(state: Any) -> dict[str, Any]:
    return {"said": interrupt("go on?")}


def breaks(state: Any) -> None:
    raise ValueError("no luck")


async def test_checkpoints_and_records_are_written_together(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    recorded = Recorded(storage, new_run(claim="c"), one)
    await recorded.advance()
    run = await recorded.found()
    assert (run.status, run.output, run.claim) == (RunStatus.COMPLETED, {"one": 1}, None)
    log = await aresolve(recorded.ledger.events(run.id))
    assert [event.type for event in log] == [
        "WORKFLOW_STARTED", "STEP_STARTED", "STEP_COMPLETED", "WORKFLOW_COMPLETED",
    ]  # fmt: skip
    assert recorded.told == list(log)
    assert recorded.progress.has_settled


async def test_a_worker_without_its_claim_saves_nothing(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    run = new_run(claim="c")
    ledger = storage[0]

    async def loses(state: Any) -> dict[str, int]:
        clock = FakeClock()
        await aresolve(
            ledger.write([Advance(run.id, clock.now(), {"claim": "other"}, (), [Condition("claim", "=", "c")])])
        )
        return {"late": 1}

    recorded = Recorded(storage, run, one, loses)
    with pytest.raises(RecordConflict):
        await recorded.advance()
    result = await recorded.found()
    assert (result.claim, result.status, result.output) == ("other", RunStatus.RUNNING, None)
    saved = await aresolve(recorded.saver.load(run.thread_id))
    assert saved is not None
    assert "late" not in str(saved.checkpoint.values)
    assert [event.type for event in await aresolve(ledger.events(run.id))][-1] == "STEP_STARTED"


async def test_a_run_with_a_question_waits(storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]) -> None:
    recorded = Recorded(storage, new_run(claim="c"), asks)
    await recorded.advance()
    run = await recorded.found()
    assert (run.status, run.claim, recorded.progress.has_settled) == (RunStatus.WAITING, None, True)
    assert recorded.told[-1].type == "WORKFLOW_PAUSED"


async def test_the_error_itself_is_recorded_and_not_only_its_text(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    recorded = Recorded(storage, new_run(claim="c"), breaks)
    with pytest.raises(ValueError, match="no luck"):
        await recorded.advance()
    run = await recorded.found()
    assert run.error == {"message": "ValueError: no luck", "code": "ValueError", "step": "breaks"}
    [step] = await aresolve(recorded.ledger.find(StepRun))
    assert step.error == {"message": "ValueError: no luck", "code": "ValueError"}


async def test_other_methods_are_those_of_the_saver(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    recorded = Recorded(storage, new_run(claim="c"), one)
    await recorded.advance()
    saver = recorded.app.checkpointer
    assert isinstance(saver, RunRecorder)
    assert await aresolve(saver.load(recorded.run.thread_id)) is not None


async def test_changes_that_were_not_saved_are_not_published(tmp_path: Path, new_run: Callable[..., Run]) -> None:
    def doubles(state: Any) -> dict[str, int]:
        recorded.progress.steps.queue([], [Insert(recorded.run)])
        return {"two": 2}

    with SqliteDatabase(tmp_path / "runs.db") as database:
        recorded = Recorded((SqliteLedger(database), SqliteSaver(database)), new_run(claim="c"), one, doubles)
        with pytest.raises(RecordConflict):
            await recorded.advance()
        log = await aresolve(recorded.ledger.events(recorded.run.id))
        assert [event.type for event in log][-1] == "STEP_STARTED"
        assert recorded.told == list(log)
        assert (recorded.progress.was_refused, recorded.progress.has_written) == (True, True)
