"""A worker's attempt to advance a run until the run completes, waits, or is stopped.

The graph runs on the event loop of the worker, with a checkpointer (`RunRecorder`) that writes the records of the run
in the same transaction as each checkpoint. So the attempt itself writes only what the graph cannot: that the run could
not be started, that a write was refused, or that the run has ended without saving its outcome.

Every write is guarded by the claim of the attempt. A refused write means that the run was cancelled or now belongs to
another worker: the attempt ends, and writes nothing more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.data.mappings import without_none
from statewright.errors import (
    CheckpointConflict,
    DuplicateRecord,
    LeaseLost,
    NotFound,
    RecordConflict,
    SpendingLimitReached,
    StatewrightError,
    StorageUnavailable,
    ThreadBusy,
    WorkflowError,
)
from statewright.runs import DailySpending, Run, RunStatus, Spend, StepRun
from statewright.runtime import CompiledGraph, RunControl
from statewright.service.access.spending import SpendingLimits
from statewright.service.context.records import load_if_claimed
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.attempt_start import AttemptPreparation
from statewright.service.engine.children import ChildStarter
from statewright.service.engine.progress import NO_GRAPH, Progress, Stopping
from statewright.service.engine.recorder import RunRecorder
from statewright.service.operations.input_check import check_begin
from statewright.service.operations.starting import Starter

logger = logging.getLogger("statewright.service")
_RETRY_AFTER: Final = timedelta(seconds=0.5)
"""Delay before the next attempt at a run whose thread is busy, or whose storage is unavailable."""
_MISSING_CODE_RETRY_AFTER: Final = timedelta(seconds=10)
"""Delay before the next attempt at a run whose graph is not served."""
_PRECEDENCE: Final[Mapping[str, int]] = {"release": 0, "limit": 1, "pause": 2}
"""The precedence of the reasons to stop before the next superstep. A reason that stops a run for longer replaces one
that stops it for less time."""


class RunAttempt:
    """Advances a claimed run."""

    def __init__(self, run: Run, context: ServiceContext, starter: Starter) -> None:
        """Create an attempt. `starter` creates the child runs of nodes, and the run of a failure handler."""
        self.run_id = run.id
        self.claim = run.claim
        self._run = run
        self._context = context
        self._starter = starter
        self._preparation = AttemptPreparation(context, run)
        self._control = RunControl()
        self._progress: Progress | None = None
        self._stopping: Stopping | None = None
        """The reason for which the attempt is being stopped."""
        self._is_cancelled = False
        """True if the running superstep was cancelled rather than allowed to finish."""
        self._spending_limits: SpendingLimits | None = None
        self._spent_before: DailySpending | None = None
        """The spending of the workspace on this day before the attempt."""
        self._reached_limit: SpendingLimitReached | None = None
        """The error for the spending limit that was reached."""
        if run.settings.get("pause"):  # requested before the run was claimed
            self.pause()

    # -- stopping, from any thread

    def pause(self) -> None:
        """Stop before the next superstep, and pause the run."""
        self._drain("pause")

    def release(self) -> None:
        """Stop before the next superstep, or at once if all steps wait for a retry. Another worker will continue."""
        self._drain("release")
        if self._progress is not None and self._progress.steps.is_backing_off(self._context.now()):
            self.abandon()

    def abandon(self) -> None:
        """Stop at once. Another worker will continue."""
        self._cancel("release", "the service is stopping")

    def cancel(self) -> None:
        """Stop at once, because the run was cancelled or now belongs to another worker."""
        self._control.request_cancel("the run was cancelled")

    def check_record(self, record: Run | None) -> None:
        """Stop if the run was deleted or has another claim; pause it if its current record requests that."""
        if record is None or record.claim != self._run.claim:
            self.cancel()
        elif record.settings.get("pause"):
            self.pause()

    def show_running(self, steps: Sequence[StepRun]) -> list[StepRun]:
        """Return steps of the run as they are now: those that wait for their turn are pending."""
        return list(map(self._progress.steps.starts.show, steps)) if self._progress is not None else list(steps)

    def _drain(self, reason: Stopping) -> None:
        """Stop before the next superstep. The reason of the highest precedence wins.

        For example, a run that was asked to pause is paused even if its worker stops too.
        """
        is_replaceable = self._stopping in _PRECEDENCE and not self._is_cancelled
        if self._stopping is None or (is_replaceable and _PRECEDENCE[self._stopping] < _PRECEDENCE[reason]):
            self._stopping = reason
        self._share_stopping()
        self._control.request_drain(reason)

    def _cancel(self, reason: Stopping, message: str) -> None:
        """Stop at once. The reason replaces earlier ones, except a timeout: a run that exceeds its deadline fails."""
        if self._stopping != "timeout":
            self._stopping = reason
        self._is_cancelled = True
        self._share_stopping()
        self._control.request_cancel(message)

    def _share_stopping(self) -> None:
        """Copy the reason to the progress, which uses it to interpret later writes. Called whenever it changes."""
        if self._progress is not None:
            self._progress.reached_limit = self._reached_limit  # first, because the reason "limit" refers to it
            self._progress.stopping, self._progress.is_cancelled = self._stopping, self._is_cancelled

    def _count_spending(self, change: Spend) -> None:
        """Stop before the next superstep if the workspace has reached its daily limit. Called on any thread."""
        if self._spending_limits is None or change.after is None:
            return
        self._context.spending.warn_if_unpriced(self._spending_limits, change.spent)
        if self._progress is not None:
            self._progress.spent = change.after
        limit = self._spending_limits.find_reached(change.after, self._context.now())
        if limit is not None:
            self._reached_limit = limit
            self._drain("limit")

    # -- advancing

    async def advance(self) -> None:
        """Advance the run as far as possible. The outcome is in the ledger."""
        try:
            await self._advance()
        except (RecordConflict, LeaseLost) as error:
            await self._handle_refused_write(error)
        except (ThreadBusy, CheckpointConflict):
            # The thread may still be held by an earlier attempt at this run, which could not release it.
            await self._preparation.release_stale_lease()
            await self._postpone(self._context.now() + _RETRY_AFTER)
        except StorageUnavailable:
            logger.exception("Run %s could not be saved, because the storage is unavailable. Retrying.", self.run_id)
            await self._postpone(self._context.now() + _RETRY_AFTER)
        except Exception as error:
            # It would fail again with each attempt: for example, a checkpoint with a class that no longer exists.
            current = await load_if_claimed(self._context.ledger, self._run)
            if current is not None:
                await self._fail(Progress(current, NO_GRAPH), error)

    async def _advance(self) -> None:
        context, run = self._context, self._run
        if await self._postpone_if_over_limit():
            return
        try:
            graph = await context.versions.load_graph(run)
        except (NotFound, WorkflowError) as error:
            await self._postpone_missing_code(error)
            return
        except Exception as error:
            await self._fail(Progress(run, NO_GRAPH), error)
            return
        if not run.begun:
            check_begin(run, graph)
        if context.meter is not None:
            context.meter.record_run_start(run.id, run.workspace_id)
        start = await self._preparation.prepare(graph)
        if start is None:
            return
        progress = start.progress
        self._configure(progress)
        progress.spending_limits, progress.spent = self._spending_limits, self._spent_before
        # Set before the reason is copied, so that a stop requested by another thread in between is copied too.
        self._progress = progress
        self._share_stopping()
        if self._is_past_deadline:
            await self._time_out(progress)
            return
        recorder = RunRecorder(
            context,
            progress,
            on_lost=self.cancel,
            on_spent=self._count_spending,
            expects_new_thread=self._expects_new_thread,
        )
        children = ChildStarter(run, progress, context, self._starter)
        await self._call_graph(recorder.graph(graph, starter=children, **context.services), start.input, progress)

    async def _call_graph(self, graph: CompiledGraph, graph_input: Any, progress: Progress) -> None:
        deadline_timer = self._start_deadline_timer()
        try:
            await graph.ainvoke(graph_input, self._config(), **self._options())
        except (RecordConflict, LeaseLost, ThreadBusy, StorageUnavailable):
            raise
        except Exception as error:
            await self._fail_if_unsaved(progress, error)
        else:
            message = "The graph ended without saving its outcome. This is a bug in Statewright. Please report it."
            await self._fail_if_unsaved(progress, StatewrightError(message))
        finally:
            if deadline_timer is not None:
                deadline_timer.cancel()

    def _config(self) -> dict[str, Any]:
        """Return the config for nodes: the workspace, how often the run was retried on request, tags and metadata."""
        retries = self._run.settings.get("retries", 0)
        configurable = {"workspace_id": self._run.workspace_id, "retry": retries}
        return {"configurable": configurable, "metadata": dict(self._run.metadata), "tags": list(self._run.tags)}

    @property
    def _expects_new_thread(self) -> bool:
        """True if the run creates its thread, which has the id of the run unless the request names a thread.

        Only if each commit is awaited: otherwise nodes would have run when it turns out that the thread exists.
        """
        return not self._run.begun and self._run.thread_id == self.run_id and self._durability == "sync"

    @property
    def _durability(self) -> str:
        return self._run.settings.get("durability") or self._context.settings.durability

    def _options(self) -> dict[str, Any]:
        """Return the options of `ainvoke`."""
        settings: Mapping[str, Any] = self._run.settings or {}
        defaults = self._context.settings
        options = {
            "thread_id": self._run.thread_id,
            "run_id": self.run_id,
            "control": self._control,
            # Open interrupts on the thread belong to runs that have ended.
            "on_unfinished": "discard",
            "durability": self._durability,
            "recursion_limit": settings.get("recursionLimit") or defaults.max_steps,
            "max_concurrency": settings.get("maxConcurrency"),
            "context": settings.get("context"),
            "interrupt_before": settings.get("interruptBefore"),
            "interrupt_after": settings.get("interruptAfter"),
        }
        return without_none(options)

    def _configure(self, progress: Progress) -> None:
        progress.on_end, progress.redact = self._starter.failure_handler_changes, self._context.redact
        progress.max_output = self._context.settings.max_output

    # -- deadlines

    @property
    def _is_past_deadline(self) -> bool:
        return self._run.deadline_at is not None and self._run.deadline_at <= self._context.now()

    def _start_deadline_timer(self) -> Any:
        deadline = self._run.deadline_at
        if deadline is None:
            return None

        def cancel_run() -> None:
            self._cancel("timeout", "its deadline has passed")

        return self._context.clock.call_later((deadline - self._context.now()).total_seconds(), cancel_run)

    async def _time_out(self, progress: Progress) -> None:
        self._stopping = progress.stopping = "timeout"
        await self._fail(progress, TimeoutError())

    # -- postponing

    async def _postpone(self, until: datetime) -> None:
        """Release the run. Workers may claim it again from `until` on."""
        progress = Progress(replace(self._run, status=RunStatus.PENDING), NO_GRAPH)
        try:
            await self._context.write(progress.postpone_changes(until, self._context.now()))
        except RecordConflict:
            logger.info("Run %s was taken over or cancelled.", self.run_id)
        except StatewrightError:
            logger.exception("Run %s could not be released. The next heartbeat of its worker retries.", self.run_id)

    async def _postpone_if_over_limit(self) -> bool:
        """Postpone the run to the next day if its workspace has reached a daily limit. Return True if postponed."""
        context, run = self._context, self._run
        self._spending_limits = await context.spending.limits_of(run.workspace_id)
        if self._spending_limits is None:
            return False
        self._spent_before = await context.spending.of_today(run.workspace_id)
        limit = self._spending_limits.find_reached(self._spent_before, context.now())
        if limit is None or self._is_past_deadline:
            return False
        progress = Progress(replace(run, status=RunStatus.PENDING), NO_GRAPH)
        pauses = run.status is RunStatus.RUNNING
        await self._context.write(progress.next_day_changes(limit, context.now(), pauses=pauses))
        return True

    async def _postpone_missing_code(self, error: StatewrightError) -> None:
        """Postpone a run whose graph, or a part of it, is not available in this process.

        The graph was available when the run was started, so the deployment is at fault, and the run should not fail.
        """
        if self._is_past_deadline:
            await self._time_out(Progress(self._run, NO_GRAPH))
            return
        logger.warning("Run %s is postponed: %s", self.run_id, error)
        await self._postpone(self._context.now() + _MISSING_CODE_RETRY_AFTER)

    # -- failing

    async def _handle_refused_write(self, error: RecordConflict | LeaseLost) -> None:
        """End the attempt after a refused write: the run was cancelled, taken over, or changed since it was read."""
        current = await load_if_claimed(self._context.ledger, self._run)
        if current is None:
            logger.info("Run %s was taken over or cancelled.", self.run_id)
        elif isinstance(error, DuplicateRecord) or (self._progress is not None and self._progress.has_written):
            logger.error("Run %s has failed, because it could not be saved.", self.run_id, exc_info=error)
            await self._fail(Progress(current, NO_GRAPH), error)
        else:
            await self._postpone(self._context.now())

    async def _fail_if_unsaved(self, progress: Progress, error: BaseException) -> None:
        """Fail a run that has ended without saving its outcome."""
        if progress.has_settled and not progress.was_refused:
            return
        current = await load_if_claimed(self._context.ledger, self._run)
        if current is not None:
            unsaved = Progress(replace(current, status=RunStatus.RUNNING), NO_GRAPH)
            unsaved.stopping = progress.stopping
            await self._fail(unsaved, error)

    async def _fail(self, progress: Progress, error: BaseException) -> None:
        self._configure(progress)
        await self._context.write(progress.failure_changes(error, self._context.now()))
