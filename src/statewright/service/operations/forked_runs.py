"""Runs that go on from a checkpoint of another thread, with or without a change of its state.

Such a run has a thread of its own, whose first checkpoint is a copy. So the runs of the other thread are left alone,
whatever they are doing, and the two can be compared. The tasks that are due at the checkpoint are executed again: what
some of them had returned meanwhile, or had been answered, is not copied, and neither is what subgraphs remember.

The copy, the record of the run and those of its due steps are written in one transaction. A change of the state is
applied to the copy in memory before that, so that a change that the graph refuses leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.checkpoint import BranchKey, Checkpoint, Commit, InMemorySaver, SavedCheckpoint
from statewright.errors import InvalidRequest, NotFound, ServiceError, StorageError
from statewright.graph import END
from statewright.ids import CheckpointId, new_checkpoint_id
from statewright.runs import Change, Condition, Run, where
from statewright.runtime import CompiledGraph
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.runtime.lifecycle.subgraph_forks import copy_with_id
from statewright.service.context.records import find_first
from statewright.service.context.requests import Fork, StateEdit
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.changeset import ChangeSet
from statewright.service.engine.step_records import StepRecords
from statewright.service.operations.state_edit import prepare_edit, refusal_of

FORKED_FROM: Final = "forked_from"
"""The key in the metadata of the first checkpoint for the thread and the checkpoint of which it is a copy."""


async def write_forked_run(context: ServiceContext, run: Run, changes: Sequence[Change], fork: Fork) -> None:
    """Write a new run that goes on from a checkpoint. `changes` create its records.

    Raises NotFound, InvalidRequest if nothing is due at the checkpoint or the graph refuses the edit, and the errors of
    the ledger.
    """
    graph = await context.versions.load_graph(run)
    origin = await _load_origin(context, run, fork)
    commit = _copy_of(origin, fork, run)
    if fork.edit is not None:
        commit = await call_in_thread(_edit, graph, commit, fork.edit)
    if commit.checkpoint.is_complete:
        raise InvalidRequest(
            f"At checkpoint {fork.checkpoint_id!r} of thread {fork.thread_id!r} no node is due, so a run cannot go on "
            f"from there. Choose an earlier checkpoint, or change the state as a node that others follow."
        )
    job = context.ledger.job([*changes, *_step_changes(run, graph, commit.checkpoint)])
    await aresolve(context.saver_of(run.workspace_id).commit(commit, also=[job]))


async def _load_origin(context: ServiceContext, run: Run, fork: Fork) -> SavedCheckpoint:
    """Return the checkpoint of a fork.

    A thread of another graph is refused, even if its state has the same fields. Otherwise a run of that graph could
    prepare a state that the graph of the new run does not permit.
    """
    on_thread = where(workspace_id=run.workspace_id, thread_id=fork.thread_id)
    newest = await find_first(context.ledger, Run, on_thread)
    if newest is None:
        raise NotFound(f"Thread {fork.thread_id!r} does not exist.")
    if await aresolve(context.ledger.count(Run, [*on_thread, Condition("graph", "!=", run.graph)])):
        raise InvalidRequest(
            f"A run of graph {run.graph!r} cannot go on from thread {fork.thread_id!r}, because runs of another graph "
            f"have used it ({newest.graph!r}). Name the graph of that thread."
        )
    saver, checkpoint_id = context.saver_of(run.workspace_id), CheckpointId(fork.checkpoint_id)
    saved = await aresolve(saver.load(fork.thread_id, checkpoint_id=checkpoint_id))
    if saved is None:
        raise NotFound(f"Thread {fork.thread_id!r} has no checkpoint {fork.checkpoint_id!r}.")
    return saved


def _copy_of(origin: SavedCheckpoint, fork: Fork, run: Run) -> Commit:
    """Return the commit of the first checkpoint of the new thread. It belongs to the run, as an input would."""
    copy = copy_with_id(origin.checkpoint, new_checkpoint_id(), origin.checkpoint.step)
    nodes: dict[str, Any] = {"nodes": origin.metadata["nodes"]} if "nodes" in origin.metadata else {}
    forked_from = {"thread_id": fork.thread_id, "checkpoint_id": fork.checkpoint_id}
    return Commit(
        branch_key=BranchKey(run.thread_id),
        expected=None,
        parent_id=None,
        checkpoint=copy,
        deltas=None,
        source="fork",
        run_id=run.id,
        created_at=run.created_at,
        metadata={**nodes, FORKED_FROM: forked_from},
        graph_version=origin.graph_version,
    )


def _edit(graph: CompiledGraph, commit: Commit, edit: StateEdit) -> Commit:
    """Return a commit of the state after a change.

    If the node of the change is due, the change completes its task, and other tasks stay due. If it is not, the change
    stands for what the node has returned, and only what follows it is due. Without a node, only values change, and what
    was due stays due.
    """
    saver = InMemorySaver()
    app = graph.with_services(checkpointer=saver)
    update = prepare_edit(app, edit.values, edit.overwrite, edit.as_node)
    saver.commit(commit)
    thread_id, as_node, copied = commit.branch_key.thread_id, edit.as_node, commit.checkpoint
    replaces = as_node is not None and all(task.node != as_node for task in copied.frontier)
    try:
        # As END, a change of values has no successors. It discards the tasks that are due, which are put back below.
        app.update_state({"configurable": {"thread_id": thread_id}}, update, as_node or END, cancel_pending=replaces)
    except (StorageError, ServiceError):
        raise
    except Exception as error:  # of the graph, or raised by a reducer
        raise refusal_of(error, edit.values, f"Graph {app.name!r}") from error
    edited = saver.load(thread_id)
    assert isinstance(edited, SavedCheckpoint)
    after = edited.checkpoint
    if as_node is None:
        after = Checkpoint(
            copied.id, copied.step, after.values, copied.frontier, copied.deferred, copied.joins, copied.reported
        )
    return replace(
        commit,
        # With the number of its origin, so that the supersteps of both runs have the same numbers.
        checkpoint=copy_with_id(after, after.id, copied.step),
        source="update",
        metadata={**commit.metadata, **(edited.metadata if as_node is not None else {})},
        graph_version=edited.graph_version,
    )


def _step_changes(run: Run, graph: CompiledGraph, checkpoint: Checkpoint) -> Sequence[Change]:
    """Return the changes that create a step for each task that is due."""
    changeset = ChangeSet()
    records = StepRecords(run, graph.graph, (), ())
    records.start(changeset, checkpoint.frontier, checkpoint.step + 1, run.created_at, halts=True)
    return changeset.changes
