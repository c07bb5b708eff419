"""Edits of a thread from outside, and the changes to the records of a run that they require.

An update of the state may complete a task that waits, and a fork may repeat a completed task. So in the same
transaction, an edit also changes the records of the run that waits, is paused or has failed on the thread. It deletes
the waits of closed questions, cancels the steps of removed tasks, creates steps for tasks that are due again, and makes
the run due if it can continue. An accepted answer is never lost: until the answer is processed, edits are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, Commit, Interrupt, Pending, SavedCheckpoint
from statewright.errors import RequestConflict
from statewright.futures import MaybeFuture
from statewright.graph import Graph
from statewright.ids import CheckpointId
from statewright.runs import (
    Absent,
    Advance,
    Approval,
    Change,
    Condition,
    Delete,
    Ledger,
    NewEvent,
    Order,
    Run,
    RunStatus,
    Signal,
    StepRun,
    StepStatus,
    Update,
    UpdateAll,
    Wait,
    where,
)
from statewright.runtime import RUN_ENDED
from statewright.runtime.core.frontier import due_tasks
from statewright.service.context.records import UNFINISHED_STEPS, find_first
from statewright.service.engine.changeset import ChangeSet
from statewright.service.engine.step_records import StepRecords
from statewright.service.engine.waits import match_signals

ACTIVE: Final = [RunStatus.PENDING, RunStatus.RUNNING]
"""The statuses of runs that advance their thread, or are about to."""
_SUSPENDED: Final = [RunStatus.WAITING, RunStatus.PAUSED]
_OPEN_STEPS: Final = [*UNFINISHED_STEPS, StepStatus.FAILED]
"""The statuses of steps that have not completed. A failed step is one, because it is executed again on a retry."""
_MAIN: Final = "main"
"""The branch that runs advance."""
ChangesOf = Callable[[Commit, datetime], Sequence[Change]]
"""Returns the changes to records that follow from a commit, given its time; see `ResumableRun.changes`."""


class ResumableRun:
    """A run that may still continue on a thread, with the records that an edit of the thread may affect.

    The run waits, is paused, or has failed. If a failed run is retried, it continues from the current state of the
    thread.
    """

    def __init__(
        self, run: Run, graph: Graph, waits: Sequence[Wait], steps: Sequence[StepRun], inbox: Sequence[Signal]
    ) -> None:
        self.run = run
        self._graph = graph
        self._waits = waits
        self._steps = steps
        self._inbox = inbox

    @classmethod
    async def find(cls, ledger: Ledger, workspace_id: str, thread_id: str, graph: Graph) -> ResumableRun | None:
        """Return the run that waits or is paused on a thread, or else its newest run if that has failed, or None."""
        run = await find_first(ledger, Run, _suspended_on(workspace_id, thread_id), Order("id", descending=True))
        if run is None:
            begun = where(workspace_id=workspace_id, thread_id=thread_id, begun=True)
            run = await find_first(ledger, Run, begun, Order("started_at", descending=True))
            if run is None or run.status is not RunStatus.FAILED:
                return None
        waits = await aresolve(ledger.find(Wait, where(run_id=run.id)))
        steps = await aresolve(ledger.find(StepRun, [*where(run_id=run.id), Condition("status", "in", _OPEN_STEPS)]))
        inbox = await aresolve(ledger.find(Signal, where(run_id=run.id, taken=False)))
        return cls(run, graph, waits, steps, inbox)

    def changes(self, commit: Commit, now: datetime) -> list[Change]:
        """Return the changes to the run's records for an edit. Raises RequestConflict if an answer would be lost."""
        if commit.branch_key.namespace or commit.branch_key.branch != _MAIN:
            return self._guard_unchanged()
        pending, frontier = commit.pending or Pending(), commit.checkpoint.frontier
        open_ids = {question.id for question in pending.open}
        closed_waits = [wait for wait in self._waits if wait.interrupt_id not in open_ids]
        reopened_ids = open_ids - self._question_ids(pending)
        is_affected = bool(closed_waits or reopened_ids or due_tasks(commit.checkpoint, pending) or not frontier)
        if not is_affected and self.run.status is not RunStatus.FAILED:
            return self._guard_unchanged()  # all tasks wait as before
        self._check_answers(closed_waits, now)
        return [
            *self._advance(now),
            *self._close(closed_waits, now),
            *self._discard_answers([question for question in pending.open if question.id in reopened_ids]),
            *self._match_steps(commit, pending, now),
        ]

    def _question_ids(self, pending: Pending) -> set[Any]:
        """Return the ids of the questions that the run has asked.

        A failed run has no waits. Its questions are those of the tasks that have a step.
        """
        if self.run.status is not RunStatus.FAILED:
            return {wait.interrupt_id for wait in self._waits}
        own_tasks = {step.task_id for step in self._steps}
        return {
            question.id for task, questions in pending.interrupts.items() if task in own_tasks for question in questions
        }

    def _check_answers(self, closed_waits: Sequence[Wait], now: datetime) -> None:
        """Raise RequestConflict if the inbox has an unprocessed answer to one of the waits."""
        if match_signals(closed_waits, self._inbox, now).signals:
            raise RequestConflict(
                f"Run {self.run.id} has received an answer, and is about to be resumed. Wait for that, and try again.",
                details={"runs": [self.run.id]},
            )

    def _guard_unchanged(self) -> list[Change]:
        """Return the guards of an edit that does not affect the run. They ensure that it is unchanged and unclaimed."""
        same_run = where(id=self.run.id)
        changed = [Condition("version", "!=", self.run.version), Condition("claim", "!=", None)]
        return [*(Absent(Run, [*same_run, condition]) for condition in changed), *self._guard_no_other_run()]

    def _guard_no_other_run(self) -> list[Change]:
        """Return the guards that refuse an edit if another run uses the thread.

        Only a failed run needs them, because it does not reserve its thread.
        """
        if self.run.status is not RunStatus.FAILED:
            return []
        return _guard_no_run(self.run.workspace_id, self.run.thread_id)

    def _advance(self, now: datetime) -> list[Change]:
        guard = [Condition("version", "=", self.run.version), Condition("claim", "=", None)]
        if self.run.status is not RunStatus.WAITING:  # a paused or failed run continues only on request
            return [*self._guard_no_other_run(), Advance(self.run.id, now, {}, (), guard)]
        event = NewEvent("WORKFLOW_RESUMED", {"reason": "thread changed"})
        return [Advance(self.run.id, now, {"status": RunStatus.RUNNING, "due_at": now}, [event], guard)]

    def _close(self, closed_waits: Sequence[Wait], now: datetime) -> list[Change]:
        if not closed_waits:
            return []
        conditions = [Condition("id", "in", [wait.id for wait in closed_waits])]
        values = {"decision": "cancelled", "decided_at": now}
        return [Delete(Wait, conditions), UpdateAll(Approval, [*conditions, *where(decision=None)], values)]

    def _discard_answers(self, questions: Sequence[Interrupt]) -> list[Change]:
        """Discard earlier answers to questions that a fork asks again, so that the questions can be answered again.

        The report that a child run has ended is kept, because it is sent only once.
        """
        of_run = where(run_id=self.run.id)
        interrupt_ids = sorted(question.id for question in questions)
        events = (question.event for question in questions)
        types = sorted(event for event in events if event is not None and not event.startswith(RUN_ENDED))
        changes: list[Change] = []
        if interrupt_ids:
            answers = [*of_run, Condition("interrupt_id", "in", interrupt_ids)]
            changes.append(UpdateAll(Signal, answers, {"key": None, "taken": True}))
        if types:
            signals = [*of_run, *where(taken=False), Condition("type", "in", types)]
            changes.append(UpdateAll(Signal, signals, {"taken": True}))
        return changes

    def _match_steps(self, commit: Commit, pending: Pending, now: datetime) -> list[Change]:
        """Cancel the steps of removed tasks, and create a step for each task that is due and has none."""
        frontier = commit.checkpoint.frontier
        task_ids = {task.id for task in frontier}
        removed_ids = [step.id for step in self._steps if step.task_id not in task_ids]
        due_steps = [step for step in self._steps if step.task_id in task_ids]
        repeated_task_ids = task_ids - {step.task_id for step in due_steps} - pending.completed.keys()
        changeset = ChangeSet()
        records = StepRecords(self.run, self._graph, due_steps, self._waits)
        records.start(changeset, frontier, commit.checkpoint.step + 1, now, halts=True, done=pending.completed)
        # A task that is repeated gets a new step, with the id of the previous one.
        previous_steps = [*where(run_id=self.run.id), Condition("task_id", "in", sorted(repeated_task_ids))]
        values = {"status": StepStatus.CANCELLED, "completed_at": now}
        return [
            *([UpdateAll(StepRun, [Condition("id", "in", removed_ids)], values)] if removed_ids else []),
            *([Delete(StepRun, previous_steps)] if repeated_task_ids else []),
            *changeset.changes,
        ]


