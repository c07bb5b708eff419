"""Migrate threads that another version of the graph has saved, or reject them with a list of reasons.

The migrations of the graph change the saved state. A renamed node has its former names as `aliases`, and every former
name in a checkpoint is replaced by the current name: in tasks, arrivals at joins, saved results and their targets,
senders, and the nodes that ran last. If something does not fit after that, GraphVersionMismatch lists it, because a
thread must not end silently just because its nodes have been removed.

If the current name of one node is also an alias of another, it refers to the node that has it as its current name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from statewright.runtime.core.fold import write_pairs
from statewright.runtime.core.program import Program


def migrate_to_graph(program: Program, saved: SavedCheckpoint) -> SavedCheckpoint:
    """Return a saved checkpoint as this version of the graph would have saved it. Raises GraphVersionMismatch."""
    graph = program.graph
    checkpoint = saved.checkpoint
    same_version = saved.graph_version == graph.version
    if same_version and not checkpoint.values.keys() <= program.channels.keys():
        _handle_unknown_fields(program, saved)
    if same_version and _has_all_nodes(program, saved):
        return saved
    renamer = _NodeRenamer(program)
    values = checkpoint.values if same_version else _apply_migrations(graph, saved)
    migrated = Checkpoint(
        checkpoint.id,
        checkpoint.step,
        values,
        tuple(map(renamer.rename_task, checkpoint.frontier)),
        tuple(map(renamer.rename_deferred, checkpoint.deferred)),
        renamer.rename_joins(checkpoint.joins),
        checkpoint.reported,  # the updates that a subgraph passes to its caller
    )
    pending = renamer.rename_pending(saved.pending)
    problems = [*_find_problems(program, migrated, pending), *renamer.problems]
    if problems:
        raise _mismatch(graph, saved, problems)
    metadata = {**saved.metadata, "nodes": [renamer.rename_node(name) for name in saved.metadata.get("nodes", ())]}
    return replace(saved, checkpoint=migrated, pending=pending, metadata=metadata)


def _mismatch(graph: Graph, saved: SavedCheckpoint, problems: Sequence[str]) -> GraphVersionMismatch:
    return GraphVersionMismatch(
        saved.branch_key.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
    )


def _handle_unknown_fields(program: Program, saved: SavedCheckpoint) -> None:
    """Warn about saved fields that the state does not have now. With unknown_keys="error", raise GraphVersionMismatch.

    Usually the field was renamed: the value stays in the checkpoints, but no node sees it.
    """
    graph, unknown_keys = program.graph, program.unknown_keys
    if not graph.schema.closed or unknown_keys == "drop":
        return
    unknown = sorted(saved.checkpoint.values.keys() - program.channels.keys())
    if unknown_keys == "error":
        raise _mismatch(graph, saved, [_describe_unknown_field(program, name) for name in unknown])
    for name in unknown:
        warn_unknown_field(program, name, _describe_unknown_field(program, name))


def _describe_unknown_field(program: Program, name: str) -> str:
    return f"The state holds {name!r}, which is not a field. {suggestion(name, program.channels, noun='Fields')}"


def _has_all_nodes(program: Program, saved: SavedCheckpoint) -> bool:
    """Return whether the graph has every node and every join that the checkpoint or a saved result names."""
    nodes, checkpoint = program.nodes, saved.checkpoint
    for task in checkpoint.frontier:
        if task.node not in nodes:
            return False
    for name in saved.metadata.get("nodes", ()):
        if name not in nodes:
            return False
    if checkpoint.joins and not checkpoint.joins.keys() <= program.join_keys:
        return False
    if not all(deferred.task.node in nodes and _has_sender(program, deferred) for deferred in checkpoint.deferred):
        return False
    results = saved.pending.completed.values()
    return all(name in nodes or name in RESERVED for result in results for name in _target_nodes(result))


def _has_sender(program: Program, deferred: DeferredTask) -> bool:
    """Return False if a Send with `gather=True` comes from a node that does not exist.

    Gathered values are ordered by sender, so the sender must be known.
    """
    return not deferred.gather or deferred.sender in program.nodes


def _target_nodes(result: TaskResult) -> Iterator[str]:
    """Yield the target nodes of a result in this graph. Targets of Commands for the calling graph are omitted."""
    for target in result.targets:
        if type(target) is Send:
            yield target.node
        elif type(target) is str:
            yield target


def _apply_migrations(graph: Graph, saved: SavedCheckpoint) -> dict[str, Any]:
    """Return the state after all migrations from its saved version to the version of the graph."""
    values, version, seen = copy_fields(saved.checkpoint.values), saved.graph_version, set[str | None]()
    while version != graph.version and version in graph.migrations:
        if version in seen:
            problem = f"The migrations form a cycle: they lead from version {version!r} back to it."
            raise _mismatch(graph, saved, [problem])
        seen.add(version)
        migration = graph.migrations[version]
        values, version = dict(migration.change(values)), migration.to_version
    return values


def _find_problems(program: Program, checkpoint: Checkpoint, pending: Pending) -> Iterable[str]:
    """Yield a description of each part of a checkpoint that does not fit the graph."""
    channels, deferred_tasks = program.channels, checkpoint.deferred
    waiting = [deferred.task for deferred in deferred_tasks]
    for name in _unknown_nodes(program, (task.node for task in (*checkpoint.frontier, *waiting))):
        yield f"Node {name!r} is due, but does not exist. {_suggest_node(program, name)}"
    for name in sorted({deferred.sender for deferred in deferred_tasks if not _has_sender(program, deferred)}):
        hint = _suggest_node(program, name)
        yield f"Node {name!r} sent a value that has not been gathered yet, but this node does not exist. {hint}"
    results = pending.completed.values()
    for name in _unknown_nodes(program, (name for result in results for name in _target_nodes(result))):
        sources = ", ".join(sorted({repr(result.task.node) for result in results if name in _target_nodes(result)}))
        yield f"The saved result of {sources} leads to {name!r}, which does not exist. {_suggest_node(program, name)}"
    if not program.graph.schema.closed:
        return
    for name in sorted(set(checkpoint.values) - channels.keys()):
        yield _describe_unknown_field(program, name)
    if checkpoint.is_complete:
        return
    # `reported` has the updates that a subgraph passes to its caller.
    updates = (*checkpoint.reported, *(pair for result in results for pair in write_pairs(result)))
    for name in sorted({name for name, _ in updates} - channels.keys() - set(checkpoint.values)):
        yield f"A saved result writes {name!r}, which is not a field. {suggestion(name, channels, noun='Fields')}"


def _unknown_nodes(program: Program, names: Iterable[str]) -> list[str]:
    nodes = program.nodes
    return sorted({name for name in names if name not in nodes and name not in RESERVED})


def _suggest_node(program: Program, name: str) -> str:
    return suggestion(name, program.graph.nodes, noun="Nodes")


class _NodeRenamer:
    """Renames nodes in data that an earlier version of the graph has saved.

    `problems` has a description of each incomplete join that the graph does not have now.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._joins = {(frozenset(join.starts), join.end): join.key for join in program.graph.joins}
        self.problems: list[str] = []

    def rename_node(self, name: str) -> str:
        return self._program.current_name(name)

    def rename_joins(self, joins: Joins) -> Joins:
        renamed: dict[str, frozenset[str]] = {}
        for key, arrived in joins.items():
            edge = JoinEdge.from_key(key)
            starts, end = tuple(map(self.rename_node, edge.starts)), self.rename_node(edge.end)
            current = self._joins.get((frozenset(starts), end))
            if current is None:
                self.problems.append(_describe_lost_join(self._program, edge, arrived))
            else:
                renamed[current] = frozenset(map(self.rename_node, arrived))
        return renamed

    def rename_task(self, task: Task) -> Task:
        name = self.rename_node(task.node)
        if name == task.node:
            return task
        arg = task.arg
        if isinstance(arg, NodeError):  # the argument of an error handler names the node that failed
            arg = NodeError(self.rename_node(arg.node), arg.error, arg.input)
        if type(task) is TimedTask:
            return TimedTask(name, arg, task.origin, task.position, task.timeout)
        return Task(name, arg, task.origin, task.position)

    def rename_deferred(self, deferred: DeferredTask) -> DeferredTask:
        return DeferredTask(
            self.rename_task(deferred.task), gather=deferred.gather, sender=self.rename_node(deferred.sender)
        )

    def rename_pending(self, pending: Pending) -> Pending:
        if not pending.completed:
            return pending
        results = {task_id: self._rename_result(result) for task_id, result in pending.completed.items()}
        return replace(pending, completed=results)

    def _rename_result(self, result: TaskResult) -> TaskResult:
        targets = [renamed_target(self._program, target) for target in result.targets]
        return TaskResult(self.rename_task(result.task), result.writes, targets, goto=result.goto)


def renamed_target(program: Program, target: Any) -> Any:
    """Return a saved target, which is the name of a node or a Send, with the current name of the node."""
    if type(target) is Send:
        name = program.current_name(target.node)
        return target if name == target.node else Send(name, target.arg, gather=target.gather, timeout=target.timeout)
    return program.current_name(target) if type(target) is str else target


def leads_to_nodes(program: Program, targets: Iterable[Any]) -> bool:
    """Return whether every saved target is a node of the graph, under its current or a former name."""
    names = (target.node if type(target) is Send else target for target in targets)
    return not _unknown_nodes(program, (program.current_name(name) for name in names if type(name) is str))


def _describe_lost_join(program: Program, edge: JoinEdge, arrived: Iterable[str]) -> str:
    """Describe an incomplete join that the graph does not have now. `arrived` has the sources that have run."""
    missing = _unknown_nodes(program, map(program.current_name, (*edge.starts, edge.end)))
    sources = ", ".join(map(repr, sorted(arrived)))
    problem = f"The join edge {list(edge.starts)} -> {edge.end!r} was reached by {sources}, but does not exist. "
    return problem + " ".join(f"Node {name!r} does not exist: {_suggest_node(program, name)}" for name in missing)
