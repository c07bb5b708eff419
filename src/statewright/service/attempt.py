"""One worker's attempt to advance one run to rest."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, LeaseRequest, WorkspaceCheckpointer, run_of
from statewright.clock import Clock
from statewright.errors import (
    CheckpointConflict,
    DuplicateRecord,
    Fenced,
    NotFound,
    RecordConflict,
    SpendingLimitReached,
    StatewrightError,
    StorageUnavailable,
    ThreadBusy,
    WorkflowError,
)
from statewright.graph import Command, RunStarter
from statewright.runs import (
    Advance,
    Condition,
    DailySpending,
    Ledger,
    Order,
    Run,
    RunStatus,
    Signal,
    Spend,
    StepRun,
    StepStatus,
    Update,
    Wait,
    where,
)
from statewright.runtime import CompiledGraph, RunControl
from statewright.runtime.concurrency.worker_threads import call_in_thread
from statewright.service.hub import Hub
from statewright.service.meter import Meter
from statewright.service.progress import NO_GRAPH, OnEnd, Progress, Stopping
from statewright.service.questions import (
    Arrived,
    arrived,
    due_again,
    ignored_events,
    next_due,
    taken_changes,
    unfit,
)
from statewright.service.recorder import Publish, RunRecorder
from statewright.service.records import guard_claim
from statewright.service.spending import Spending
from statewright.service.spending_limits import SpendingLimits
from statewright.service.step_records import LogSource
from statewright.service.thread_edits import EditRecorder, find_edited_run

logger = logging.getLogger("statewright.service")
_OPEN: Final = (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING)
_LATER: Final = timedelta(seconds=0.5)
"""After how long a run is tried again that could not be begun with."""
_MISSING: Final = timedelta(seconds=10)
"""After how long a run is looked at again whose graph is not served."""
_LASTING: Final[Mapping[str, int]] = {"release": 0, "limit": 1, "pause": 2}
"""The reasons to stop before the next superstep, the most lasting last."""
AppOf = Callable[[Run], Awaitable[CompiledGraph]]


class Surroundings:
    """What the attempts of a worker have in common."""

    def __init__(
        self,
        *,
        saver: WorkspaceCheckpointer,
        ledger: Ledger,
        clock: Clock,
        app_of: AppOf,
        hub: Hub,
        published: Publish,
        durability: str,
        max_steps: int,
        max_output: int,
        parts: Mapping[str, Any] | None = None,
        starter_of: Callable[[Run, Progress], RunStarter] | None = None,
        on_end: OnEnd | None = None,
        logs: LogSource | None = None,
        redact: Callable[[Any], Any] | None = None,
        meter: Meter | None = None,
        spending: Spending | None = None,
    ) -> None:
        self.saver = saver
        self.ledger = ledger
        self.clock = clock
        self.app_of = app_of
        self.hub = hub
        self.published = published
        """Told of changes that are saved."""
        self.durability = durability
        self.max_steps = max_steps
        self.max_output = max_output
        self.parts = parts or {}
        self.starter_of = starter_of
        self.on_end = on_end
        self.logs = logs
        self.redact = redact
        self.meter = meter
        self.spending = spending or Spending(ledger, clock)

    def prepare(self, progress: Progress) -> None:
        """Give what tells of a run its limits, and what else happens at its end."""
        progress.on_end, progress.max_output, progress.redact = self.on_end, self.max_output, self.redact


class RunAttempt:
    """Advances a run that was claimed."""

    def __init__(self, run: Run, around: Surroundings) -> None:
        self.run_id = run.id
        self.claim = run.claim
        self._run = run
        self._around = around
        self._saver = around.saver.for_workspace(run.workspace_id)
        self._control = RunControl()
        self._progress: Progress | None = None
        self._stopping: Stopping | None = None
        self._is_cancelled = False
        self._limits: SpendingLimits | None = None
        self._today: DailySpending | None = None
        """What its workspace had spent today before the attempt."""
        self._limit: SpendingLimitReached | None = None
        """The limit of its workspace that was found to be used up."""
        if run.settings.get("pause"):  # somebody asked for it before the run came here
            self.pause()

    # -- being stopped; from any thread

    def pause(self) -> None:
        """Stop before the next superstep; the run is paused then."""
        self._drain("pause")

    def release(self) -> None:
        """Stop before the next superstep; the run is for another worker then. One that only backs off stops at once."""
        self._drain("release")
        if self._progress is not None and self._progress.steps.is_backing_off(self._around.clock.now()):
            self.abandon()

    def abandon(self) -> None:
        """Stop at once; the run is for another worker then."""
        self._cancel("release", "the service stops")

    def cancel(self) -> None:
        """Stop at once: the run is not this worker's any more."""
        self._control.request_cancel("the run was cancelled")

    def _drain(self, why: Stopping) -> None:
        """Stop before the next superstep, for the most lasting of the reasons: a run that is to be paused is, though
        its worker stops as well."""
        if self._stopping is None or (_LASTING.get(self._stopping, 9) < _LASTING[why] and not self._is_cancelled):
            self._stopping = why
        self._share_stopping()
        self._control.request_drain(why)

    def _cancel(self, why: Stopping, reason: str) -> None:
        """Stop at once, for this reason rather than a former one; but a run whose time is over has failed."""
        if self._stopping != "timeout":
            self._stopping = why
        self._is_cancelled = True
        self._share_stopping()
        self._control.request_cancel(reason)

    def _share_stopping(self) -> None:
        """Let what the run saves from now on mean what the reason says. Called from any thread, after each change."""
        if self._progress is not None:
            self._progress.limit = self._limit  # first: it is the reason if "limit" is why the run stops
            self._progress.stopping, self._progress.is_cancelled = self._stopping, self._is_cancelled

    def _spent(self, change: Spend) -> None:
        """Stop before the next superstep if the workspace has used up its day. Called on any thread."""
        if self._limits is None or change.after is None:
            return
        self._around.spending.warn_if_unpriced(self._limits, change.spent)
        if self._progress is not None:
            self._progress.spent = change.after
        limit = self._limits.reached(change.after, self._around.clock.now())
        if limit is not None:
            self._limit = limit
            self._drain("limit")

    def compare(self, found: Run | None) -> None:
        """See what others have made of the run."""
        if found is None or found.claim != self._run.claim:
            self.cancel()
        elif found.settings.get("pause"):
            self.pause()

    # -- advancing

    async def advance(self) -> None:
        """Advance the run until it rests; what came of it is in the ledger."""
        try:
            await self._advance()
        except (RecordConflict, Fenced) as error:
            await self._lost(error)
        except (ThreadBusy, CheckpointConflict):  # perhaps an earlier attempt at this run whose end could not be saved
            await self._free_thread()
            await self._put_off(self._around.clock.now() + _LATER)
        except StorageUnavailable:
            logger.exception("Run %s cannot be saved now. It will be tried again.", self.run_id)
            await self._put_off(self._around.clock.now() + _LATER)

    async def _lost(self, error: RecordConflict | Fenced) -> None:
        """A write was refused: somebody cancelled the run, took it over, or told it something meanwhile."""
        mine = await self._still_mine()
        if mine is None:
            logger.info("Run %s was taken over or cancelled.", self.run_id)
        elif isinstance(error, DuplicateRecord) or (self._progress is not None and self._progress.has_written):
            logger.error("Run %s could not be saved.", self.run_id, exc_info=error)
            await self._fail(Progress(mine, NO_GRAPH), error)
        else:
            await self._put_off(self._around.clock.now())

    async def _still_mine(self) -> Run | None:
        """The run as it is, if its claim is still this one."""
        found = await aresolve(self._around.ledger.get(Run, self.run_id))
        return found if found is not None and found.claim == self._run.claim else None

    async def _put_off(self, until: Any) -> None:
        progress = Progress(replace(self._run, status=RunStatus.PENDING), NO_GRAPH)
        changes = progress.put_off(until, self._around.clock.now())
        try:
            await aresolve(self._around.ledger.write(changes))
            self._around.published(changes)
        except RecordConflict:
            logger.info("Run %s was taken over or cancelled.", self.run_id)
        except StatewrightError:
            logger.exception("Run %s could not be put off. Its worker looks after it with its next beat.", self.run_id)

    async def _put_off_to_next_day(self, limit: SpendingLimitReached) -> None:
        """Let the run rest, because its workspace has used up its day. What has come for it stays."""
        progress = Progress(replace(self._run, status=RunStatus.PENDING), NO_GRAPH)
        pauses = self._run.status is RunStatus.RUNNING
        changes = progress.put_off_to_next_day(limit, self._around.clock.now(), pauses=pauses)
        await aresolve(self._around.ledger.write(changes))
        self._around.published(changes)

    async def _advance(self) -> None:
        around, run = self._around, self._run
        self._limits = await around.spending.limits_of(run.workspace_id)
        if self._limits is not None:
            self._today = await around.spending.of_today(run.workspace_id)
            limit = self._limits.reached(self._today, around.clock.now())
            if limit is not None and not self._is_late:
                await self._put_off_to_next_day(limit)
                return
        try:
            app = await around.app_of(run)
        except (NotFound, WorkflowError) as error:
            await self._missing(error)
            return
        except Exception as error:
            await self._fail(Progress(run, NO_GRAPH), error)
            return
        if around.meter is not None:
            around.meter.begins_run(run.id, run.workspace_id)
        given, progress = await self._begun(app)
        if progress is None:
            return
        around.prepare(progress)
        progress.limits, progress.spent = self._limits, self._today
        self._progress = progress  # before sharing: a stop requested on another thread from here on updates it too
        self._share_stopping()
        if self._is_late:
            await self._time_out(progress)
            return
        recorder = RunRecorder(
            self._saver,
            around.ledger,
            progress,
            around.clock,
            around.hub,
            around.published,
            around.logs,
            on_lost=self.cancel,
            on_spent=self._spent,
        )
        starter = around.starter_of(run, progress) if around.starter_of is not None else None
        await self._drive(recorder.graph(app, starter=starter, **around.parts), given, progress)

    async def _begun(self, app: CompiledGraph) -> tuple[Any, Progress | None]:
        """What the graph is given, and where the run stands; no progress if there is nothing to do now."""
        run = self._run
        if not run.begun:
            self._tell_wait()
            await self._take_thread(app)
            return run.input if run.input is not None else {}, Progress(run, app.graph)
        steps = await aresolve(
            self._around.ledger.find(StepRun, [*where(run_id=run.id), Condition("status", "in", _OPEN)])
        )
        waits = await aresolve(self._around.ledger.find(Wait, where(run_id=run.id)))
        if run.status is RunStatus.WAITING:
            return await self._answered(app, steps, waits)
        await self._free_thread()
        progress = Progress(run, app.graph, steps=steps, waits=waits)
        inbox = await self._inbox()
        progress.steps.answered = {signal.interrupt_id for signal in inbox if signal.interrupt_id is not None}
        saved = await aresolve(self._saver.load(run.thread_id))
        if saved is not None and saved.checkpoint.at_rest:  # it was ended from outside
            progress.values = saved.checkpoint.values
        return None, progress

    def _tell_wait(self) -> None:
        """Tell whoever measures how long the run has waited for its turn."""
        if self._around.meter is not None:
            not_before = self._run.settings.get("notBefore")
            since = datetime.fromisoformat(not_before) if not_before is not None else self._run.created_at
            self._around.meter.waited_in_queue((self._around.clock.now() - since).total_seconds())

    async def _answered(
        self, app: CompiledGraph, steps: Sequence[StepRun], waits: Sequence[Wait]
    ) -> tuple[Any, Progress | None]:
        """What has come for a waiting run. If that is nothing yet, it goes on waiting."""
        run, now = self._run, self._around.clock.now()
        come = arrived(waits, await self._inbox(), now)
        await self._refuse_unfit(come)
        out_of_time = run.deadline_at is not None and run.deadline_at <= now
        if not come.ended and come.refused:
            await self._ignore(come, next_due(waits, run.deadline_at))
            return None, None
        if not come.ended and not out_of_time:
            values = {"claim": None, "worker_id": None, "due_at": next_due(waits, run.deadline_at), "error": None}
            await self._still_waiting(values)
            return None, None
        answers = cast("Any", Command)(resume=come.answers)
        return answers, Progress(run, app.graph, steps=steps, waits=waits, arrived=None if out_of_time else come)

    async def _inbox(self) -> Sequence[Signal]:
        """What has come for the run and was not taken yet, the oldest first."""
        untaken = where(run_id=self.run_id, taken=False)
        return await aresolve(self._around.ledger.find(Signal, untaken, order=Order("created_at")))

    async def _refuse_unfit(self, come: Arrived) -> None:
        """Let the waits go on whose answers do not have the type that was asked for."""
        typed = [wait for wait in come.ended if wait.schema is not None and wait.id in come.signals]
        if not typed:
            return
        saved = await aresolve(self._saver.load(self._run.thread_id))
        refused = unfit(saved, {wait.interrupt_id: come.answers[wait.interrupt_id] for wait in typed})
        for wait in typed:
            if wait.interrupt_id in refused:
                come.refuse(wait, refused[wait.interrupt_id])

    async def _ignore(self, come: Arrived, due: datetime | None) -> None:
        """Note that nothing came that fits; the run goes on waiting."""
        around, run, now = self._around, self._run, self._around.clock.now()
        values = {"claim": None, "worker_id": None, "due_at": due, "error": None}
        guard = [Condition("claim", "=", run.claim)]
        advance = Advance(run.id, now, values, ignored_events(come), guard)
        changes = [advance, *taken_changes(come), *due_again(run.id, now)]
        await aresolve(around.ledger.write(changes))
        around.published(changes)

    async def _still_waiting(self, values: Mapping[str, Any]) -> None:
        guard = [Condition("claim", "=", self._run.claim), Condition("version", "=", self._run.version)]
        try:
            await aresolve(self._around.ledger.write([Update(Run, self.run_id, values, guard)]))
        except RecordConflict:  # something came while this was decided: it is looked at again
            values = {**values, "due_at": self._around.clock.now()}
            await aresolve(self._around.ledger.write([Update(Run, self.run_id, values, guard[:1])]))

    async def _take_thread(self, app: CompiledGraph) -> None:
        """Take the thread over from runs that were cancelled for this one, as if they had not been if it says so."""
        before: Sequence[str] = self._run.settings.get("takesOver", ())
        if not before:
            return
        await self._free_thread()
        saved = await aresolve(self._saver.load(self._run.thread_id))
        if not self._run.settings.get("rollsBack") or saved is None:
            return
        if await find_edited_run(self._saver, saved) in before:
            around = self._around
            # In one transaction with the rollback: the run may be cancelled or taken over at any moment.
            recorder = EditRecorder(self._saver, around.ledger, lambda commit, now: [guard_claim(self._run)])
            mine = app.with_services(checkpointer=cast("Checkpointer", recorder), clock=around.clock)
            # From this head only: if it has moved, a later attempt at this run may have rolled back already.
            head = {"thread_id": self._run.thread_id, "checkpoint_id": saved.id}
            await call_in_thread(mine.roll_back, {"configurable": head})

    async def _free_thread(self) -> None:
        """Release the thread if the attempt that holds it has lost its claim, at this run or at another one.

        The lease is read before the claims. While this attempt has its claim, no later attempt at the run has started,
        so the holder is an earlier one. An attempt that has lost its own claim (for example, because its process was
        suspended for longer than its lease) must not release the thread of its successor.
        """
        saver, thread = self._saver, self._run.thread_id
        lease = await aresolve(saver.lease(thread))
        if lease is None or not await self._has_lost_claim(run_of(lease.owner)):
            return
        with suppress(Fenced):  # the holder has released the thread itself meanwhile
            await aresolve(saver.renew(thread, LeaseRequest(lease.owner, self._around.clock.now(), None)))

    async def _has_lost_claim(self, holder: str) -> bool:
        """Return whether the run that holds the thread does so through an attempt other than its present one."""
        if holder == self.run_id:
            return await self._still_mine() is not None
        run = await aresolve(self._around.ledger.get(Run, holder))
        return run is not None and run.claim is None

    async def _drive(self, app: CompiledGraph, given: Any, progress: Progress) -> None:
        timer = self._deadline()
        try:
            await app.ainvoke(given, self._config(), **self._options())
        except (RecordConflict, Fenced, ThreadBusy, StorageUnavailable):
            raise
        except Exception as error:
            await self._fail_if_unsaved(progress, error)
        else:
            said_nothing = "The graph came to rest without a word. Please report this."
            await self._fail_if_unsaved(progress, StatewrightError(said_nothing))
        finally:
            if timer is not None:
                timer.cancel()

    async def _missing(self, error: StatewrightError) -> None:
        """Put off a run whose code is not here, or not all that its definition names.

        It was there when the run began. Whoever mends that does not want the run to have failed meanwhile.
        """
        if self._is_late:
            await self._time_out(Progress(self._run, NO_GRAPH))
            return
        logger.warning("Run %s is put off: %s", self.run_id, error)
        await self._put_off(self._around.clock.now() + _MISSING)

    @property
    def _is_late(self) -> bool:
        return self._run.deadline_at is not None and self._run.deadline_at <= self._around.clock.now()

    async def _time_out(self, progress: Progress) -> None:
        self._stopping = progress.stopping = "timeout"
        await self._fail(progress, TimeoutError())

    async def _fail_if_unsaved(self, progress: Progress, error: BaseException) -> None:
        """Fail a run that has ended and could not save how."""
        if progress.rests and not progress.was_refused:
            return
        mine = await self._still_mine()
        if mine is not None:
            left = Progress(replace(mine, status=RunStatus.RUNNING), NO_GRAPH)
            left.stopping = progress.stopping
            await self._fail(left, error)

    def _deadline(self) -> Any:
        until = self._run.deadline_at
        if until is None:
            return None

        def over() -> None:
            self._cancel("timeout", "its time is over")

        return self._around.clock.call_later((until - self._around.clock.now()).total_seconds(), over)

    def _config(self) -> dict[str, Any]:
        """What nodes find in their config: whose run it is, and how often somebody has told it to try again."""
        retries = self._run.settings.get("retries", 0)
        configurable = {"workspace_id": self._run.workspace_id, "retry": retries}
        return {"configurable": configurable, "metadata": dict(self._run.metadata), "tags": list(self._run.tags)}

    def _options(self) -> dict[str, Any]:
        settings: Mapping[str, Any] = self._run.settings or {}
        options = {
            "thread_id": self._run.thread_id,
            "run_id": self.run_id,
            "control": self._control,
            # What is open on the thread was asked by runs that have ended.
            "on_unfinished": "discard",
            "durability": settings.get("durability") or self._around.durability,
            "recursion_limit": settings.get("recursionLimit") or self._around.max_steps,
            "max_concurrency": settings.get("maxConcurrency"),
            "context": settings.get("context"),
            "interrupt_before": settings.get("interruptBefore"),
            "interrupt_after": settings.get("interruptAfter"),
        }
        return {name: value for name, value in options.items() if value is not None}

    async def _fail(self, progress: Progress, error: BaseException) -> None:
        """Write how a run ended that could not save it itself."""
        self._around.prepare(progress)
        changes = progress.failed(error, self._around.clock.now())
        await aresolve(self._around.ledger.write(changes))
        self._around.published(changes)
