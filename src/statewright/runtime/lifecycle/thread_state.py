"""Inspect threads, and change them from outside a run.

Most functions are generators of storage effects, like the core of a run. `saver_calls.perform_all` performs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Checkpointer,
    DeferredTask,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, InvalidUpdateError, suggestion
from statewright.futures import resolve
from statewright.graph import END, START
from statewright.ids import CheckpointId, checked_name
from statewright.runtime.core.apply import apply_external_results, record_updates_for_caller
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Load
from statewright.runtime.core.program import HANDLER_SUFFIX
from statewright.runtime.core.saving import call_namespaces, commit_of, new_id_and_time, save_commit
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.start import load_head, migrate_saved
from statewright.runtime.lifecycle.subgraph_forks import (
    copy_with_id,
    ended_call_message,
    find_callers,
    fork_inside,
    subgraph_commits,
)
from statewright.runtime.tasks.execute import conclude_task, read_result
from statewright.runtime.tasks.scope import Scope
from statewright.stale_reads import for_history

Update = tuple[Any, str | None]
"""Values, and the node that is regarded as having returned them; None to infer the node."""


def peek_head(run: Run) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of the branch that the settings name, only to read it.

    Unlike `load_head`, this does not record the head for the run's claim.
    """
    return (yield Load(run.settings.branch))


