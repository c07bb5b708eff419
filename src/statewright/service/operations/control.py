"""Control of runs: cancelling, pausing, resuming and retrying them.

The changes are computed from the record of a run, and are refused if its version has changed meanwhile. In that case
they are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition, RecordConflict, RecordPresent, RequestConflict
from statewright.runs import (
    ENDED,
    Absent,
    Advance,
    Approval,
    Change,
    Condition,
    Delete,
    NewEvent,
    Order,
    Run,
    RunStatus,
    StepRun,
    StepStatus,
    UpdateAll,
    Wait,
    check_transition,
    where,
)
from statewright.service.context.records import (
    UNFINISHED,
    UNFINISHED_STEPS,
    filter_conditions,
    find_first,
    others_on_thread,
)
from statewright.service.context.requests import RunFilter
from statewright.service.context.service_context import Operations
from statewright.service.engine.completion import Ending, completion_changes

_MAX_TRIES: Final = 20
"""Maximum number of tries to change a run that is changed concurrently."""
_MAX_BULK: Final = 1000
"""Maximum number of runs that one bulk request changes."""
_ChangesOf = Callable[[Run, datetime], Sequence[Change]]
"""Returns the changes to a run, given its record and the time; an empty sequence if the run need not change."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The changes that cancel runs, so that they can be written together with the start of another run."""

    changes: Sequence[Change]
    """The ledger refuses them with RecordConflict if one of the runs has changed."""
    publish: Callable[[], object]
    """Publishes the changes, and stops the attempts at the runs. Call it after the changes were written."""


