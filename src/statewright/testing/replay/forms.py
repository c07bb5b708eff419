"""Conversion of inputs, outcomes and checkpoints to records and back, and of tasks and errors to plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from statewright.checkpoint import NO_ARG, Checkpoint, DeferredTask, Joins, Pending, SavedCheckpoint, Task, TaskResult
from statewright.checkpoint.forms import (
    PendingEntry,
    plain_pending,
    plain_result,
    plain_task,
    restore_pending,
    restore_task,
)
from statewright.errors import StoredError
from statewright.graph import ParentCommand
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.outcome import Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.serde.codecs import type_name
from statewright.serde.serde import Serde
from statewright.testing.replay.records import (
    Completed,
    ExistingCheckpoint,
    Failed,
    ForParent,
    Interrupted,
    RecordedEnd,
    RecordedOutcome,
    RecordedTask,
)


def input_to_record(run: Run, value: Any) -> Any:
    """Return an input without the values of untracked fields, which are not recorded."""
    untracked = run.program.untracked_channels
    if not untracked or not isinstance(value, Mapping):
        return value
    return {name: item for name, item in cast("Mapping[str, Any]", value).items() if name not in untracked}


def outcome_to_record(outcome: Outcome) -> RecordedOutcome:
    """Return the outcome of a task as a record."""
    if isinstance(outcome, TaskResult):
        return Completed(*plain_result(outcome))
    if isinstance(outcome, Pause):
        return Interrupted(list(outcome.interrupts))
    error = outcome.error
    if isinstance(error, ParentCommand):
        return ForParent(error.commands[0], list(error.commands[1:]))
    return Failed(error)


def end_to_record(run: Run, end: RunOutcome) -> RecordedEnd:
    """Return the outcome of a run as a record, including the request to cancel or drain it, if one stopped it."""
    error, control = end.error, run.control
    stopped: list[str] | None = None
    if control is not None and error is not None and not isinstance(error, ParentCommand):
        name = type(error).__name__
        if name == "RunCancelled" and control.cancel_reason is not None:
            stopped = ["cancel", control.cancel_reason]
        elif name == "GraphDrained" and control.drain_reason is not None:
            stopped = ["drain", control.drain_reason]
    message = plain_error(error) if error is not None else None
    return RecordedEnd(end.status, [question.id for question in end.interrupts], end.node, message, stopped)


def checkpoint_to_record(saved: SavedCheckpoint, serde: Serde) -> ExistingCheckpoint:
    """Return a checkpoint as a record. Raises SerdeError for values that cannot be stored."""
    checkpoint = saved.checkpoint
    record = ExistingCheckpoint(
        id=checkpoint.id,
        step=checkpoint.step,
        values=checkpoint.values,
        frontier=[plain_task(task, "", -1) for task in checkpoint.frontier],
        deferred=[
            [plain_task(deferred.task, "", -1), deferred.gather, deferred.sender] for deferred in checkpoint.deferred
        ],
        joins={key: sorted(arrived) for key, arrived in checkpoint.joins.items()},
        reported=[list(pair) for pair in checkpoint.reported],
        source=saved.source,
        metadata=dict(saved.metadata),
        pending=[list(entry) for entry in plain_pending(saved.pending, serde)],
        version=saved.graph_version,
    )
    return serde.decode(serde.encode(record, f"checkpoint {checkpoint.step}"))


def checkpoint_from_record(record: ExistingCheckpoint, serde: Serde) -> tuple[Checkpoint, Pending]:
    """Return the checkpoint of a record, and the results of tasks that were saved with it."""
    frontier = tuple(restore_task(task, "", -1) for task in record.frontier)
    deferred = tuple(
        DeferredTask(restore_task(task, "", -1), gather=gather, sender=sender)
        for task, gather, sender in record.deferred
    )
    checkpoint = Checkpoint(
        record.id,
        record.step,
        record.values,
        frontier,
        deferred,
        {key: frozenset(arrived) for key, arrived in record.joins.items()},
        tuple((name, update) for name, update in record.reported),
    )
    return checkpoint, restore_pending([cast(PendingEntry, tuple(entry)) for entry in record.pending], frontier, serde)


def plain_tasks(tasks: Iterable[Task | RecordedTask]) -> list[list[Any]]:
    """Return each task as a list: the name of its node, and its argument if it has one."""
    return [[task.node] if task.arg is NO_ARG else [task.node, task.arg] for task in tasks]


def plain_deferred(deferred_tasks: Iterable[DeferredTask]) -> list[list[Any]]:
    """Return each deferred task as a list: the name of its node, its argument if it has one, and `gather`."""
    return [[*plain_tasks([deferred.task])[0], deferred.gather] for deferred in deferred_tasks]


def plain_joins(program: Program, joins: Joins) -> list[list[Any]]:
    """Return each incomplete join as a list: the nodes that it waits for, its target, and those that have completed."""
    by_key = {join.key: join for join in program.graph.joins}
    return [[list(by_key[key].starts), by_key[key].end, sorted(joins[key])] for key in sorted(joins)]


def plain_error(error: BaseException) -> list[str]:
    """Return the class name and the message of an error. A StoredError has the class name of the original error."""
    return [error.kind if isinstance(error, StoredError) else type_name(type(error)), str(error)]
