"""Data derived from events: their error, the name of their graph, and the keys of their run and task."""

from __future__ import annotations

from collections.abc import Iterable

from statewright.checkpoint import TaskResult
from statewright.errors import RunCancelled
from statewright.events import Event
from statewright.graph import NodeError, Send
from statewright.runtime.invocation.outcome import Failure, RunOutcome


def error_of(event: Event) -> tuple[BaseException | None, str | None]:
    """Return the error that an event reports and the node that raised it, or None for either.

    This includes an error that was sent to a handler node.
    """
    match event.data:
        case RunOutcome():
            return event.data.error, event.data.node
        case Failure():
            return event.data.error, event.node
        case TaskResult():
            return _handled_error(event.data.targets), event.node
        case BaseException():
            return event.data, None
        case (BaseException(), _):
            return event.data[0], event.node
        case _:
            return None, None


def is_failure(error: BaseException | None) -> bool:
    """Return True for an error; False for None, for a control-flow signal of the runtime, and for a cancellation."""
    return isinstance(error, Exception) and not isinstance(error, RunCancelled)


def _handled_error(targets: Iterable[object]) -> BaseException | None:
    """Return the error that was sent to a handler node; None if there is none."""
    arguments = (target.arg for target in targets if isinstance(target, Send))
    return next((argument.error for argument in arguments if isinstance(argument, NodeError)), None)


# -- graphs and keys

Key = tuple[object, ...]
"""Identifies a running call, superstep, task or step."""


def graph_name(event: Event) -> str:
    """Return the name of the graph in which an event happened."""
    return event.program.graph.name if event.program is not None else ""


def run_key(event: Event) -> Key:
    """Return the key that identifies a call of a graph. Each call of a subgraph has a key of its own."""
    return event.run_id, event.thread_id, event.namespace


def task_key(event: Event) -> Key:
    """Return the key that identifies the task of an event. It is cheaper than the id of the task, which is a hash."""
    task = event.task
    return (*run_key(event), *((task.origin, task.position) if task is not None else ()))