class ControlOperations(Operations):
    """Cancels, pauses, resumes and retries runs."""

    async def cancel(self, workspace_id: str, run_id: str, reason: str | None = None) -> Run:
        """Cancel a run and its child runs in one transaction. A run that has ended is returned unchanged."""
        context = self.context
        for _ in range(_MAX_TRIES):
            run = await self.run(workspace_id, run_id)
            if run.status in ENDED:  # its child runs were cancelled with it, or continue without it
                return run
            cancellation = await self.prepare_cancellation([run], reason)
            try:
                await aresolve(context.ledger.write(cancellation.changes))
            except RecordConflict:  # the run or a child has changed, for example by starting another run
                continue
            cancellation.publish()
            return await self.run(workspace_id, run_id)
        raise _changing_error(run_id)

    async def prepare_cancellation(self, runs: Sequence[Run], reason: str | None = None) -> Cancellation:
        """Return the changes that cancel runs and all runs that they have started.

        The ledger refuses the changes if one of the runs has changed since its record was read.
        """
        now = self.context.now()
        families = [(run, await self._find_descendants(run)) for run in runs]
        all_descendants = {child.id for _, descendants in families for child in descendants}
        cancelled: list[Run] = []
        changes: list[Change] = []
        for run, descendants in families:
            if run.id in all_descendants:  # cancelled as a descendant, after its parent, which its end would resume
                continue
            changes += _cancel_changes(run, reason, now)
            for child in descendants:
                changes += _cancel_changes(child, f"run {run.id}, which has started it, was cancelled", now)
            cancelled += [run, *descendants]

        def publish() -> None:
            self.context.publish(changes)
            self._stop(cancelled)

        return Cancellation(changes, publish)

    async def _find_descendants(self, run: Run) -> list[Run]:
        """Return the unfinished runs that a run has started, directly or indirectly."""
        descendants: list[Run] = []
        parent_ids = [run.id]
        while parent_ids:
            conditions = [Condition("parent_id", "in", parent_ids), Condition("status", "in", UNFINISHED)]
            children = await aresolve(self.context.ledger.find(Run, conditions))
            descendants += children
            parent_ids = [child.id for child in children]
        return descendants

    def _stop(self, runs: Sequence[Run]) -> None:
        """Stop this process's attempts at cancelled runs."""
        for run in runs:
            attempt = self.context.attempt_at(run.id)
            if attempt is not None:
                attempt.cancel()
        self.context.announce_due()

    async def pause(self, workspace_id: str, run_id: str) -> Run:
        """Pause a run. A run that is being advanced finishes its current superstep first. Raises InvalidTransition."""

        def pause_changes(run: Run, now: datetime) -> Sequence[Change]:
            if run.status is RunStatus.PAUSED and run.claim is None and run.due_at is None:
                return ()
            if run.status is not RunStatus.PAUSED:  # a run that was paused by a spending limit can be paused for longer
                check_transition(f"Run {run.id}", run.status, RunStatus.PAUSED)
            if run.settings.get("pause"):
                return ()
            if run.claim is None:  # no worker is advancing the run, so it is paused at once
                values = {"status": RunStatus.PAUSED, "due_at": None}
                event = NewEvent("WORKFLOW_PAUSED", {"reason": "paused"})
                return [Advance(run.id, now, values, [event], _unchanged(run))]
            return [Advance(run.id, now, {"settings": {**run.settings, "pause": True}}, (), _unchanged(run))]

        run = await self._change(workspace_id, run_id, pause_changes)
        attempt = self.context.attempt_at(run_id)
        if attempt is not None:
            attempt.pause()
        return run

    async def resume(self, workspace_id: str, run_id: str) -> Run:
        """Resume a paused run. Raises InvalidTransition if it is not paused."""

        def resume_changes(run: Run, now: datetime) -> Sequence[Change]:
            if run.status is not RunStatus.PAUSED:
                raise InvalidTransition(f"Run {run.id}", run.status, "resumed", ["paused"], is_request=True)
            event = NewEvent("WORKFLOW_RESUMED", {"reason": "resumed"})
            return [Advance(run.id, now, _running_values(run, now), [event], _unchanged(run))]

        run = await self._change(workspace_id, run_id, resume_changes)
        self.context.announce_due()
        return run

    async def retry(self, workspace_id: str, run_id: str) -> Run:
        """Retry a failed run from the failed step, whose attempts are counted from 1 again; completed steps are kept.

        Raises InvalidTransition if the run has not failed, RequestConflict if another run uses its thread or has
        advanced the thread since, and SpendingLimitReached if its workspace has reached a daily limit.
        """

        def retry_changes(run: Run, now: datetime) -> Sequence[Change]:
            if run.status is not RunStatus.FAILED:
                raise InvalidTransition(f"Run {run.id}", run.status, "retried", ["failed"], is_request=True)
            step_values = {"status": StepStatus.RUNNING, "attempt": 1, "error": None, "completed_at": None}
            return [
                *(Absent(Run, conditions) for conditions, _ in _blockers(run)),
                _retry_change(run, now),
                UpdateAll(StepRun, where(run_id=run.id, status=StepStatus.FAILED), step_values),
            ]

        while True:
            failed = await self.run(workspace_id, run_id)
            await self._check_thread(failed)
            if failed.status is RunStatus.FAILED:
                await self.context.spending.check_start(workspace_id)
            with suppress(RecordPresent):  # another run has taken the thread since the check: check again
                run = await self._change(workspace_id, run_id, retry_changes)
                break
        self.context.announce_due()
        return run

    async def _check_thread(self, run: Run) -> None:
        """Raise RequestConflict if a failed run cannot continue on its thread."""
        if run.status is not RunStatus.FAILED:
            return
        for conditions, message in _blockers(run):
            other = await find_first(self.context.ledger, Run, conditions)
            if other is not None:
                reason = message.format(id=other.id, status=other.status)
                raise RequestConflict(
                    f"Run {run.id} cannot be retried: its thread {run.thread_id!r} {reason}",
                    details={"runs": [other.id]},
                )

    # -- bulk operations

    async def cancel_all(self, workspace_id: str, filters: RunFilter) -> list[str]:
        """Cancel the matching runs that have not ended, at most 1000. Return their ids."""
        return await self._apply_to_all(workspace_id, filters, UNFINISHED, self.cancel)

    async def retry_all(self, workspace_id: str, filters: RunFilter) -> list[str]:
        """Retry the matching runs that have failed, at most 1000. Return the ids of the runs that could be retried."""
        return await self._apply_to_all(workspace_id, filters, [RunStatus.FAILED], self.retry)

    async def _apply_to_all(
        self, workspace_id: str, filters: RunFilter, allowed: Sequence[RunStatus], operation: Callable[[str, str], Any]
    ) -> list[str]:
        """Apply an operation to the matching runs with an allowed status. Return the ids of the changed runs."""
        statuses = tuple(status for status in allowed if not filters.status or status in filters.status)
        conditions = filter_conditions(workspace_id, replace(filters, status=statuses))
        if not statuses:
            return []
        changed: list[str] = []
        for run in await aresolve(
            self.context.ledger.find(Run, conditions, order=Order("created_at"), limit=_MAX_BULK)
        ):
            with suppress(RequestConflict):  # the run has changed since it was read, or its thread is in use
                await operation(workspace_id, run.id)
                changed.append(run.id)
        return changed

    # -- one change

    async def _change(self, workspace_id: str, run_id: str, changes_of: _ChangesOf) -> Run:
        """Compute changes from the current record of a run and write them; retry if the run has changed meanwhile."""
        context = self.context
        for _ in range(_MAX_TRIES):
            run = await self.run(workspace_id, run_id)
            changes = changes_of(run, context.now())
            if not changes:
                return run
            try:
                await context.write(changes)
            except RecordPresent:  # another run on the thread prevents the change
                raise
            except RecordConflict:
                continue
            return await self.run(workspace_id, run_id)
        raise _changing_error(run_id)


