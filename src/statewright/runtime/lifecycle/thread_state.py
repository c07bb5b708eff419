"""Inspect threads, and change them from outside a run.

Each function is a generator of storage effects, like the core of a run, so both colours of `CompiledGraph` share it.
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
from statewright.runtime.core.apply import apply_beside, with_report
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Load
from statewright.runtime.core.program import HANDLER_SUFFIX
from statewright.runtime.core.saving import call_namespaces, commit_of, draw_stamp, save_commit
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.carry import find_callers, fork_inside, has_ended, taken_along
from statewright.runtime.lifecycle.start import fit, load_head, renamed
from statewright.runtime.tasks.execute import conclude, read_result
from statewright.runtime.tasks.scope import Scope

Update = tuple[Any, str | None]
"""Values, and the node that they come from."""


def load_branch_head(run: Run) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Load the head of the branch that the settings name."""
    return (yield Load(run.settings.branch))


def load_saved(run: Run) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """The checkpoint that the settings name. Raises CheckpointNotFound if they name one that is not there."""
    settings = run.settings
    saved: SavedCheckpoint | None = yield Load(settings.branch, settings.checkpoint_id)
    if saved is None and settings.checkpoint_id is not None:
        raise CheckpointNotFound(f"Thread {settings.thread_id!r} has no checkpoint {settings.checkpoint_id!r}.")
    return saved


def saved_history(run: Run, checkpoint_id: str | None, page: int, *, includes_it: bool) -> Iterator[SavedCheckpoint]:
    """The checkpoints of a branch and its ancestors, the newest first, read page by page.

    With a `checkpoint_id` only those before it, and the checkpoint itself if `includes_it`.
    """
    saver, line = cast(Checkpointer, run.saver), cast(BranchKey, run.line)
    before = CheckpointId(checkpoint_id) if checkpoint_id is not None else None
    if before is not None and includes_it:
        yield cast(SavedCheckpoint, perform_all(run, load_saved(run)))
    while True:
        found: Sequence[SavedCheckpoint] = resolve(
            saver.history(
                line.thread_id, namespace=line.namespace, branch=run.settings.branch, before=before, limit=page
            )
        )
        yield from found
        if len(found) < page:
            return
        before = found[-1].id


def updated(
    run: Run, updates: Sequence[Update], *, cancel_pending: bool
) -> Generator[Effect, Any, tuple[BranchKey, CheckpointId]]:
    """Commit updates as if nodes had returned them, and return the new head.

    Each update completes a task of its node, if one is due, and its successors become due. Other tasks stay due, unless
    `cancel_pending`. Raises InvalidUpdateError if more tasks of a node are due than there
    are updates as that node.
    """
    head = yield from load_head(run)
    saved = fit(run, (yield from load_saved(run)) if run.settings.checkpoint_id else head)
    base = saved.checkpoint if saved is not None else Checkpoint(run.run_id, -1, run.program.start_values(), ())
    results = [_as_answered(run, base, saved, values, as_node, len(updates)) for values, as_node in updates]
    at_head = saved is not None and head is not None and head.id == saved.id
    pending = saved.pending if saved is not None else Pending()
    if not at_head:
        pending = pending.forked()
    commit_id, now = yield from draw_stamp(run, base.step + 1)
    after, pending, results = _after(run, base, pending, results, commit_id, cancel_pending=cancel_pending)
    parent = base if saved is not None else None
    expected = head.id if head is not None else None
    beside: tuple[StepCommit, ...] = ()
    if saved is not None:
        line = saved.line._replace(branch=run.settings.branch)
        beside = yield from taken_along(run, saved, line, at_head=at_head, anew=False)
        due = {task.id for task in after.frontier}
        gone = [task for task in base.frontier if task.id not in due]
        if not run.config.keeps_calls:
            run.open_namespaces |= call_namespaces(run, gone)
    # A call that goes on must be known as that of the task that called it.
    kept = ("parent_task", "remembers")
    notes = {name: saved.metadata[name] for name in kept if name in saved.metadata} if saved is not None else {}
    commit = commit_of(
        run,
        parent,
        after,
        results,
        now,
        source="update",
        expected=expected,
        pending=pending,
        metadata=notes,
        releases=True,
    )
    commit.beside = beside
    yield from save_commit(run, commit)
    assert run.line is not None
    return run.line, CheckpointId(after.id)


def check_updates(run: Run, updates: Sequence[Update]) -> None:
    """Raise InvalidUpdateError for what is wrong with updates on every state of the thread."""
    for values, as_node in updates:
        _check_node(run, as_node, len(updates))
        if as_node is not None and as_node != END:
            task = Task(as_node, NO_ARG, "", 0)
            read_result(Scope(run, task), run.program.nodes[as_node], task, values)


def _check_node(run: Run, as_node: str | None, count: int) -> None:
    """Raise InvalidUpdateError if an update, one of so many, cannot come from `as_node`."""
    if as_node is None and count > 1:
        raise InvalidUpdateError("Several updates at once each need as_node: their order alone does not say it.")
    known = [*run.program.graph.nodes, START, END]
    if as_node is not None and as_node not in known:
        raise InvalidUpdateError(
            f"as_node is {as_node!r}, which is no node. " + suggestion(as_node, known, noun="Nodes")
        )


