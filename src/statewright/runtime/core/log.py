"""The log of a run: its durable events, made with the write that saves them.

An entry says that something happened, and where. What was written is in the checkpoints, and is not kept twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.checkpoint import Interrupt, TaskResult
from statewright.errors import GraphDrained
from statewright.events import Entry
from statewright.graph import START
from statewright.runtime.core.effects import RestStatus
from statewright.runtime.core.run import Run

Entries = tuple[Entry, ...]


def started(run: Run) -> Entries:
    """The first entry of a run; none for a subgraph, which is part of its caller's run."""
    return () if run.nested else (("run_started", 0, None, None, {"graph": run.program.graph.name}),)


def stepped(results: Sequence[TaskResult], step: int) -> Entries:
    """The entries of a superstep: its tasks in their order, and that it is over."""
    tasks = [result.task for result in results if result.task.node != START]
    over: Entry = ("superstep_finished", step, None, None, None)
    return (*(("task_finished", step, task.node, task.id, None) for task in tasks), over)


def ended(run: Run, status: RestStatus, error: BaseException | None = None) -> Entries:
    """The last entry of a run."""
    if run.nested:
        return ()
    data: dict[str, Any] = {"status": status}
    if error is not None:
        data["error"] = text_of(error)
    if isinstance(error, GraphDrained):
        data["drained"] = True
    if run.unfinished_joins and status == "completed":
        data["unfinished_joins"] = list(run.unfinished_joins)
    return (("run_finished", 0, None, None, data),)


def asked_for(run: Run, questions: Sequence[Interrupt]) -> Entries:
    """That tasks wait for something from outside."""
    told = [{"id": one.id, "kind": one.kind} for one in questions]
    return (("interrupted", 0, None, None, told),) if questions and not run.nested else ()


def text_of(error: BaseException) -> str:
    """An error as one line of text: its class, and what it says."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # it is the user's own class
        return f"{type(error).__name__}, whose text cannot be shown"
