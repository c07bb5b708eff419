"""Snapshots: saved checkpoints in the form that users see, including those of subgraphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from statewright.checkpoint import BranchKey, Checkpointer, Interrupt, Pending, SavedCheckpoint, Task
from statewright.errors import InvalidConfig, suggestion
from statewright.futures import resolve
from statewright.graph import Graph
from statewright.runtime.core.fold import write_pairs
from statewright.runtime.core.program import Program, readable
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.subgraph_forks import find_callers

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
    """The writes of the task, if it has ended while other tasks of the superstep have not; None otherwise."""
    error: str | None
    interrupts: tuple[Interrupt, ...]
    """The open questions of the task."""
    state: StateSnapshot | None = None
    """The state of the subgraph, if the node is a subgraph whose call has begun, and `subgraphs=True` was passed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSnapshot(Generic[ValuesT]):
    """A thread at one checkpoint."""

    values: ValuesT
    next: tuple[str, ...]
    """The nodes of the due and deferred tasks that have no result yet, or all of them if only the results have still to
    be applied. It is empty if the thread is complete."""
    config: Mapping[str, Any]
    """The config with which a call starts from this checkpoint."""
    metadata: Mapping[str, Any]
    """`source`, `step`, `run_id`, `branch`, the `nodes` that ran, and the nodes that an input has `discarded`."""
    created_at: datetime | None
    parent_config: Mapping[str, Any] | None
    tasks: tuple[TaskSnapshot, ...]
    interrupts: tuple[Interrupt, ...]
    """Every open question, in task order."""


