"""Statuses of runs and steps, and their allowed transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeVar

from statewright.errors import InvalidTransition


class RunStatus(StrEnum):
    """The status of a run."""

    PENDING = "pending"
    """The run was accepted, but has not begun."""
    RUNNING = "running"
    WAITING = "waiting"
    """The run waits for a time, a signal or an answer. Meanwhile it occupies no worker."""
    PAUSED = "paused"
    """The run was stopped between two supersteps. It may be resumed."""
    COMPLETED = "completed"
    FAILED = "failed"
    """The run may be retried."""
    CANCELLED = "cancelled"

    @property
    def may_become(self) -> frozenset[RunStatus]:
        """The statuses that may follow this one; none if it is final."""
        return RUN_TRANSITIONS[self]


class StepStatus(StrEnum):
    """The status of a step of a run."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The run skipped it."""
    CANCELLED = "cancelled"

    @property
    def may_become(self) -> frozenset[StepStatus]:
        """The statuses that may follow this one; none if it is final."""
        return STEP_TRANSITIONS[self]


ActivityKind = Literal[
    "queued",
    "scheduled",
    "working",
    "retrying",
    "question",
    "approval",
    "event",
    "timer",
    "child",
    "waiting",
    "paused",
    "completed",
    "failed",
    "cancelled",
]
"""The activity of a run, in more detail than its status. `waiting` stands for a wait that is not known."""
RUN_TRANSITIONS: Final[Mapping[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.PENDING: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED}),
    RunStatus.RUNNING: frozenset(
        {RunStatus.WAITING, RunStatus.PAUSED, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED}
    ),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.FAILED}),
    RunStatus.PAUSED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED}),
    RunStatus.FAILED: frozenset({RunStatus.RUNNING}),
    RunStatus.COMPLETED: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
STEP_TRANSITIONS: Final[Mapping[StepStatus, frozenset[StepStatus]]] = {
    StepStatus.PENDING: frozenset({StepStatus.RUNNING, StepStatus.SKIPPED, StepStatus.CANCELLED}),
    StepStatus.RUNNING: frozenset({StepStatus.WAITING, StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.CANCELLED}),
    StepStatus.WAITING: frozenset({StepStatus.RUNNING, StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.CANCELLED}),
    StepStatus.FAILED: frozenset({StepStatus.RUNNING}),
    StepStatus.COMPLETED: frozenset(),
    StepStatus.SKIPPED: frozenset(),
    StepStatus.CANCELLED: frozenset(),
}
ENDED: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
"""The statuses of runs that have ended. Of these, only a failed run may continue, if it is retried."""
Status = TypeVar("Status", RunStatus, StepStatus)


def check_transition(subject: str, before: Status, after: Status) -> Status:
    """Return `after` if it may follow `before`. Raises InvalidTransition, which lists the statuses that may follow.

    `subject` names the run or the step in the message, such as `Run 7`.
    """
    if after not in before.may_become:
        raise InvalidTransition(subject, before, after, sorted(before.may_become))
    return after
