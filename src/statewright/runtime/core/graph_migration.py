"""Threads that another version of a graph has saved: fitted to this one, or refused, never finished in silence.

Nodes that were renamed say so with `aliases`; states are changed by the graph's migrations. Everything in a
checkpoint that names a node follows: tasks, arrivals at joins, saved results and where they lead, senders, the nodes
that ran last. What then still does not fit is a GraphVersionMismatch that names it.

A name that is a node of this graph is that node, even if another one has it as an alias.
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
from statewright.graph import END, START, STOP, Graph, JoinEdge, NodeError, Send
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program
from statewright.runtime.core.run_warnings import warn_unknown_field

PLACES = frozenset((START, END, STOP))
"""Where targets may lead besides nodes."""


def fitted(program: Program, saved: SavedCheckpoint) -> SavedCheckpoint:
    """What was saved, as this version of the graph would have saved it. Raises GraphVersionMismatch if that fails."""
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
        tuple(map(renaming.held, checkpoint.held)),
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
    """Warn of saved fields that the state does not have any more; raise GraphVersionMismatch where keys are strict.

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
    return f"The state holds {name!r}, which is no field. {suggestion(name, program.channels, noun='Fields')}"


def _names_known_nodes(program: Program, saved: SavedCheckpoint) -> bool:
    """True if every node that the checkpoint names, and every join, is one of this graph."""
    nodes, checkpoint = program.nodes, saved.checkpoint
    for task in checkpoint.frontier:
        if task.node not in nodes:
            return False
    for name in saved.metadata.get("nodes", ()):
        if name not in nodes:
            return False
    if checkpoint.joins and not checkpoint.joins.keys() <= program.join_keys:
        return False
    if checkpoint.held and not all(one.task.node in nodes and _is_sender(program, one) for one in checkpoint.held):
        return False
    landed = saved.pending.completed
    return not landed or all(name in nodes or name in PLACES for result in landed.values() for name in _led_to(result))


def _is_sender(program: Program, held: DeferredTask) -> bool:
    """True unless the order of a gathered argument depends on a node that does not exist."""
    return not held.gather or held.sender in program.nodes


def _led_to(result: TaskResult) -> Iterator[str]:
    """The names of the nodes where a result leads; a Command for the parent graph names nodes of that one."""
    for target in result.targets:
        if type(target) is Send:
            yield target.node
        elif type(target) is str:
            yield target


def _migrated(graph: Graph, saved: SavedCheckpoint) -> dict[str, Any]:
    """The state after every migration from its version to that of the graph."""
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
    """What does not fit the graph."""
    channels, held = program.channels, checkpoint.held
    for name in _unknown(program, (task.node for task in (*checkpoint.frontier, *(one.task for one in held)))):
        yield f"Node {name!r} is due, and there is none. {_suggested(program, name)}"
    for name in sorted({one.sender for one in held if not _is_sender(program, one)}):
        yield f"Node {name!r} has sent what is still to be gathered, and there is none. {_suggested(program, name)}"
    landed = pending.completed.values()
    for name in _unknown(program, (name for result in landed for name in _led_to(result))):
        sources = ", ".join(sorted({repr(one.task.node) for one in landed if name in _led_to(one)}))
        yield f"The saved result of {sources} leads to {name!r}, and there is none. {_suggested(program, name)}"
    if not program.graph.schema.closed:
        return
    for name in sorted(set(checkpoint.values) - channels.keys()):
        yield _unknown_field(program, name)
    if checkpoint.at_rest:
        return
    updates = (*checkpoint.reported, *(pair for result in landed for pair in pairs_of(result)))
    for name in sorted({name for name, _ in updates} - channels.keys() - set(checkpoint.values)):
        yield f"A saved result writes {name!r}, which is no field. {suggestion(name, channels, noun='Fields')}"


def _unknown(program: Program, names: Iterable[str]) -> list[str]:
    nodes = program.nodes
    return sorted({name for name in names if name not in nodes and name not in PLACES})


def _suggested(program: Program, name: str) -> str:
    return suggestion(name, program.graph.nodes, noun="Nodes")


class _Renaming:
    """Gives what a former version of a graph has saved the names of this one; collects the joins that are gone."""

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
        if isinstance(arg, NodeError):  # of an error handler: it says which node failed
            arg = NodeError(self.node(arg.node), arg.error, arg.input)
        if type(task) is TimedTask:
            return TimedTask(name, arg, task.origin, task.position, task.timeout)
        return Task(name, arg, task.origin, task.position)

    def held(self, held: DeferredTask) -> DeferredTask:
        return DeferredTask(self.task(held.task), gather=held.gather, sender=self.node(held.sender))

    def pending(self, pending: Pending) -> Pending:
        if not pending.completed:
            return pending
        landed = {key: self._result(result) for key, result in pending.completed.items()}
        return replace(pending, completed=landed)

    def _result(self, result: TaskResult) -> TaskResult:
        return TaskResult(self.task(result.task), result.writes, self.targets(result.targets), goto=result.goto)

    def targets(self, targets: Sequence[Any]) -> list[Any]:
        return [renamed_target(self._program, target) for target in targets]


def renamed_target(program: Program, target: Any) -> Any:
    """A target that was saved, with the present name of its node."""
    if type(target) is Send:
        name = program.current_name(target.node)
        return target if name == target.node else Send(name, target.arg, gather=target.gather, timeout=target.timeout)
    return program.current_name(target) if type(target) is str else target


def leads_to_nodes(program: Program, targets: Iterable[Any]) -> bool:
    """True if every target that was saved, some of which may be renamed since, is a node of this graph."""
    names = (target.node if type(target) is Send else target for target in targets)
    return not _unknown(program, (program.current_name(name) for name in names if type(name) is str))


def _lost_join(program: Program, edge: JoinEdge, arrived: Iterable[str]) -> str:
    """The problem with a half-reached join that this graph does not have."""
    gone = _unknown(program, map(program.current_name, (*edge.starts, edge.end)))
    who = ", ".join(map(repr, sorted(arrived)))
    lost = f"The join edge {list(edge.starts)} -> {edge.end!r} was reached by {who}, and there is none. "
    return lost + " ".join(f"There is no node {name!r}: {_suggested(program, name)}" for name in gone)
