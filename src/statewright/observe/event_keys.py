"""What events are about: the graph, the run and the task, as keys under which something of them is remembered."""

from __future__ import annotations

from statewright.events import Event

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
