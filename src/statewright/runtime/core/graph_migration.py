"""Resume threads that another version of the graph has saved: migrate them, or refuse them with a reason.

Renamed nodes list their former names in `aliases`; states are changed by the graph's migrations. Everything in a
checkpoint that names a node is renamed: tasks, arrivals at joins, saved results and their targets, senders, and the
nodes that ran last. If something still does not fit after that, GraphVersionMismatch names it. A thread is never
finished silently because its nodes are gone.

A name that is a node of this graph means that node, even if it is also an alias of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from statewright.channels import copy_fields
from statewright.checkpoint import (
    Checkpoint,
    DeferredTask,
    Joins,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
    TimedTask,
)
from statewright.errors import GraphVersionMismatch, suggestion
from statewright.graph import Graph, JoinEdge, NodeError, Send
from statewright.graph.command import RESERVED
from statewright.runtime.core.events import warn_unknown_field
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program


def fit_to_graph(program: Program, saved: SavedCheckpoint) -> SavedCheckpoint:
    """Return the saved thread as this version of the graph would have saved it. Raises GraphVersionMismatch."""
    graph = program.graph
    checkpoint = saved.checkpoint
    same_version = saved.graph_version == graph.version
    if same_version and not checkpoint.values.keys() <= program.channels.keys():
        _refuse_or_warn(program, saved)
    if same_version and _names_known_nodes(program, saved):
        return saved
    renaming = _Renaming(program)
    values = checkpoint.values if same_version else _migrated(graph, saved)
    fitting = Checkpoint(
        checkpoint.id,
        checkpoint.step,
        values,
        tuple(map(renaming.task, checkpoint.frontier)),
        tuple(map(renaming.deferred, checkpoint.held)),
        renaming.joins(checkpoint.joins),
        checkpoint.reported,
    )
    pending = renaming.pending(saved.pending)
    problems = [*_problems(program, fitting, pending), *renaming.problems]
    if problems:
        raise GraphVersionMismatch(
            saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
        )
    metadata = {**saved.metadata, "nodes": [renaming.node(name) for name in saved.metadata.get("nodes", ())]}
    return replace(saved, checkpoint=fitting, pending=pending, metadata=metadata)


def _refuse_or_warn(program: Program, saved: SavedCheckpoint) -> None:
    """Warn of saved fields that the state does not have any more, or raise GraphVersionMismatch (unknown_keys="error").

    They stay in the checkpoints, but no node sees them: most often a field was renamed.
    """
    graph, unknown_keys = program.graph, program.unknown_keys
    if not graph.schema.closed or unknown_keys == "drop":
        return
    unknown = sorted(saved.checkpoint.values.keys() - program.channels.keys())
    if unknown_keys == "error":
        problems = [_unknown_field(program, name) for name in unknown]
        raise GraphVersionMismatch(
            saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
        )
    for name in unknown:
        warn_unknown_field(program, name, _unknown_field(program, name))


def _unknown_field(program: Program, name: str) -> str:
    return f"The state holds {name!r}, which is not a field. {suggestion(name, program.channels, noun='Fields')}"


def _names_known_nodes(program: Program, saved: SavedCheckpoint) -> bool:
    """Return whether this graph has every node and every join that the checkpoint names."""
    nodes, checkpoint = program.nodes, saved.checkpoint
    for task in checkpoint.frontier:
        if task.node not in nodes:
            return False
    for name in saved.metadata.get("nodes", ()):
        if name not in nodes:
            return False
    if checkpoint.joins and not checkpoint.joins.keys() <= program.join_keys:
        return False
    if not all(deferred.task.node in nodes and _has_sender(program, deferred) for deferred in checkpoint.held):
        return False
    results = saved.pending.completed.values()
    return all(name in nodes or name in RESERVED for result in results for name in _target_nodes(result))


def _has_sender(program: Program, deferred: DeferredTask) -> bool:
    """Return False if the order of a gathered argument depends on a node that does not exist."""
    return not deferred.gather or deferred.sender in program.nodes


def _target_nodes(result: TaskResult) -> Iterator[str]:
    """Return the target nodes of a result, without those that a Command for the parent graph names."""
    for target in result.targets:
        if type(target) is Send:
            yield target.node
        elif type(target) is str:
            yield target


def _migrated(graph: Graph, saved: SavedCheckpoint) -> dict[str, Any]:
    """Return the state after all migrations from its version to that of the graph."""
    values, version, seen = copy_fields(saved.checkpoint.values), saved.graph_version, set[str | None]()
    while version != graph.version and version in graph.migrations:
        if version in seen:
            problems = [f"The migrations lead from version {version!r} to itself."]
            raise GraphVersionMismatch(
                saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
            )
        seen.add(version)
        migration = graph.migrations[version]
        values, version = dict(migration.change(values)), migration.to_version
    return values


def _problems(program: Program, checkpoint: Checkpoint, pending: Pending) -> Iterable[str]:
    """Return the parts of a checkpoint that do not fit the graph."""
    channels, held = program.channels, checkpoint.held
    waiting = [deferred.task for deferred in held]
    for name in _unknown(program, (task.node for task in (*checkpoint.frontier, *waiting))):
        yield f"Node {name!r} is due, but does not exist. {_suggestion(program, name)}"
    for name in sorted({deferred.sender for deferred in held if not _has_sender(program, deferred)}):
        hint = _suggestion(program, name)
        yield f"Node {name!r} has sent a value that is still to be gathered, but does not exist. {hint}"
    results = pending.completed.values()
    for name in _unknown(program, (name for result in results for name in _target_nodes(result))):
        sources = ", ".join(sorted({repr(result.task.node) for result in results if name in _target_nodes(result)}))
        yield f"The saved result of {sources} leads to {name!r}, which does not exist. {_suggestion(program, name)}"
    if not program.graph.schema.closed:
        return
    for name in sorted(set(checkpoint.values) - channels.keys()):
        yield _unknown_field(program, name)
    if checkpoint.at_rest:
        return
    updates = (*checkpoint.reported, *(pair for result in results for pair in pairs_of(result)))
    for name in sorted({name for name, _ in updates} - channels.keys() - set(checkpoint.values)):
        yield f"A saved result writes {name!r}, which is not a field. {suggestion(name, channels, noun='Fields')}"


def _unknown(program: Program, names: Iterable[str]) -> list[str]:
    nodes = program.nodes
    return sorted({name for name in names if name not in nodes and name not in RESERVED})


def _suggestion(program: Program, name: str) -> str:
    return suggestion(name, program.graph.nodes, noun="Nodes")


class _Renaming:
    """Renames nodes in data saved by a former version of the graph, and collects the joins that are gone."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._joins = {(frozenset(join.starts), join.end): join.key for join in program.graph.joins}
        self.problems: list[str] = []

    def node(self, name: str) -> str:
        return self._program.current_name(name)

    def joins(self, joins: Joins) -> Joins:
        renamed: dict[str, frozenset[str]] = {}
        for key, arrived in joins.items():
            edge = JoinEdge.from_key(key)
            starts, end = tuple(map(self.node, edge.starts)), self.node(edge.end)
            current = self._joins.get((frozenset(starts), end))
            if current is None:
                self.problems.append(_lost_join(self._program, edge, arrived))
            else:
                renamed[current] = frozenset(map(self.node, arrived))
        return renamed

    def task(self, task: Task) -> Task:
        name = self.node(task.node)
        if name == task.node:
            return task
        arg = task.arg
        if isinstance(arg, NodeError):  # the argument of an error handler names the node that failed
            arg = NodeError(self.node(arg.node), arg.error, arg.input)
        if type(task) is TimedTask:
            return TimedTask(name, arg, task.origin, task.position, task.timeout)
        return Task(name, arg, task.origin, task.position)

    def deferred(self, deferred: DeferredTask) -> DeferredTask:
        return DeferredTask(self.task(deferred.task), gather=deferred.gather, sender=self.node(deferred.sender))

    def pending(self, pending: Pending) -> Pending:
        if not pending.completed:
            return pending
        results = {task_id: self._result(result) for task_id, result in pending.completed.items()}
        return replace(pending, completed=results)

    def _result(self, result: TaskResult) -> TaskResult:
        targets = [renamed_target(self._program, target) for target in result.targets]
        return TaskResult(self.task(result.task), result.writes, targets, goto=result.goto)


def renamed_target(program: Program, target: Any) -> Any:
    """Return a saved target with the present name of its node."""
    if type(target) is Send:
        name = program.current_name(target.node)
        return target if name == target.node else Send(name, target.arg, gather=target.gather, timeout=target.timeout)
    return program.current_name(target) if type(target) is str else target


def leads_to_nodes(program: Program, targets: Iterable[Any]) -> bool:
    """Return whether every saved target, renamed if necessary, is a node of this graph."""
    names = (target.node if type(target) is Send else target for target in targets)
    return not _unknown(program, (program.current_name(name) for name in names if type(name) is str))


def _lost_join(program: Program, edge: JoinEdge, arrived: Iterable[str]) -> str:
    """Describe an incomplete join that this graph does not have."""
    gone = _unknown(program, map(program.current_name, (*edge.starts, edge.end)))
    sources = ", ".join(map(repr, sorted(arrived)))
    lost = f"The join edge {list(edge.starts)} -> {edge.end!r} was reached by {sources}, but does not exist. "
    return lost + " ".join(f"Node {name!r} does not exist: {_suggestion(program, name)}" for name in gone)