def _suspended_on(workspace_id: str, thread_id: str) -> list[Condition]:
    begun = where(workspace_id=workspace_id, thread_id=thread_id, begun=True)
    return [*begun, Condition("status", "in", _SUSPENDED)]


def _guard_no_run(workspace_id: str, thread_id: str) -> list[Change]:
    active = [*where(workspace_id=workspace_id, thread_id=thread_id), Condition("status", "in", ACTIVE)]
    return [Absent(Run, active), Absent(Run, _suspended_on(workspace_id, thread_id))]


def guard_no_run_since(newest: Run) -> ChangesOf:
    """Return a function that returns the guards of an edit of a thread whose runs have ended.

    They ensure that no run uses the thread by now, and that its newest run still exists. Retention may have deleted the
    run together with the thread, which the edit would create again.
    """
    exists = Update(Run, newest.id, {})
    return lambda commit, now: [*_guard_no_run(newest.workspace_id, newest.thread_id), exists]


async def find_edited_run(saver: Checkpointer, head: SavedCheckpoint) -> str:
    """Return the id of the run that saved the head, or if the head was saved by edits, of the run before these edits.

    Edits have run ids of their own. A rollback does not count as an edit, because it removes its run from the thread.
    """
    saved = head
    while saved.source in ("update", "fork") and "rolled_back" not in saved.metadata and saved.parent_id is not None:
        parent = await aresolve(saver.load(saved.branch_key.thread_id, checkpoint_id=saved.parent_id))
        if parent is None:  # it was pruned
            break
        saved = parent
    return saved.run_id


class EditRecorder:
    """The saver for an edit. It saves the edit and the resulting changes to the records of a run in one transaction."""

    def __init__(self, saver: Checkpointer, ledger: Ledger, changes_of: ChangesOf) -> None:
        self._saver = saver
        self._ledger = ledger
        self._changes_of = changes_of
        self.changes: Sequence[Change] = []
        """The changes that were written together with the commit."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped saver."""
        return getattr(self._saver, name)

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        """Save a commit together with the changes that follow from it."""
        self.changes = self._changes_of(commit, commit.created_at)
        jobs = [*also, self._ledger.job(self.changes)] if self.changes else also
        return self._saver.commit(commit, also=jobs)