def _changing_error(run_id: str) -> RequestConflict:
    return RequestConflict(f"Run {run_id!r} is being changed concurrently. Try again.")


def _unchanged(run: Run) -> list[Condition]:
    return [Condition("version", "=", run.version)]


def _cancel_changes(run: Run, reason: str | None, now: datetime) -> Sequence[Change]:
    if run.status in ENDED:
        return ()
    ending = Ending.cancelled(reason)
    unfinished = [*where(run_id=run.id), Condition("status", "in", UNFINISHED_STEPS)]
    undecided = where(run_id=run.id, decision=None)
    return [
        Advance(run.id, now, ending.values(now), [NewEvent(ending.event, ending.payload)], _unchanged(run)),
        UpdateAll(StepRun, unfinished, {"status": StepStatus.CANCELLED, "completed_at": now}),
        UpdateAll(Approval, undecided, {"decision": "cancelled", "decided_at": now}),
        Delete(Wait, where(run_id=run.id)),
        *completion_changes(replace(run, status=RunStatus.CANCELLED), ending, now),
    ]


def _blockers(run: Run) -> list[tuple[list[Condition], str]]:
    """Return, for each reason not to retry a failed run, the conditions of the run in its way, and the error message.

    The runs on a thread begin one after another, so a run that has started later has advanced the thread since. Ids do
    not show the order of the starts, because they are generated before a run is written. They only break ties.
    """
    begun = where(workspace_id=run.workspace_id, thread_id=run.thread_id, begun=True)
    same_start = [*where(started_at=run.started_at), Condition("id", ">", run.id)]
    advanced = "was advanced by run {id} since. Start a new run."
    return [
        ([*begun, Condition("started_at", ">", run.started_at)], advanced),
        ([*begun, *same_start], advanced),
        (others_on_thread(run), "is in use by run {id}, which is {status}. Wait for its end, or start a new run."),
    ]


def _retry_change(run: Run, now: datetime) -> Advance:
    values = _running_values(run, now)
    values["settings"]["retries"] = run.settings.get("retries", 0) + 1
    values |= {"error": None, "failed_at": None, "deadline_at": None, "losses": 0}
    return Advance(run.id, now, values, [NewEvent("WORKFLOW_RETRIED", {})], _unchanged(run))


def _running_values(run: Run, now: datetime) -> dict[str, Any]:
    """Return the columns that change when a run continues after a pause or a failure, with their values."""
    settings = {name: value for name, value in run.settings.items() if name != "pause"}
    return {"status": RunStatus.RUNNING, "due_at": now, "settings": settings}
