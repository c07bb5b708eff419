"""Threads that another version of a graph has saved, made to fit this one, or refused: never finished in silence.

Nodes that were renamed say so with `aliases`; states are changed by the graph's migrations. What then still does not
fit is a GraphVersionMismatch that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from statewright.channels import copy_fields
from statewright.checkpoint import Checkpoint, Held, Pending, SavedCheckpoint, Task, TaskResult, TimedTask
from statewright.errors import GraphVersionMismatch, suggestion
from statewright.graph import END, START, STOP, Graph, Send
from statewright.runtime.program import HANDLER_SUFFIX, Program


def fitted(program: Program, saved: SavedCheckpoint) -> SavedCheckpoint:
    """What was saved, as this version of the graph would have saved it. Raises GraphVersionMismatch if that fails."""
    graph = program.graph
    checkpoint = saved.checkpoint
    known = program.nodes
    same_version = saved.graph_version == graph.version
    if same_version and all(task.node in known for task in (*checkpoint.frontier, *_held(checkpoint))):
        return saved
    renamed = _Renaming(graph)
    values = checkpoint.values if same_version else _migrated(graph, saved)
    fitting = Checkpoint(
        checkpoint.id,
        checkpoint.step,
        values,
        tuple(map(renamed.task, checkpoint.frontier)),
        tuple(map(renamed.held, checkpoint.held)),
        {renamed.join(key): frozenset(map(renamed.node, arrived)) for key, arrived in checkpoint.joins.items()},
        checkpoint.reported,
    )
    problems = list(_problems(program, fitting))
    if problems:
        raise GraphVersionMismatch(
            saved.line.thread_id, graph.name, problems, found=saved.graph_version, version=graph.version
        )
    metadata = {**saved.metadata, "nodes": [renamed.node(name) for name in saved.metadata.get("nodes", ())]}
    return replace(saved, checkpoint=fitting, pending=renamed.pending(saved.pending), metadata=metadata)


def _held(checkpoint: Checkpoint) -> Iterable[Task]:
    return (one.task for one in checkpoint.held)


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


def _problems(program: Program, checkpoint: Checkpoint) -> Iterable[str]:
    """What does not fit the graph."""
    nodes, channels = program.nodes, program.channels
    due = sorted({task.node for task in (*checkpoint.frontier, *_held(checkpoint))})
    for name in due:
        if name not in nodes:
            yield f"Node {name!r} is due, and there is none. {suggestion(name, program.graph.nodes, noun='Nodes')}"
    if program.graph.schema.closed:
        for name in sorted(set(checkpoint.values) - channels.keys()):
            yield f"The state holds {name!r}, which is no field. {suggestion(name, channels, noun='Fields')}"


class _Renaming:
    """What the names of a graph's former version are in this one."""

    def __init__(self, graph: Graph) -> None:
        former = {alias: node.name for node in graph.nodes.values() for alias in node.aliases}
        handlers = {alias + HANDLER_SUFFIX: name + HANDLER_SUFFIX for alias, name in former.items()}
        self._names: Mapping[str, str] = {**former, **handlers}
        self._joins = {_former_key(join, self._names): join.key for join in graph.joins} if former else {}

    def node(self, name: str) -> str:
        return self._names.get(name, name)

    def join(self, key: str) -> str:
        return self._joins.get(key, key)

    def task(self, task: Task) -> Task:
        name = self.node(task.node)
        if name == task.node:
            return task
        if type(task) is TimedTask:
            return TimedTask(name, task.arg, task.origin, task.position, task.timeout)
        return Task(name, task.arg, task.origin, task.position)

    def held(self, held: Held) -> Held:
        return Held(self.task(held.task), gather=held.gather, sender=self.node(held.sender))

    def pending(self, pending: Pending) -> Pending:
        landed = {key: self._result(result) for key, result in pending.landed.items()}
        return replace(pending, landed=landed)

    def _result(self, result: TaskResult) -> TaskResult:
        targets = [self._target(target) for target in result.targets]
        return TaskResult(self.task(result.task), result.writes, targets, goto=result.goto)

    def _target(self, target: Any) -> Any:
        if isinstance(target, Send):
            return Send(self.node(target.node), target.arg, gather=target.gather, timeout=target.timeout)
        return target if target in (START, END, STOP) else self.node(target)


def _former_key(join: Any, names: Mapping[str, str]) -> str:
    """The key of a join edge when its nodes had their former names."""
    former = {name: alias for alias, name in names.items()}
    starts = tuple(former.get(start, start) for start in join.starts)
    return type(join)(starts, former.get(join.end, join.end)).key
