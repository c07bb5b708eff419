"""Saved checkpoints as users see them, those of subgraphs included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from statewright.checkpoint import BranchKey, Checkpointer, Interrupt, Pending, SavedCheckpoint, Task
from statewright.errors import InvalidConfig, suggestion
from statewright.futures import resolve
from statewright.graph import Graph
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program, readable
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.carry import find_callers

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    ValuesT = TypeParameter("ValuesT", default=Any, covariant=True)
else:
    ValuesT = TypeVar("ValuesT", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSnapshot:
    """A task that was due at a checkpoint."""

    id: str
    name: str
    result: Mapping[str, Any] | None
    """Its writes, if it had a result while other tasks had none."""
    error: str | None
    interrupts: tuple[Interrupt, ...]
    """Its questions that are still open."""
    state: StateSnapshot | None = None
    """The state of its subgraph, if it is one, has begun, and was requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSnapshot(Generic[ValuesT]):
    """A thread at one checkpoint."""

    values: ValuesT
    next: tuple[str, ...]
    """The nodes that are due or wait, without those that have landed."""
    config: Mapping[str, Any]
    """Pass it to any call to start from this checkpoint."""
    metadata: Mapping[str, Any]
    """`source`, `step`, `run_id`, `branch`, the `nodes` that ran, and what the run discarded."""
    created_at: datetime | None
    parent_config: Mapping[str, Any] | None
    tasks: tuple[TaskSnapshot, ...]
    interrupts: tuple[Interrupt, ...]
    """Every open question, in task order."""


def snapshot_of(program: Program, saved: SavedCheckpoint) -> StateSnapshot:
    """Return the snapshot of a saved checkpoint for users."""
    checkpoint, pending = saved.checkpoint, saved.pending
    due = [*checkpoint.frontier, *(held.task for held in checkpoint.held)]
    return StateSnapshot(
        values=program.output(checkpoint.values),
        next=tuple(task.node for task in due if task.id not in pending.completed),
        config=config_of(saved, saved.id),
        metadata={
            **saved.metadata,
            "source": saved.source,
            "step": checkpoint.step,
            "run_id": saved.run_id,
            "branch": saved.line.branch,
        },
        created_at=saved.created_at,
        parent_config=config_of(saved, saved.parent_id) if saved.parent_id else None,
        tasks=tuple(_task(task, saved) for task in due),
        interrupts=tuple(question.shown() for question in pending.open),
    )


def empty_snapshot(program: Program, config: Mapping[str, Any]) -> StateSnapshot:
    """Return the snapshot of a thread without a checkpoint."""
    return StateSnapshot(
        values=program.output({}),
        next=(),
        config=config,
        metadata={},
        created_at=None,
        parent_config=None,
        tasks=(),
        interrupts=(),
    )


def config_of(saved: SavedCheckpoint, checkpoint_id: str) -> dict[str, Any]:
    """The config that names a checkpoint of the same line."""
    named = {"thread_id": saved.line.thread_id, "checkpoint_id": checkpoint_id, "branch": saved.line.branch}
    if saved.line.namespace:
        named["namespace"] = saved.line.namespace
    return {"configurable": named}


def _task(task: Task, saved: SavedCheckpoint) -> TaskSnapshot:
    pending = saved.pending
    landed = pending.completed.get(task.id)
    return TaskSnapshot(
        id=task.id,
        name=task.node,
        result={name: readable(update) for name, update in pairs_of(landed)} if landed is not None else None,
        error=pending.errors.get(task.id),
        interrupts=tuple(question.shown() for question in pending.open_of(task.id)),
    )


# -- subgraphs, found by the path of nodes that leads to them, and shown with the tasks that called them


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


def renew_questions_around(run: Run, before: SavedCheckpoint | None) -> None:
    """Update the questions of the tasks around a subgraph that was changed from outside.

    Where it asks nothing any more they run again. `before` is its head before the change.
    """
    saver, line = cast(Checkpointer, run.saver), cast(BranchKey, run.line)
    callers = perform_all(run, find_callers(line))
    now = _head_of(run, line.namespace)
    if callers is None or now is None:
        return
    asked_before = {one.id for one in _asked_at(before)} if before is not None else set[str]()
    asked_now = _asked_at(now)
    for head, task in callers:
        others = [one for one in head.pending.interrupts.get(task.id, ()) if one.id not in asked_before]
        known = Pending(interrupts={task.id: (*others, *asked_now)})
        resolve(saver.save_results(head.line, head.id, known))


def _asked_at(saved: SavedCheckpoint) -> Sequence[Interrupt]:
    """The questions of the tasks of a checkpoint, answered or not."""
    return [one for questions in saved.pending.interrupts.values() for one in questions]


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
        if saved is not None and not saved.metadata.get("reset"):
            state = snapshot_of(inside.program, saved)
            tasks: Sequence[TaskSnapshot] = [_with_state(run, inside.graph, own, one) for one in state.tasks]
            return replace(task, state=replace(state, tasks=tuple(tasks)))
    return task


def _head_of(run: Run, namespace: str) -> SavedCheckpoint | None:
    """The head of a namespace on the branch of the run."""
    line = cast(BranchKey, run.line)
    return resolve(cast(Checkpointer, run.saver).load(line.thread_id, namespace=namespace, branch=line.branch))
