"""The times at which the tasks of a fan-out begin.

All steps of a superstep are recorded in the transaction that makes them due, and have its time as their start. But a
limit on concurrency may hold a task back for long after that. To write when each task begins would cost a further
change for each, so the worker keeps the time in memory, and writes it with the change that ends the first attempt at
the task. Until then readers in the same process ask the worker; see `operations/running_tasks.py` for the others.

Only the tasks that this attempt at the run has made due are tracked. Of a run that is continued, the tasks may have
begun before, in a process that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from statewright.checkpoint import Task
from statewright.clock import Clock
from statewright.runs import StepRun, StepStatus


class TaskStarts:
    """The tasks of the current superstep whose starts are not recorded, and when those that have begun did so."""

    __slots__ = ("_unrecorded",)

    def __init__(self, unrecorded: dict[str, datetime | None] | None = None) -> None:
        self._unrecorded: dict[str, datetime | None] = unrecorded if unrecorded is not None else {}
        """When tasks have begun, by task id; None while they wait for their turn."""

    def expect(self, task_ids: Iterable[str]) -> None:
        """Track the tasks of a new superstep: none, if it has only one task, which begins at once."""
        self._unrecorded = dict.fromkeys(task_ids)

    def note(self, task: Task, clock: Clock) -> datetime | None:
        """Note that a task begins, and return the time; None if it is not tracked. Called from any thread."""
        unrecorded = self._unrecorded
        if task.id not in unrecorded or unrecorded.get(task.id) is not None:  # `get`: another thread may remove it
            return None
        unrecorded[task.id] = now = clock.now()
        return now

    def take(self, task_id: str) -> datetime | None:
        """Return when a task has begun, so that it can be recorded; None if that is recorded, or the task unknown."""
        return self._unrecorded.pop(task_id, None) if self._unrecorded else None

    def show(self, step: StepRun) -> StepRun:
        """Return a step as it is now: with the time at which it has begun, or pending if it waits for its turn."""
        if step.status is not StepStatus.RUNNING or step.task_id not in self._unrecorded:
            return step
        started_at = self._unrecorded.get(step.task_id)
        status = StepStatus.PENDING if started_at is None else StepStatus.RUNNING
        return replace(step, status=status, started_at=started_at)

    def copy(self) -> TaskStarts:
        return TaskStarts(dict(self._unrecorded))
