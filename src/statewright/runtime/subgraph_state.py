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
    inside: Any = None
    for name in node_path(namespace).split("|"):
        node = graph.nodes.get(_current_name(graph, name))
        if node is None or not node.is_subgraph:
            known = dict(subgraphs_of(graph, recurse=True))
            path = node_path(namespace)
            raise InvalidConfig(
                f"The namespace {namespace!r} leads to no subgraph that is a node. "
                + suggestion(path, known, noun="Paths")
            )
        inside = node.action
        graph = inside.graph
    return inside


def _current_name(graph: Graph, name: str) -> str:
    """The name of a node that a namespace may know by a former one."""
    if name in graph.nodes:
        return name
    return next((node.name for node in graph.nodes.values() if name in node.aliases), name)


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
    node = graph.nodes.get(_current_name(graph, task.name))
    if node is None or not node.is_subgraph:
        return task
    inside = cast(HasProgram, node.action)
    for name in (node.name, *node.aliases):
        segment = name if node.memory == "thread" else f"{name}:{task.id}"
        own = f"{namespace}|{segment}" if namespace else segment
        saved = _head_of(run, own)
        if saved is not None:
            state = snapshot_of(inside.program, saved)
            tasks: Sequence[TaskSnapshot] = [_with_state(run, inside.graph, own, one) for one in state.tasks]
            return replace(task, state=replace(state, tasks=tuple(tasks)))
    return task


def _head_of(run: Run, namespace: str) -> SavedCheckpoint | None:
    """The head of a namespace on the branch of the run."""
    line = cast(Line, run.line)
    return resolved(cast(Checkpointer, run.saver).load(line.thread_id, namespace=namespace, branch=line.branch))