def load_checkpoint(run: Run) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the checkpoint that the settings name, by default the head, or None if there is no head.

    Raises CheckpointNotFound if the named checkpoint does not exist.
    """
    settings = run.settings
    saved: SavedCheckpoint | None = yield Load(settings.branch, settings.checkpoint_id)
    if saved is None and settings.checkpoint_id is not None:
        raise CheckpointNotFound(f"Thread {settings.thread_id!r} has no checkpoint {settings.checkpoint_id!r}.")
    return saved


def iter_history(run: Run, checkpoint_id: str | None, page_size: int, *, inclusive: bool) -> Iterator[SavedCheckpoint]:
    """Yield the checkpoints of a branch, the newest first. If it is a fork, the checkpoints before the fork follow.

    With `checkpoint_id`, yield only checkpoints earlier than that one; with `inclusive`, also that one, which must be
    the one that the settings name. Checkpoints are read in pages of `page_size`.
    """
    saver, branch_key = for_history(cast(Checkpointer, run.saver)), cast(BranchKey, run.branch_key)
    before = CheckpointId(checkpoint_id) if checkpoint_id is not None else None
    if before is not None and inclusive:
        yield cast(SavedCheckpoint, perform_all(run, load_checkpoint(run)))
    while True:
        page: Sequence[SavedCheckpoint] = resolve(
            saver.history(
                branch_key.thread_id,
                namespace=branch_key.namespace,
                branch=run.settings.branch,
                before=before,
                limit=page_size,
            )
        )
        yield from page
        if len(page) < page_size:
            return
        before = page[-1].id


def update_thread(
    run: Run, updates: Sequence[Update], *, cancel_pending: bool
) -> Generator[Effect, Any, tuple[BranchKey, CheckpointId]]:
    """Commit updates as if nodes had returned them, and return the branch and the id of the new head.

    Each update completes a task of its node, if one is due, and the successors of the node become due. Other tasks stay
    due, unless `cancel_pending`, which discards all due tasks, as does an update with END as `as_node`. Raises
    InvalidUpdateError if a node has more due tasks than there are updates with that node as `as_node`.
    """
    head = yield from load_head(run)
    saved = migrate_saved(run, (yield from load_checkpoint(run)) if run.settings.checkpoint_id else head)
    base = saved.checkpoint if saved is not None else Checkpoint(run.run_id, -1, run.program.start_values(), ())
    results = [_result_as_node(run, base, saved, values, as_node, len(updates)) for values, as_node in updates]
    at_head = saved is not None and head is not None and head.id == saved.id
    pending = saved.pending if saved is not None else Pending()
    if not at_head:
        pending = pending.forked()
    commit_id, now = yield from new_id_and_time(run, base.step + 1)
    after, pending, results = _apply_updates(run, base, pending, results, commit_id, cancel_pending=cancel_pending)
    parent = base if saved is not None else None
    expected = head.id if head is not None else None
    inner_commits: tuple[StepCommit, ...] = ()
    if saved is not None:
        branch_key = saved.branch_key._replace(branch=run.settings.branch)
        inner_commits = yield from subgraph_commits(run, saved, branch_key, at_head=at_head, restart_calls=False)
        due = {task.id for task in after.frontier}
        ended = [task for task in base.frontier if task.id not in due]
        if not run.config.keeps_calls:
            # The commit deletes the namespaces of the subgraph calls that the ended tasks made.
            run.open_namespaces |= call_namespaces(run, ended)
    # The checkpoint of a subgraph call still belongs to the calling task, which resumes it. `remembers` marks the
    # memory of a subgraph with memory="thread".
    metadata = _copied_metadata(saved, "parent_task", "remembers") if saved is not None else {}
    commit = commit_of(
        run,
        parent,
        after,
        results,
        now,
        source="update",
        expected=expected,
        pending=pending,
        metadata=metadata,
        releases_thread=True,
    )
    commit.siblings = inner_commits
    yield from save_commit(run, commit)
    assert run.branch_key is not None
    return run.branch_key, CheckpointId(after.id)


def _copied_metadata(saved: SavedCheckpoint, *names: str) -> dict[str, Any]:
    return {name: saved.metadata[name] for name in names if name in saved.metadata}


def check_updates(run: Run, updates: Sequence[Update]) -> None:
    """Raise the errors of invalid updates that can be detected without the state of the thread."""
    for values, as_node in updates:
        _check_node(run, as_node, len(updates))
        if as_node is not None and as_node != END:
            task = Task(as_node, NO_ARG, "", 0)
            read_result(Scope(run, task), run.program.nodes[as_node], task, values)


def _check_node(run: Run, as_node: str | None, count: int) -> None:
    """Raise InvalidUpdateError if `as_node` is not a node, or is None although there are several updates (`count`)."""
    if as_node is None and count > 1:
        raise InvalidUpdateError(
            "If there are several updates, each needs as_node, because it cannot be inferred from their order."
        )
    names = [*run.program.graph.nodes, START, END]
    if as_node is not None and as_node not in names:
        raise InvalidUpdateError(
            f"as_node is {as_node!r}, which is not a node. " + suggestion(as_node, names, noun="Nodes")
        )


def _result_as_node(
    run: Run, base: Checkpoint, saved: SavedCheckpoint | None, values: Any, as_node: str | None, count: int
) -> TaskResult:
    """Return the result of a task of the node `as_node`, as if the node had returned `values`."""
    _check_node(run, as_node, count)
    name = _last_node(run, saved) if as_node is None else as_node
    program = run.program
    task = Task(name, NO_ARG, base.id, 0)
    if name == END:
        return TaskResult(task, program.updates.read(values, END, task), (), goto=True)
    node = program.nodes[name]
    if node.has_async_routes:
        from statewright.runtime.concurrency.private_loop import run_on_private_loop
        from statewright.runtime.tasks.execute_async import conclude_task_async

        return run_on_private_loop(conclude_task_async, Scope(run, task, base), node, task, base, values)
    return conclude_task(Scope(run, task, base), node, task, base, values)


def _last_node(run: Run, saved: SavedCheckpoint | None) -> str:
    """Return the node for an update without as_node: the only node of the graph, or the only one that ran last."""
    nodes = list(run.program.graph.nodes)
    if len(nodes) == 1:
        return nodes[0]
    ran: Sequence[str] = saved.metadata.get("nodes", ()) if saved is not None else (START,)
    last = sorted({name.removesuffix(HANDLER_SUFFIX) for name in ran})
    if len(last) == 1 and (last[0] in nodes or last[0] == START):
        return last[0]
    unknown = next((name for name in last if name not in nodes and name not in (START, END)), None)
    if unknown is not None:
        raise InvalidUpdateError(
            f"The node that ran last is {unknown!r}, which the graph does not have. Pass as_node=, or if the node was "
            f"renamed, add its former name to its aliases=. " + suggestion(unknown, nodes, noun="Nodes")
        )
    raise InvalidUpdateError(
        f"The node of the update cannot be inferred: {', '.join(last) or 'no node'} ran last. Pass as_node=."
    )


def _apply_updates(
    run: Run,
    base: Checkpoint,
    pending: Pending,
    results: Sequence[TaskResult],
    commit_id: str,
    *,
    cancel_pending: bool,
) -> tuple[Checkpoint, Pending, Sequence[TaskResult]]:
    """Return the checkpoint after the updates, the pending data of the tasks that stay due, and the applied results.

    Results that were saved earlier stay pending while any task still lacks a result. Once the updates supply the last
    missing result, all results are applied together.
    """
    program = run.program
    names = {result.task.node for result in results}
    due: list[Task] = []
    deferred: list[DeferredTask] = []
    if not cancel_pending and END not in names:
        _check_counts(base, pending, results)
        due = [task for task in base.frontier if task.node not in names or task.id in pending.completed]
        deferred = [entry for entry in base.deferred if entry.task.node not in names]
    if due and all(task.id in pending.completed for task in due):
        results = _merge_in_task_order(base, pending, results)
        due = []
    after = record_updates_for_caller(
        program, base, apply_external_results(program, base, results, commit_id, due, deferred), results
    )
    return after, pending.of({task.id for task in due}), results


def _check_counts(base: Checkpoint, pending: Pending, results: Sequence[TaskResult]) -> None:
    """Raise InvalidUpdateError if a node has more due tasks than there are updates with that node as `as_node`."""
    updates = Counter(result.task.node for result in results)
    tasks = Counter(task.node for task in base.frontier if task.id not in pending.completed)
    for node, count in updates.items():
        if tasks[node] > count:
            raise InvalidUpdateError(
                f"{tasks[node]} tasks of node {node!r} are due, but the update completes only {count}. Pass one update "
                f"for each task to bulk_update_state, or discard all due tasks with cancel_pending=True."
            )


def _merge_in_task_order(base: Checkpoint, pending: Pending, updates: Sequence[TaskResult]) -> Sequence[TaskResult]:
    """Return the saved results and the updates in the order of their tasks, then the updates that complete no task."""
    unused = list(updates)
    ordered: list[TaskResult] = []
    for task in base.frontier:
        result = pending.completed.get(task.id)
        if result is None:  # the caller has checked that an update completes every task without a saved result
            index = next(index for index, update in enumerate(unused) if update.task.node == task.node)
            result = unused.pop(index)
        ordered.append(result)
    return [*ordered, *unused]


def fork_thread(run: Run, branch: str | None) -> Generator[Effect, Any, tuple[BranchKey, CheckpointId]]:
    """Make a checkpoint, by default the head, the head of a new branch, or again of its own branch.

    The settings name the checkpoint. Return the branch and the id of the new head.
    """
    settings_head = yield from load_head(run)
    saved = (yield from load_checkpoint(run)) if run.settings.checkpoint_id else settings_head
    if saved is None:
        raise CheckpointNotFound(f"Thread {run.settings.thread_id!r} has no checkpoint to fork.")
    branch_key = saved.branch_key._replace(
        branch=checked_name("branch", run.settings.branch if branch is None else branch)
    )
    target_head = settings_head if branch_key.branch == run.settings.branch else (yield Load(branch_key.branch))
    if target_head is not None and branch is not None and branch != saved.branch_key.branch:
        raise InvalidUpdateError(
            f"Thread {branch_key.thread_id!r} already has a branch {branch!r}. Choose another name."
        )
    if branch_key.namespace:
        if not (yield from _is_unused_memory(saved, branch_key)):
            return (yield from fork_inside(run, saved, branch_key.branch))
        if not saved.checkpoint.is_complete:
            raise InvalidUpdateError(ended_call_message(saved.branch_key))
    before = saved.checkpoint
    source_head: SavedCheckpoint | None = (
        target_head if branch_key.branch == saved.branch_key.branch else (yield Load(saved.branch_key.branch))
    )
    at_head = source_head is not None and source_head.id == saved.id
    inner_commits = yield from subgraph_commits(run, saved, branch_key, at_head=at_head, restart_calls=False)
    commit_id, now = yield from new_id_and_time(run, before.step + 1)
    after = copy_with_id(before, commit_id)
    run.branch_key = branch_key
    expected = target_head.id if target_head is not None else None
    pending = saved.pending.forked()
    metadata = _copied_metadata(saved, "nodes", "parent_task", "remembers")
    commit = commit_of(
        run,
        before,
        after,
        [],
        now,
        source="fork",
        expected=expected,
        pending=pending,
        metadata=metadata,
        releases_thread=True,
    )
    commit.graph_version = saved.graph_version  # the checkpoint is not migrate_saved here, but by the next run
    commit.siblings = inner_commits
    yield from save_commit(run, commit)
    return branch_key, CheckpointId(after.id)


def _is_unused_memory(saved: SavedCheckpoint, branch_key: BranchKey) -> Generator[Effect, Any, bool]:
    """Return True if a checkpoint belongs to a memory that is not in use, and stays on its branch.

    The memory of a subgraph is in use while a due task is waiting for a call that uses it.
    """
    if not saved.metadata.get("remembers") or branch_key.branch != saved.branch_key.branch:
        return False
    return (yield from find_callers(branch_key)) is None


class EarlierHolder(NamedTuple):
    """The run that held a thread when another run tried to claim it."""

    run_id: str
    head: str | None
    """The id of the head at that time. It was saved by an earlier run if the holder had not yet saved a checkpoint."""

    def left_unfinished(self, head: SavedCheckpoint) -> bool:
        """Return True if the run has stopped without completing, and no other run has continued the thread since."""
        return not head.checkpoint.is_complete and (head.run_id == self.run_id or head.id == self.head)


def roll_back_thread(
    run: Run, *, holder: EarlierHolder | None = None, expected: str | None = None, releases_thread: bool = False
) -> Generator[Effect, Any, None]:
    """Roll the branch back to the checkpoint before its last input.

    With `holder`, undo only the effects of that run. If it has completed, or another run has continued the thread,
    change nothing. With `releases_thread`, the thread is released; otherwise `run` still holds it. Raises
    CheckpointConflict if `expected` is not the head of the branch, CheckpointNotFound if the earlier checkpoint was
    pruned, and InvalidUpdateError if there was no input.
    """
    head = yield from load_head(run)
    head_id = head.id if head is not None else None
    if expected is not None and head_id != expected:
        raise CheckpointConflict(cast(BranchKey, run.branch_key).thread_id, expected, head_id)
    if head is None or (holder is not None and not holder.left_unfinished(head)):
        return
    target = yield from _find_rollback_target(run, head, holder)
    if target is not None and target.id == head.id:
        return  # that run has changed nothing
    base = target.checkpoint if target is not None else Checkpoint(run.run_id, -1, run.program.start_values(), ())
    inner_commits = yield from subgraph_commits(run, target, head.branch_key, at_head=False, restart_calls=False)
    commit_id, now = yield from new_id_and_time(run, head.checkpoint.step + 1)
    after = copy_with_id(base, commit_id, head.checkpoint.step + 1)
    pending = target.pending if target is not None else None
    parent = target.checkpoint if target is not None else None
    commit = commit_of(
        run,
        parent,
        after,
        [],
        now,
        source="fork",
        expected=head.id,
        pending=pending,
        metadata={"rolled_back": head.run_id},
        releases_thread=releases_thread,
    )
    commit.siblings = inner_commits
    if target is not None:
        commit.graph_version = target.graph_version
    yield from save_commit(run, commit)


def _find_rollback_target(
    run: Run, head: SavedCheckpoint, holder: EarlierHolder | None
) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Find the checkpoint to which the thread is rolled back, the one before its last input.

    Return None if the thread begins with that input.

    With `holder`, find the checkpoint from which that run started: the end of a completed run, or a change that was
    made from outside a run.
    """
    current = head
    while True:
        # A run that goes on from a copy of a checkpoint has the copy where others have their input.
        is_input = current.source == "input" or "forked_from" in current.metadata
        if holder is not None and current.source in ("update", "fork") and current.run_id != holder.run_id:
            return current
        if _begins_thread(current):
            if is_input or holder is not None:
                return None
            raise InvalidUpdateError(
                f"Thread {current.branch_key.thread_id!r} has no input to undo. Fork one of its checkpoints instead."
            )
        # If a run started from an older checkpoint, the head that it replaced is not an ancestor of its checkpoints.
        replaced = current.metadata.get("replaces") if is_input or holder is not None else None
        parent_id = replaced or current.parent_id
        parent: SavedCheckpoint | None = (yield Load(run.settings.branch, parent_id)) if parent_id else None
        if parent is None:
            raise CheckpointNotFound(
                f"Thread {current.branch_key.thread_id!r} cannot be rolled back: the checkpoint before its last input "
                f"was pruned. Nothing was changed. Fork a checkpoint that still exists, or prune less."
            )
        if is_input or replaced or (holder is not None and parent.checkpoint.is_complete):
            return parent
        current = parent


def _begins_thread(saved: SavedCheckpoint) -> bool:
    """Return True for the first checkpoint of a thread. If a later checkpoint has no parent, its parent was pruned."""
    is_first = saved.checkpoint.step == 0 or "rolled_back" in saved.metadata or "forked_from" in saved.metadata
    return saved.parent_id is None and is_first


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the old and the new value of each key whose values differ; None stands for a missing value."""
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