def _as_answered(
    run: Run, base: Checkpoint, saved: SavedCheckpoint | None, values: Any, as_node: str | None, count: int
) -> TaskResult:
    _check_node(run, as_node, count)
    name = _last_node(run, saved) if as_node is None else as_node
    program = run.program
    task = Task(name, NO_ARG, base.id, 0)
    if name == END:
        return TaskResult(task, program.updates.read(values, END, task), (), goto=True)
    node = program.nodes[name]
    if node.routes_await:
        from statewright.runtime.concurrency.private_loop import run_privately
        from statewright.runtime.tasks.execute_async import conclude_async

        return run_privately(conclude_async, Scope(run, task, base), node, task, base, values)
    return conclude(Scope(run, task, base), node, task, base, values)


def _last_node(run: Run, saved: SavedCheckpoint | None) -> str:
    """The node that an update without as_node comes from: the only node, or the only one that ran last."""
    nodes = list(run.program.graph.nodes)
    if len(nodes) == 1:
        return nodes[0]
    ran: Sequence[str] = saved.metadata.get("nodes", ()) if saved is not None else (START,)
    last = sorted({name.removesuffix(HANDLER_SUFFIX) for name in ran})
    if len(last) == 1 and (last[0] in nodes or last[0] == START):
        return last[0]
    gone = next((name for name in last if name not in nodes and name not in (START, END)), None)
    if gone is not None:
        raise InvalidUpdateError(
            f"The node that ran last is {gone!r}, and the graph has none of that name. Pass as_node=, or give the node "
            f"its former name as aliases=. " + suggestion(gone, nodes, noun="Nodes")
        )
    raise InvalidUpdateError(
        f"It is not clear which node the update comes from: {', '.join(last) or 'none'} ran last. Pass as_node=."
    )


def _after(
    run: Run,
    base: Checkpoint,
    pending: Pending,
    results: Sequence[TaskResult],
    commit_id: str,
    *,
    cancel_pending: bool,
) -> tuple[Checkpoint, Pending, Sequence[TaskResult]]:
    """The checkpoint after the updates, the pending data of the tasks that are still due, and the results applied.

    Results that had landed stay pending while another task is open. When the updates complete the last open task, they
    are applied with them.
    """
    program = run.program
    names = {result.task.node for result in results}
    ended = cancel_pending or END in names
    due: list[Task] = []
    held: list[DeferredTask] = []
    if not ended:
        _check_answered(base, pending, results)
        due = [task for task in base.frontier if task.node not in names or task.id in pending.completed]
        held = [one for one in base.held if one.task.node not in names]
    if due and all(task.id in pending.completed for task in due):
        results = _in_task_order(base, pending, results)
        due = []
    after = with_report(program, base, apply_beside(program, base, results, commit_id, due, held), results)
    return after, pending.of({task.id for task in due}), results


def _check_answered(base: Checkpoint, pending: Pending, results: Sequence[TaskResult]) -> None:
    """Raise InvalidUpdateError if a node that is updated has more open tasks than updates."""
    updates = Counter(result.task.node for result in results)
    tasks = Counter(task.node for task in base.frontier if task.id not in pending.completed)
    for node, count in updates.items():
        if tasks[node] > count:
            raise InvalidUpdateError(
                f"{tasks[node]} tasks of node {node!r} are due, and {count} of them would be completed. Give "
                f"bulk_update_state an update for each, or drop everything that is due with cancel_pending=True."
            )


def _in_task_order(base: Checkpoint, pending: Pending, updates: Sequence[TaskResult]) -> Sequence[TaskResult]:
    """Return saved results and updates in the order of their tasks; updates of nodes that were not due come last."""
    left = list(updates)
    ordered: list[TaskResult] = []
    for task in base.frontier:
        result = pending.completed.get(task.id)
        if result is None:  # nothing else is open: an update completes it
            place = next(place for place, update in enumerate(left) if update.task.node == task.node)
            result = left.pop(place)
        ordered.append(result)
    return [*ordered, *left]


def forked(run: Run, branch: str | None) -> Generator[Effect, Any, tuple[BranchKey, CheckpointId]]:
    """Make the checkpoint that the settings name the head of a branch: a new one, or its own again."""
    own_head = yield from load_head(run)
    saved = (yield from load_saved(run)) if run.settings.checkpoint_id else own_head
    if saved is None:
        raise CheckpointNotFound(f"Thread {run.settings.thread_id!r} has no checkpoint to fork.")
    line = saved.line._replace(branch=checked_name("branch", run.settings.branch if branch is None else branch))
    head = own_head if line.branch == run.settings.branch else (yield Load(line.branch))
    if head is not None and branch is not None and branch != saved.line.branch:
        raise InvalidUpdateError(f"Thread {line.thread_id!r} has a branch {branch!r} already. Choose another name.")
    if line.namespace:
        if not (yield from _is_unused_memory(saved, line)):
            return (yield from fork_inside(run, saved, line.branch))
        if not saved.checkpoint.at_rest:
            raise InvalidUpdateError(has_ended(saved.line))
    before = saved.checkpoint
    newest: SavedCheckpoint | None = head if line.branch == saved.line.branch else (yield Load(saved.line.branch))
    at_head = newest is not None and newest.id == saved.id
    beside = yield from taken_along(run, saved, line, at_head=at_head, anew=False)
    commit_id, now = yield from draw_stamp(run, before.step + 1)
    after = renamed(before, commit_id)
    run.line = line
    expected = head.id if head is not None else None
    pending = saved.pending.forked()
    kept = ("nodes", "parent_task", "remembers")
    notes = {name: saved.metadata[name] for name in kept if name in saved.metadata}
    commit = commit_of(
        run, before, after, [], now, source="fork", expected=expected, pending=pending, metadata=notes, releases=True
    )
    commit.graph_version = saved.graph_version  # nothing was fitted: what goes on from here will be
    commit.beside = beside
    yield from save_commit(run, commit)
    return line, CheckpointId(after.id)


