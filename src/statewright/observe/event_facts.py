"""What went wrong, as events tell it: of attempts that failed, tasks and runs that ended."""

from __future__ import annotations

from collections.abc import Iterable

from statewright.checkpoint import TaskResult
from statewright.errors import RunCancelled
from statewright.events import Event
from statewright.graph import NodeError, Send
from statewright.runtime.effects import Failure, RunOutcome


def error_of(event: Event) -> tuple[BaseException | None, str | None]:
    """The error that an event tells of, and the node that raised it; of a task also one that its handler was sent."""
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
    """Whether an error is one, and not a signal of the runtime or somebody's wish that the run stops."""
    return isinstance(error, Exception) and not isinstance(error, RunCancelled)


def code_of(error: BaseException) -> str:
    """The code of an error, as the API tells it: its own if it has one, else the name of its class."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__name__


def _handled(targets: Iterable[object]) -> BaseException | None:
    sent = (target.arg for target in targets if isinstance(target, Send))
    return next((arg.error for arg in sent if isinstance(arg, NodeError)), None)


# -- What events are about: the graph, the run and the task, as keys under which something of them is remembered.

Key = tuple[object, ...]


def graph_of(event: Event) -> str:
    """The name of the graph that it happened in."""
    return event.program.graph.name if event.program is not None else ""


def run_of(event: Event) -> Key:
    """The call that it happened in; a call of a subgraph is one of its own."""
    return event.run_id, event.thread_id, event.namespace


def task_of(event: Event) -> Key:
    """The task that it concerns. Unlike its id this needs no hash."""
    task = event.task
    return (*run_of(event), *((task.origin, task.position) if task is not None else ()))
