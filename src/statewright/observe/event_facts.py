"""Facts about events: the errors that they report, and their graph, run and task as keys."""

from __future__ import annotations

from collections.abc import Iterable

from statewright.checkpoint import TaskResult
from statewright.errors import RunCancelled
from statewright.events import Event
from statewright.graph import NodeError, Send
from statewright.runtime.invocation.outcome import Failure, RunOutcome


def error_of(event: Event) -> tuple[BaseException | None, str | None]:
    """Return the error of an event and the node that raised it, including errors that were sent to a handler node."""
    match event.data:
        case RunOutcome():
            return event.data.error, event.data.node
        case Failure():
            return event.data.error, event.node
        case TaskResult():
            return _handled(event.data.targets), event.node
        case BaseException():
            return event.data, None
        case (BaseException(), _):
            return event.data[0], event.node
        case _:
            return None, None


def is_failure(error: BaseException | None) -> bool:
    """Return True for a real error, as opposed to a signal of the runtime or a cancellation."""
    return isinstance(error, Exception) and not isinstance(error, RunCancelled)


def _handled(targets: Iterable[object]) -> BaseException | None:
    sent = (target.arg for target in targets if isinstance(target, Send))
    return next((arg.error for arg in sent if isinstance(arg, NodeError)), None)


# -- keys

Key = tuple[object, ...]


def graph_of(event: Event) -> str:
    """Return the name of the graph of an event."""
    return event.program.graph.name if event.program is not None else ""


def run_of(event: Event) -> Key:
    """Return the key of the call of an event; a call of a subgraph is a call of its own."""
    return event.run_id, event.thread_id, event.namespace


def task_of(event: Event) -> Key:
    """Return the key of the task of an event. Unlike the id of the task, it needs no hash."""
    task = event.task
    return (*run_of(event), *((task.origin, task.position) if task is not None else ()))