def _is_unused_memory(saved: SavedCheckpoint, line: BranchKey) -> Generator[Effect, Any, bool]:
    """True if a checkpoint belongs to a memory that no task uses now: then only the memory is rolled back."""
    if not saved.metadata.get("remembers") or line.branch != saved.line.branch:
        return False
    return (yield from find_callers(line)) is None


class Met(NamedTuple):
    """A run that held the thread when another one came."""

    run_id: str
    head: str | None
    """The head at that time: still that of the run before if it has gone on from there and saved no superstep."""

    def is_left_at(self, head: SavedCheckpoint) -> bool:
        """True if the thread is where that run left it before it was completed."""
        return not head.checkpoint.at_rest and (head.run_id == self.run_id or head.id == self.head)


def rolled_back(
    run: Run, *, only: Met | None = None, expected: str | None = None, releases: bool = False
) -> Generator[Effect, Any, None]:
    """Roll the branch back to the checkpoint before its last input.

    With `only` nothing is done if that run has completed, or if another one has gone on from it, and what was done
    before it began stays. Raises CheckpointConflict if a head is expected and the branch has another one,
    CheckpointNotFound if the place to go back to was pruned, InvalidUpdateError if there was no input. With `releases`
    the thread is released; else the run goes on with it.
    """
    head = yield from load_head(run)
    found_id = head.id if head is not None else None
    if expected is not None and found_id != expected:
        raise CheckpointConflict(cast(BranchKey, run.line).thread_id, expected, found_id)
    if head is None or (only is not None and not only.is_left_at(head)):
        return
    before = yield from _find_beginning(run, head, only)
    if before is not None and before.id == head.id:
        return  # that run has changed nothing
    base = before.checkpoint if before is not None else Checkpoint(run.run_id, -1, run.program.start_values(), ())
    beside = yield from taken_along(run, before, head.line, at_head=False, anew=False)
    commit_id, now = yield from draw_stamp(run, head.checkpoint.step + 1)
    after = renamed(base, commit_id)
    after.step = head.checkpoint.step + 1
    pending = before.pending if before is not None else None
    notes = {"rolled_back": head.run_id}
    parent = before.checkpoint if before is not None else None
    commit = commit_of(
        run,
        parent,
        after,
        [],
        now,
        source="fork",
        expected=head.id,
        pending=pending,
        metadata=notes,
        releases=releases,
    )
    commit.beside = beside
    if before is not None:
        commit.graph_version = before.graph_version
    yield from save_commit(run, commit)


def _find_beginning(
    run: Run, head: SavedCheckpoint, only: Met | None
) -> Generator[Effect, Any, SavedCheckpoint | None]:
    """Find the checkpoint before the last input; None if the thread begins with that input.

    With `only` the search ends where that run began: at a completed run, or at a change by another caller.
    """
    current = head
    while True:
        is_input = current.source == "input"
        if only is not None and current.source in ("update", "fork") and current.run_id != only.run_id:
            return current
        if _begins_thread(current):
            if is_input or only is not None:
                return None
            raise InvalidUpdateError(
                f"Thread {current.line.thread_id!r} has no input that could be undone. Fork one of its checkpoints."
            )
        # A run that continues from an older checkpoint replaces a head that is not among its ancestors.
        replaced = current.metadata.get("replaces") if is_input or only is not None else None
        parent_id = replaced or current.parent_id
        parent: SavedCheckpoint | None = (yield Load(run.settings.branch, parent_id)) if parent_id else None
        if parent is None:
            raise CheckpointNotFound(
                f"Thread {current.line.thread_id!r} cannot go back to before its last input: that checkpoint was "
                f"pruned. Nothing was changed. Fork a checkpoint that is still there, or prune less."
            )
        if is_input or replaced or (only is not None and parent.checkpoint.at_rest):
            return parent
        current = parent


def _begins_thread(saved: SavedCheckpoint) -> bool:
    """True for the first checkpoint of a thread; one whose ancestors were pruned has a later step, and no parent."""
    return saved.parent_id is None and (saved.checkpoint.step == 0 or "rolled_back" in saved.metadata)


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return both values for each key that differs; None for an absent one."""
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
