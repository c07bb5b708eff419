"""Create and emit the events of runs and tasks, and issue warnings about a run as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from statewright.checkpoint import TaskResult
from statewright.errors import HiddenMessagesWarning, NoCheckpointerWarning, UnfinishedJoinWarning, UnknownKeyWarning
from statewright.events import Event, EventKind
from statewright.graph import JoinEdge
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.emitter import EventEmitter
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import Scope


def emit_task_started(emitter: EventEmitter, scope: Scope, state: Any) -> None:
    """Emit the start of a task. `state` is the input of its node."""
    if emitter.wants("task_started"):
        emitter.emit(task_event("task_started", scope, (scope.task, state)))


def emit_task_finished(emitter: EventEmitter, scope: Scope, outcome: Any) -> None:
    """Emit "task_ended" now, and "task_finished" now or, with durability `sync`, once the result is saved."""
    if emitter.wants("task_ended"):
        emitter.emit(task_event("task_ended", scope, outcome))
    if not emitter.wants("task_finished"):
        return
    event, run = task_event("task_finished", scope, outcome), scope.run
    if type(outcome) is TaskResult and run.emits_after_commit:
        run.unpublished_events[outcome.task.id] = event
    else:
        emitter.emit(event)


def emit_task_event(kind: EventKind, scope: Scope, data: Any) -> None:
    """Emit an event about a task, if anything listens to events of this kind."""
    emitter = scope.run.emitter
    if emitter is not None and emitter.wants(kind):
        emitter.emit(task_event(kind, scope, data))


def emit_run_aborted(run: Run, error: BaseException) -> None:
    """Emit that a run has ended without an outcome, unless it has one."""
    if run.outcome is None and run.emitter is not None and run.emitter.wants("run_broken_off"):
        run.emitter.emit(run_event("run_broken_off", run, error))


def run_event(kind: EventKind, run: Run, data: Any, step: int = 0) -> Event:
    """Return an event about a run as a whole."""
    return Event(
        kind,
        data,
        run_id=run.run_id,
        thread_id=run.settings.thread_id,
        namespace=run.namespace,
        step=step,
        program=run.program,
    )


def task_event(kind: EventKind, scope: Scope, data: Any) -> Event:
    """Return an event about a task."""
    event = run_event(kind, scope.run, data, scope.checkpoint.step + 1 if scope.checkpoint else 0)
    event.node = scope.task.node if scope.task else None
    event.task = scope.task
    event.attempt = scope.attempt.number if scope.attempt is not None else 1
    return event


# -- warnings about a run as a whole
#
# Warnings about incomplete joins and about questions that cannot be answered are issued when the run is idle and
# everything is saved, so that a program that turns warnings into errors loses no data.

_unresumable: Final[WeakSet[Program]] = WeakSet()
"""The graphs for which it was warned that questions cannot be answered."""
_unknown_fields: Final[WeakKeyDictionary[Program, set[str]]] = WeakKeyDictionary()
"""By graph: the unknown saved fields about which a warning was issued."""


def describe_unfinished_join(join: JoinEdge, arrived: Iterable[str]) -> str:
    """Describe an incomplete join edge. `arrived` has the sources that have run."""
    reached = [start for start in join.starts if start in set(arrived)]
    missing = [start for start in join.starts if start not in reached]
    return f"{list(join.starts)} -> {join.end!r}: {_quote_names(reached)} arrived, {_quote_names(missing)} did not"


def warn_unfinished(program: Program, joins: Iterable[str]) -> None:
    """Log and warn about joins that are incomplete at the end of a run. `joins` has their descriptions."""
    import logging  # here, because few runs need it

    graph = program.graph.name
    for join in joins:
        logging.getLogger("statewright").warning("Graph %r ended with an unfinished join edge %s.", graph, join)
        warnings.warn(
            f"Graph {graph!r} ended before a join edge was complete, so its target did not run: {join}. Make every "
            f"path lead to the join, or use plain edges and join='reachable', which waits only for nodes that can "
            f"still run.",
            UnfinishedJoinWarning,
            stacklevel=2,
        )


def warn_unresumable(program: Program) -> None:
    """Warn, once per graph, that a run that waits cannot be resumed, because nothing is saved."""
    if program in _unresumable:
        return
    _unresumable.add(program)
    warnings.warn(
        f"Graph {program.graph.name!r} waits for an answer, but the run cannot be resumed without a checkpointer. "
        f"Compile it with one, e.g. compile(checkpointer=InMemorySaver()), and call it with a thread_id.",
        NoCheckpointerWarning,
        stacklevel=2,
    )


def warn_unknown_field(program: Program, name: str, problem: str) -> None:
    """Warn, once per graph and field, that a saved value is no longer read."""
    warned = _unknown_fields.setdefault(program, set())
    if name in warned:
        return
    warned.add(name)
    warnings.warn(
        f"A saved thread does not fit graph {program.graph.name!r}: {problem} Its value stays saved, but no node "
        f"sees it. If the field was renamed, give the graph a version and a migration; if it was removed, pass "
        f"unknown_keys='drop' to compile().",
        UnknownKeyWarning,
        stacklevel=2,
    )


def warn_hidden_messages(program: Program, node: str) -> None:
    """Warn a reader of the stream mode `messages` that all messages were left out: they come from a subgraph."""
    warnings.warn(
        f"The stream of graph {program.graph.name!r} contains no messages, although a model in the subgraph {node!r} "
        f"has produced some. Stream with subgraphs=True to see the messages of subgraphs, or give the node "
        f"metadata={{'transparent': True}} to see them as its own.",
        HiddenMessagesWarning,
        stacklevel=4,
    )


def _quote_names(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
