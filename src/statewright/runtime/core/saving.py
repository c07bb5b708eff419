"""The form in which a checkpoint is saved: without what its channels do not want kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.checkpoint import Checkpoint, DeferredTask, Task, TaskResult, TimedTask
from statewright.graph import Send
from statewright.runtime.core.program import Program


def saved_form(program: Program, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without untracked values, in the state and in the arguments of Sends."""
    unsaved = program.untracked
    if not unsaved:
        return checkpoint
    return Checkpoint(
        checkpoint.id,
        checkpoint.step,
        {name: value for name, value in checkpoint.values.items() if name not in unsaved},
        tuple(_stripped(task, unsaved) for task in checkpoint.frontier),
        tuple(
            DeferredTask(_stripped(one.task, unsaved), gather=one.gather, sender=one.sender) for one in checkpoint.held
        ),
        checkpoint.joins,
        tuple((name, update) for name, update in checkpoint.reported if name not in unsaved),
    )


def saved_form_of_result(program: Program, result: TaskResult) -> TaskResult:
    """A result without what only the present superstep needs, and without what its channels do not want kept."""
    unsaved = program.untracked
    writes = result.writes
    if not unsaved:
        return TaskResult(result.task, writes, result.targets, goto=result.goto)
    kept = (
        {name: update for name, update in writes.items() if name not in unsaved}
        if isinstance(writes, dict)
        else [(name, update) for name, update in writes if name not in unsaved]
    )
    targets = [_stripped_send(target, unsaved) if isinstance(target, Send) else target for target in result.targets]
    return TaskResult(_stripped(result.task, unsaved), kept, targets, goto=result.goto)


def _stripped_send(send: Send, unsaved: frozenset[str]) -> Send:
    return Send(send.node, _kept(send.arg, unsaved), gather=send.gather, timeout=send.timeout)


def _stripped(task: Task, unsaved: frozenset[str]) -> Task:
    kept = _kept(task.arg, unsaved)
    if kept is task.arg:
        return task
    if type(task) is TimedTask:
        return TimedTask(task.node, kept, task.origin, task.position, task.timeout)
    return Task(task.node, kept, task.origin, task.position)


def _kept(arg: Any, unsaved: frozenset[str]) -> Any:
    """The argument of a Send, or a list of gathered ones, without untracked values."""
    if isinstance(arg, Mapping):
        return {name: value for name, value in cast(Mapping[str, Any], arg).items() if name not in unsaved}
    if type(arg) is list:
        return [_kept(one, unsaved) for one in cast(list[Any], arg)]
    return arg
