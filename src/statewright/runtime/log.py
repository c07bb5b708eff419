"""The log of a run: its durable events, made with the write that saves them.

An entry says that something happened, and where. What was written is in the checkpoints, and is not kept twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from statewright.checkpoint import Interrupt, TaskResult
from statewright.events import Event
from statewright.graph import START
from statewright.runtime.effects import RestStatus
from statewright.runtime.run import Run

Entries = tuple[Event, ...]


def started(run: Run, at: datetime) -> Entries:
    """The first entry of a run; none for a subgraph, which is part of its caller's run."""
    return () if run.nested else (_entry("run_started", run, at, {"graph": run.program.graph.name}),)


def stepped(run: Run, results: Sequence[TaskResult], step: int, at: datetime) -> Entries:
    """The entries of a superstep: its tasks in their order, and that it is over."""
    tasks = [result.task for result in results if result.task.node != START]
    return (
        *(_entry("task_finished", run, at, None, step=step, node=task.node, task_id=task.id) for task in tasks),
        _entry("superstep_finished", run, at, None, step=step),
    )


def ended(run: Run, status: RestStatus, at: datetime, error: BaseException | None = None) -> Entries:
    """The last entry of a run."""
    if run.nested:
        return ()
    told = {"status": status, **({"error": f"{type(error).__name__}: {error}"} if error is not None else {})}
    return (_entry("run_finished", run, at, told),)


def asked_for(run: Run, questions: Sequence[Interrupt], at: datetime) -> Entries:
    """That tasks wait for something from outside."""
    told = [{"id": one.id, "kind": one.kind} for one in questions]
    return (_entry("interrupted", run, at, told),) if questions and not run.nested else ()


def _entry(kind: Any, run: Run, at: datetime, data: Any, **where: Any) -> Event:
    return Event(
        kind, data, run_id=run.run_id, thread_id=run.settings.thread_id, namespace=run.namespace, at=at, **where
    )
