"""Which tasks of a fan-out have begun: the records of steps say only when their superstep has.

The worker of a run knows the time at which each task has begun, and records it when the task has ended. If that worker
belongs to this process, it is asked. Otherwise only the limit of the run is known: tasks begin in their order, and no
more than `maxConcurrency` of them are at work, so those after them have not begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from statewright.runs import Run, RunStatus, StepRun, StepStatus
from statewright.service.context.service_context import ServiceContext


def show_running_tasks(
    context: ServiceContext, run: Run, steps: Sequence[StepRun], *, is_whole: bool = True
) -> list[StepRun]:
    """Return steps of a run as they are now: those that wait for their turn are pending.

    `is_whole` says whether these are all steps of the run, in their order, so that a limit can be applied to them.
    """
    if run.status is not RunStatus.RUNNING:
        return list(steps)
    attempt = context.attempt_at(run.id)
    if attempt is not None:
        return attempt.show_running(steps)
    limit = run.settings.get("maxConcurrency")
    return list(steps) if limit is None or not is_whole else _hold_back(steps, int(limit))


def _hold_back(steps: Sequence[StepRun], limit: int) -> list[StepRun]:
    """Return steps of which at most `limit` run: those after them wait for their turn, as far as that is known.

    A step that has failed before counts as running, although it may have given its turn up until the next attempt.
    """
    shown: list[StepRun] = []
    running = sum(step.status is StepStatus.RUNNING and step.attempt > 1 for step in steps)
    for step in steps:
        if step.status is StepStatus.RUNNING and step.attempt == 1:
            running += 1
            if running > limit:
                step = replace(step, status=StepStatus.PENDING, started_at=None)
        shown.append(step)
    return shown
