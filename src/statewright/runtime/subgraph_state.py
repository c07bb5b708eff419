"""The states of subgraphs: found by the path of nodes that leads to them, shown with the tasks that called them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from statewright.checkpoint import Checkpointer, Line, Pending, SavedCheckpoint
from statewright.errors import InvalidConfig, suggestion
from statewright.graph import Graph
from statewright.promise import resolved
from statewright.runtime.program import Program
from statewright.runtime.run import Run
from statewright.runtime.snapshot import StateSnapshot, TaskSnapshot, snapshot_of


class HasProgram(Protocol):
    """A compiled graph, as far as its state is concerned."""

    @property
    def graph(self) -> Graph: ...
    @property
    def program(self) -> Program: ...


def subgraphs_of(graph: Graph, *, recurse: bool, path: str = "") -> Iterator[tuple[str, Any]]:
    """The graphs that are nodes of a graph, with their paths."""
    for node in graph.nodes.values():
        if node.is_subgraph:
            inside = cast(Any, node.action)
            name = f"{path}|{node.name}" if path else node.name
            yield name, inside
            if recurse:
                yield from subgraphs_of(inside.graph, recurse=True, path=name)


def node_path(namespace: str) -> str:
    """The nodes on the way to a namespace, without the tasks."""
    return "|".join(segment.partition(":")[0] for segment in namespace.split("|"))


def graph_at(graph: Graph, namespace: str) -> Any:
    """The compiled graph that runs in a namespace. Raises InvalidConfig if none does."""
    known = dict(subgraphs_of(graph, recurse=True))
    path = node_path(namespace)
    if path not in known:
        raise InvalidConfig(
            f"The namespace {namespace!r} leads to no subgraph that is a node. " + suggestion(path, known, noun="Paths")
        )
    return known[path]


def callers_run_again(run: Run) -> None:
    """Let the tasks that wait for a subgraph run again: it was changed from outside, and may not ask any more."""
    saver, line = cast(Checkpointer, run.saver), cast(Line, run.line)
    segments = line.namespace.split("|")
    for depth in range(len(segments)):
        outer = line._replace(namespace="|".join(segments[:depth]))
        node, _, identity = segments[depth].partition(":")
        head: SavedCheckpoint | None = resolved(
            saver.load(outer.thread_id, namespace=outer.namespace, branch=outer.branch)
        )
        if head is not None:
            callers = [
                one.id for one in head.checkpoint.frontier if one.node == node and one.id in (identity or one.id)
            ]
            resolved(saver.save_results(outer, head.id, Pending(interrupts=dict.fromkeys(callers, ()))))


def with_subgraphs(run: Run, snapshot: StateSnapshot) -> StateSnapshot:
    """The snapshot with the states of subgraphs in the tasks that called them."""
    return replace(snapshot, tasks=tuple(_with_state(run, run.program.graph, run.namespace, t) for t in snapshot.tasks))


def _with_state(run: Run, graph: Graph, namespace: str, task: TaskSnapshot) -> TaskSnapshot:
    node = graph.nodes.get(task.name)
    if node is None or not node.is_subgraph:
        return task
    inside = cast(HasProgram, node.action)
    segment = node.name if node.memory == "thread" else f"{node.name}:{task.id}"
    own = f"{namespace}|{segment}" if namespace else segment
    line = cast(Line, run.line)
    found: SavedCheckpoint | None = resolved(
        cast(Checkpointer, run.saver).load(line.thread_id, namespace=own, branch=line.branch)
    )
    if found is None:
        return task
    state = snapshot_of(inside.program, found)
    tasks: Sequence[TaskSnapshot] = [_with_state(run, inside.graph, own, one) for one in state.tasks]
    return replace(task, state=replace(state, tasks=tuple(tasks)))
