"""Who is at work on the present thread, or in the present asyncio task."""

from __future__ import annotations

from statewright.observe.captured import Place
from statewright.runtime.tasks.scope import Scope, current_scope


def current_task() -> Place | None:
    """The task of the run's own graph that is at work; None outside tasks, and for an attempt that was given up.

    What a subgraph does is done by the task that called it, under the name of the node inside.
    """
    scope = current_scope()
    if scope is None or scope.task is None or scope.abandoned:
        return None
    node, outer = scope.task.node, scope
    while outer.run.nested and outer.run.caller is not None:
        outer = outer.run.caller
    task_id = _task_id(outer)
    number = outer.attempt.number if outer.attempt is not None else 1
    return Place(task_id, node, number) if task_id else None


def _task_id(scope: Scope) -> str:
    """The id of a task, or of the one for which a called task does its part. A call that saves nothing knows no more
    of its caller than its namespace says."""
    if scope.run.nested:
        segment = scope.run.namespace.split("|")[0].split(":")
        return segment[1] if len(segment) > 1 else ""
    return scope.task.id.partition(":")[0] if scope.task is not None else ""