def snapshot_of(program: Program, saved: SavedCheckpoint) -> StateSnapshot:
    """Return the snapshot of a saved checkpoint."""
    checkpoint, pending = saved.checkpoint, saved.pending
    due = [*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred)]
    without_result = tuple(task.node for task in due if task.id not in pending.completed)
    return StateSnapshot(
        values=program.output(checkpoint.values),
        next=without_result or tuple(task.node for task in due),
        config=checkpoint_config(saved.branch_key, saved.id),
        metadata={
            **saved.metadata,
            "source": saved.source,
            "step": checkpoint.step,
            "run_id": saved.run_id,
            "branch": saved.branch_key.branch,
        },
        created_at=saved.created_at,
        parent_config=checkpoint_config(saved.branch_key, saved.parent_id) if saved.parent_id else None,
        tasks=tuple(_task_snapshot(task, saved) for task in due),
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


def checkpoint_config(branch_key: BranchKey, checkpoint_id: str) -> dict[str, Any]:
    """Return the config that names a checkpoint."""
    configurable = {"thread_id": branch_key.thread_id, "checkpoint_id": checkpoint_id, "branch": branch_key.branch}
    if branch_key.namespace:
        configurable["namespace"] = branch_key.namespace
    return {"configurable": configurable}


def _task_snapshot(task: Task, saved: SavedCheckpoint) -> TaskSnapshot:
    pending = saved.pending
    result = pending.completed.get(task.id)
    return TaskSnapshot(
        id=task.id,
        name=task.node,
        result={name: readable(update) for name, update in write_pairs(result)} if result is not None else None,
        error=pending.errors.get(task.id),
        interrupts=tuple(question.shown() for question in pending.open_of(task.id)),
    )


# -- subgraphs, which are identified by the path of nodes that leads to them. The snapshot of a task contains the
# snapshot of the subgraph that it has called.


class HasProgram(Protocol):
    """The part of a compiled graph that snapshots need."""

    @property
    def graph(self) -> Graph: ...
    @property
    def program(self) -> Program: ...


def subgraphs_of(graph: Graph, *, recurse: bool, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield pairs (path, compiled graph) for the nodes of a graph that are graphs; with `recurse`, at any depth.

    `path` is the path of `graph` itself, with which the paths begin.
    """
    for node in graph.nodes.values():
        if node.is_subgraph:
            subgraph = cast(Any, node.action)
            name = f"{path}|{node.name}" if path else node.name
            yield name, subgraph
            if recurse:
                yield from subgraphs_of(subgraph.graph, recurse=True, path=name)


def node_path(namespace: str) -> str:
    """Return the path of nodes in a namespace, joined by `|`, without the task ids."""
    return "|".join(segment.partition(":")[0] for segment in namespace.split("|"))


def graph_at(graph: Graph, namespace: str) -> Any:
    """Return the compiled graph that runs in a namespace. Raises InvalidConfig if no subgraph runs there."""
    subgraph: Any = None
    path = node_path(namespace)
    for name in path.split("|"):
        node = graph.nodes.get(_current_name(graph, name))
        if node is None or not node.is_subgraph:
            paths = dict(subgraphs_of(graph, recurse=True))
            raise InvalidConfig(
                f"The namespace {namespace!r} does not belong to a subgraph that is a node of the graph. "
                + suggestion(path, paths, noun="Paths")
            )
        subgraph = node.action
        graph = subgraph.graph
    return subgraph


def _current_name(graph: Graph, name: str) -> str:
    """Return the current name of a node; a saved namespace may contain a former one."""
    if name in graph.nodes:
        return name
    return next((node.name for node in graph.nodes.values() if name in node.aliases), name)


def renew_questions_around(run: Run, before: SavedCheckpoint | None) -> None:
    """Update the saved questions of the tasks that wait for a subgraph, after it was changed from outside a run.

    A task without questions is no longer paused, so the next run executes it again. `before` is the head of the
    subgraph before the change.
    """
    saver, branch_key = cast(Checkpointer, run.saver), cast(BranchKey, run.branch_key)
    callers = perform_all(run, find_callers(branch_key))
    after = _load_namespace_head(run, branch_key.namespace)
    if callers is None or after is None:
        return
    ids_before = {question.id for question in _questions_at(before)} if before is not None else set[str]()
    questions_after = _questions_at(after)
    for head, task in callers:
        others = [question for question in head.pending.interrupts.get(task.id, ()) if question.id not in ids_before]
        pending = Pending(interrupts={task.id: (*others, *questions_after)})
        resolve(saver.save_results(head.branch_key, head.id, pending))


def _questions_at(saved: SavedCheckpoint) -> Sequence[Interrupt]:
    """Return all questions of the tasks of a checkpoint, including answered ones."""
    return [question for questions in saved.pending.interrupts.values() for question in questions]


def with_subgraphs(run: Run, snapshot: StateSnapshot) -> StateSnapshot:
    """Return a snapshot in which each task that has called a subgraph has the state of the subgraph."""
    tasks = (_with_state(run, run.program.graph, run.namespace, task) for task in snapshot.tasks)
    return replace(snapshot, tasks=tuple(tasks))


def _with_state(run: Run, graph: Graph, namespace: str, task: TaskSnapshot) -> TaskSnapshot:
    node = graph.nodes.get(_current_name(graph, task.name))
    if node is None or not node.is_subgraph:
        return task
    subgraph = cast(HasProgram, node.action)
    for name in (node.name, *node.aliases):
        segment = name if node.memory == "thread" else f"{name}:{task.id}"
        inner_namespace = f"{namespace}|{segment}" if namespace else segment
        saved = _load_namespace_head(run, inner_namespace)
        if saved is not None and not saved.metadata.get("reset"):
            state = snapshot_of(subgraph.program, saved)
            tasks = tuple(_with_state(run, subgraph.graph, inner_namespace, inner) for inner in state.tasks)
            return replace(task, state=replace(state, tasks=tasks))
    return task


def _load_namespace_head(run: Run, namespace: str) -> SavedCheckpoint | None:
    """Return the head of a namespace on the branch of the run."""
    branch_key = cast(BranchKey, run.branch_key)
    return resolve(
        cast(Checkpointer, run.saver).load(branch_key.thread_id, namespace=namespace, branch=branch_key.branch)
    )
