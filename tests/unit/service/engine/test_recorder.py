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


class RecorderBench:
    """A run whose graph saves through a recorder."""

    def __init__(self, storage: tuple[Ledger, Checkpointer], run: Run, *nodes: Any, **options: Any) -> None:
        graph, before = StateGraph(dict, name="g"), START
        for node in nodes:
            graph.add_node(node.__name__, node)
            graph.add_edge(before, node.__name__)
            before = node.__name__
        graph.add_edge(before, END)
        self.ledger, self.saver = storage
        self.run, self.published, self.hub = run, list[RunEvent](), Hub()
        app = graph.compile()
        self.progress = Progress(run, app.graph)
        context = ServiceContext(self.ledger, self.saver, Catalog(), FakeClock(), ServiceSettings(), hub=self.hub)
        recorder = RunRecorder(context, self.progress, **options)
        self.app = recorder.graph(app)

    async def advance(self) -> None:
        await aresolve(self.ledger.write([Insert(self.run)]))
        with self.hub.listening(self.run.id) as listener:
            try:
                await self.app.ainvoke({}, thread_id=self.run.thread_id, run_id=self.run.id)
            finally:
                self.published.extend(self.hub.take_events(listener))

    async def find_run(self) -> Any:
        return await aresolve(self.ledger.get(Run, self.run.id))


def set_one(state: Any) -> dict[str, int]:
    return {"one": 1}


def ask_question(state: Any) -> dict[str, Any]:
    return {"answer": interrupt("go on?")}


def fail(state: Any) -> None:
    raise ValueError("no luck")


async def test_checkpoints_and_records_are_written_together(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    bench = RecorderBench(storage, new_run(claim="c"), set_one)
    await bench.advance()
    run = await bench.find_run()
    assert (run.status, run.output, run.claim) == (RunStatus.COMPLETED, {"one": 1}, None)
    log = await aresolve(bench.ledger.events(run.id))
    assert [event.type for event in log] == [
        "WORKFLOW_STARTED", "STEP_STARTED", "STEP_COMPLETED", "WORKFLOW_COMPLETED",
    ]  # fmt: skip
    assert bench.published == list(log)
    assert bench.progress.has_settled


async def test_a_worker_without_its_claim_saves_nothing(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    run = new_run(claim="c")
    ledger = storage[0]

    async def lose_claim(state: Any) -> dict[str, int]:
        clock = FakeClock()
        await aresolve(
            ledger.write([Advance(run.id, clock.now(), {"claim": "other"}, (), [Condition("claim", "=", "c")])])
        )
        return {"late": 1}

    bench = RecorderBench(storage, run, set_one, lose_claim)
    with pytest.raises(RecordConflict):
        await bench.advance()
    result = await bench.find_run()
    assert (result.claim, result.status, result.output) == ("other", RunStatus.RUNNING, None)
    saved = await aresolve(bench.saver.load(run.thread_id))
    assert saved is not None
    assert "late" not in str(saved.checkpoint.values)
    assert [event.type for event in await aresolve(ledger.events(run.id))][-1] == "STEP_STARTED"


async def test_a_new_thread_is_not_loaded(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, saver = storage
    loads: list[str] = []
    load = type(saver).load

    def counted(self: Any, thread_id: str, **options: Any) -> Any:
        loads.append(thread_id)
        return load(self, thread_id, **options)

    monkeypatch.setattr(type(saver), "load", counted)
    for is_new, expected in ((True, []), (False, ["t2"])):
        run = new_run(id=f"r{is_new}", thread_id=f"t{2 - is_new}", claim="c")
        bench = RecorderBench((ledger, saver), run, set_one, expects_new_thread=is_new)
        await bench.advance()
        assert ((await bench.find_run()).output, loads) == ({"one": 1}, expected)


async def test_a_thread_that_exists_although_it_was_expected_to_be_new_is_continued(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    calls: list[Any] = []

    def note(state: Any) -> dict[str, int]:
        calls.append(dict(state))
        return {"two": 2}

    run = new_run(claim="c")
    saver: Any = storage[1]
    app = StateGraph(dict).add_node("set_one", set_one).add_edge(START, "set_one")
    earlier = app.compile(saver.for_workspace(run.workspace_id))
    await earlier.ainvoke({}, thread_id=run.thread_id)
    bench = RecorderBench(storage, run, note, expects_new_thread=True)
    await bench.advance()
    assert ((await bench.find_run()).output, len(calls)) == ({"two": 2}, 1)
    steps = [snapshot.values async for snapshot in earlier.aget_state_history(thread_id=run.thread_id)]
    assert steps == [{"two": 2}, {}, {"one": 1}, {}]


async def test_a_run_with_a_question_waits(storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]) -> None:
    bench = RecorderBench(storage, new_run(claim="c"), ask_question)
    await bench.advance()
    run = await bench.find_run()
    assert (run.status, run.claim, bench.progress.has_settled) == (RunStatus.WAITING, None, True)
    assert bench.published[-1].type == "WORKFLOW_PAUSED"


async def test_an_error_is_recorded_with_its_code_and_step(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    bench = RecorderBench(storage, new_run(claim="c"), fail)
    with pytest.raises(ValueError, match="no luck"):
        await bench.advance()
    run = await bench.find_run()
    assert run.error == {"message": "ValueError: no luck", "code": "ValueError", "step": "fail"}
    [step] = await aresolve(bench.ledger.find(StepRun))
    assert step.error == {"message": "ValueError: no luck", "code": "ValueError"}


async def test_other_methods_are_delegated_to_the_saver(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    bench = RecorderBench(storage, new_run(claim="c"), set_one)
    await bench.advance()
    saver = bench.app.checkpointer
    assert isinstance(saver, RunRecorder)
    assert await aresolve(saver.load(bench.run.thread_id)) is not None


async def test_changes_that_were_not_saved_are_not_published(tmp_path: Path, new_run: Callable[..., Run]) -> None:
    def queue_conflict(state: Any) -> dict[str, int]:
        bench.progress.steps.queue([], [Insert(bench.run)])
        return {"two": 2}

    with SqliteDatabase(tmp_path / "runs.db") as database:
        bench = RecorderBench(
            (SqliteLedger(database), SqliteSaver(database)), new_run(claim="c"), set_one, queue_conflict
        )
        with pytest.raises(RecordConflict):
            await bench.advance()
        log = await aresolve(bench.ledger.events(bench.run.id))
        assert [event.type for event in log][-1] == "STEP_STARTED"
        assert bench.published == list(log)
        assert (bench.progress.was_refused, bench.progress.has_written) == (True, True)
