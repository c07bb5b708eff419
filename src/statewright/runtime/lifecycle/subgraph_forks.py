"""Keep subgraphs consistent with their callers when an older checkpoint becomes the head of a branch.

This happens in forks, in rollbacks, and in runs that start from an older checkpoint.

The checkpoints of a subgraph with memory="thread" are called its *memory*. The memory has a branch of its own for each
branch of the thread. Each commit of the calling graph records the last checkpoint of the memory (`memories` in its
metadata), so that a rollback or a fork can restore the memory as it was then.

A call with memory="call" belongs to a task. If the task is due again and starts from its beginning, so does the call.
The history of the call is kept: to make it start over, a commit without values and tasks, which has `reset` in its
metadata, becomes the head of its namespace.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from statewright.checkpoint import BranchKey, Checkpoint, Checkpointer, Pending, SavedCheckpoint, Task
from statewright.checkpoint.model import outermost_task_id
from statewright.errors import CheckpointNotFound, InvalidUpdateError
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Load, Namespaces
from statewright.runtime.core.saving import commit_of, new_id_and_time, save_commit
from statewright.runtime.invocation.run import Run

SubgraphCommits = Generator[Effect, Any, tuple[StepCommit, ...]]


def subgraph_commits(
    run: Run, saved: SavedCheckpoint | None, branch_key: BranchKey, *, at_head: bool, restart_calls: bool
) -> SubgraphCommits:
    """Return the commits of subgraphs that have to be saved when `saved` becomes the head of the branch `branch_key`.

    `saved` is None for the beginning of the thread. If it is the head of its own branch (`at_head`), the subgraphs keep
    their current state. Otherwise memories are restored as they were at `saved`. With `restart_calls`, calls with
    memory="call" start over. Sets `run.memories`.
    """
    memories = dict(saved.metadata.get("memories", {})) if saved is not None else {}
    run.memories = memories
    if saved is not None and at_head and saved.branch_key.branch == branch_key.branch:
        return ()
    prefix = f"{branch_key.namespace}|" if branch_key.namespace else ""
    inner_namespaces = [
        name for name in (yield Namespaces()) if name != branch_key.namespace and name.startswith(prefix)
    ]
    if not inner_namespaces:
        return ()
    due_task_ids: set[str] = {task.id for task in saved.checkpoint.frontier} if saved is not None else set()
    if saved is not None and at_head and not restart_calls:
        commits = yield from _copy_calls_and_memories(run, saved, branch_key, inner_namespaces, prefix, due_task_ids)
    else:
        commits = yield from _restore_memories(run, branch_key, memories)
        if saved is not None and not restart_calls and saved.branch_key.branch != branch_key.branch:
            calls = [name for name in inner_namespaces if _task_of(name, prefix) in due_task_ids]
            commits += yield from _copy_heads(run, saved.branch_key.branch, branch_key, calls)
        copied_namespaces = {commit.branch_key.namespace for commit in commits}
        commits += yield from _reset_others(
            run, branch_key, inner_namespaces, copied_namespaces, prefix, due_task_ids, restart_calls=restart_calls
        )
    for commit in commits:
        if commit.branch_key.namespace in memories:
            memories[commit.branch_key.namespace] = commit.checkpoint.id
    return tuple(commits)


def _task_of(namespace: str, prefix: str) -> str:
    """Return the id of the task that has made the outermost call in a namespace below `prefix`."""
    return _task_in(_first_segment(namespace, prefix))


def _first_segment(namespace: str, prefix: str) -> str:
    return namespace[len(prefix) :].partition("|")[0]


def _task_in(segment: str) -> str:
    """Return the task id in a segment `node:task_id[:label]` of a namespace; "" if it is the segment of a memory."""
    return segment.partition(":")[2].partition(":")[0]


def parent_task_of(saved: SavedCheckpoint) -> str:
    """Return the id of the superstep's task in which a call was made, directly or by a step or `@task` call."""
    return outermost_task_id(str(saved.metadata.get("parent_task", "")))


def _copy_calls_and_memories(
    run: Run,
    saved: SavedCheckpoint,
    branch_key: BranchKey,
    inner_namespaces: list[str],
    prefix: str,
    due_task_ids: set[str],
) -> Generator[Effect, Any, list[StepCommit]]:
    """Return commits that copy the unfinished calls and the memories of a branch, in their current state.

    Only `inner_namespaces` are copied, which begin with `prefix`.
    """
    namespaces: list[str] = []
    for name in inner_namespaces:
        if _task_of(name, prefix) in due_task_ids:
            namespaces.append(name)
            continue
        outermost = prefix + _first_segment(name, prefix)
        head: SavedCheckpoint | None = yield Load(saved.branch_key.branch, None, outermost)
        if head is not None and head.metadata.get("remembers"):
            namespaces.append(name)
    return (yield from _copy_heads(run, saved.branch_key.branch, branch_key, namespaces))


def _copy_heads(
    run: Run, branch: str, branch_key: BranchKey, namespaces: list[str]
) -> Generator[Effect, Any, list[StepCommit]]:
    """Return commits that copy the heads of these namespaces from `branch` to the branch of `branch_key`."""
    commits: list[StepCommit] = []
    for name in namespaces:
        head: SavedCheckpoint | None = yield Load(branch, None, name)
        if head is not None:
            commits.append((yield from _copy_to(run, head, branch_key._replace(namespace=name))))
    return commits


def _restore_memories(
    run: Run, branch_key: BranchKey, memories: Mapping[str, str]
) -> Generator[Effect, Any, list[StepCommit]]:
    """Return commits that restore memories, and the memories nested in them, to earlier checkpoints.

    `memories` has the id of such a checkpoint by namespace.
    """
    commits: list[StepCommit] = []
    for namespace, checkpoint_id in memories.items():
        saved: SavedCheckpoint | None = yield Load(branch_key.branch, checkpoint_id, namespace)
        if saved is None:
            raise CheckpointNotFound(
                f"Thread {branch_key.thread_id!r} cannot return to this checkpoint: the memory that the subgraph "
                f"{namespace!r} had then was pruned. Choose a later checkpoint, or prune less."
            )
        commits.append((yield from _copy_to(run, saved, branch_key._replace(namespace=namespace))))
        commits.extend((yield from _restore_memories(run, branch_key, saved.metadata.get("memories", {}))))
    return commits


def _reset_others(
    run: Run,
    branch_key: BranchKey,
    inner_namespaces: list[str],
    copied_namespaces: set[str],
    prefix: str,
    due_task_ids: set[str],
    *,
    restart_calls: bool,
) -> Generator[Effect, Any, list[StepCommit]]:
    """Return commits that reset calls which start over, and memories that did not exist at the restored checkpoint.

    Only `inner_namespaces`, which begin with `prefix`, are reset, and none of `copied_namespaces`.
    """
    commits: list[StepCommit] = []
    for name in inner_namespaces:
        if name in copied_namespaces:
            continue
        head: SavedCheckpoint | None = yield Load(branch_key.branch, None, name)
        if head is None or head.metadata.get("reset"):
            continue
        if _task_of(name, prefix) in due_task_ids:
            must_reset = restart_calls or run.config.keeps_calls
        else:
            outermost = prefix + _first_segment(name, prefix)
            outer: SavedCheckpoint | None = (
                head if outermost == name else (yield Load(branch_key.branch, None, outermost))
            )
            must_reset = outermost in copied_namespaces or (outer is not None and bool(outer.metadata.get("remembers")))
        if must_reset:
            commits.append((yield from _reset_commit(run, head)))
    return commits


def _copy_to(run: Run, saved: SavedCheckpoint, branch_key: BranchKey) -> Generator[Effect, Any, StepCommit]:
    """Return the commit that makes a copy of a checkpoint the head of `branch_key`, in place of the current head."""
    head: SavedCheckpoint | None = yield Load(branch_key.branch, None, branch_key.namespace)
    return (yield from _copy_commit(run, saved, branch_key, head))


def _copy_commit(
    run: Run, saved: SavedCheckpoint, branch_key: BranchKey, head: SavedCheckpoint | None
) -> Generator[Effect, Any, StepCommit]:
    """Return the commit that makes a copy of a checkpoint the head of `branch_key`, in place of `head`."""
    before = saved.checkpoint
    step = (head if head is not None else saved).checkpoint.step + 1
    commit_id, now = yield from new_id_and_time(run, step)
    after = copy_with_id(before, commit_id, step)
    # The original becomes the parent, except for a copied call on another branch, which is deleted with its task.
    parent = before if saved.metadata.get("remembers") or branch_key.branch == saved.branch_key.branch else None
    commit = commit_of(run, parent, after, [], now, source="fork", pending=saved.pending, metadata=dict(saved.metadata))
    commit.retarget(branch_key, after, head.id if head is not None else None)
    commit.graph_version = saved.graph_version
    return commit


def copy_with_id(checkpoint: Checkpoint, checkpoint_id: str, step: int | None = None) -> Checkpoint:
    """Return a copy with another id, and by default the next step number. The tasks keep their ids."""
    return Checkpoint(
        checkpoint_id,
        checkpoint.step + 1 if step is None else step,
        checkpoint.values,
        checkpoint.frontier,
        checkpoint.deferred,
        checkpoint.joins,
        checkpoint.reported,
    )


def _reset_commit(run: Run, head: SavedCheckpoint) -> Generator[Effect, Any, StepCommit]:
    """Return the commit that resets the namespace of `head`: the history is kept, and the next call starts over."""
    commit_id, now = yield from new_id_and_time(run, head.checkpoint.step + 1)
    after = Checkpoint(commit_id, head.checkpoint.step + 1, {}, ())
    metadata: dict[str, Any] = {"reset": True}
    if "remembers" in head.metadata:
        metadata["remembers"] = head.metadata["remembers"]
    commit = commit_of(run, None, after, [], now, source="fork", metadata=metadata)
    commit.retarget(head.branch_key, after, CheckpointId(head.id))
    commit.graph_version = head.graph_version
    return commit


# -- forks inside a subgraph call that has not ended
#
# A call is not a thread of its own: it is resumed only when the calling task runs again. So a fork of one of its
# checkpoints includes a commit for every graph around the call. Such a commit keeps the state of the graph, makes the
# calling task due again, and discards the questions and answers of the call.

Forking = Generator[Effect, Any, tuple[BranchKey, CheckpointId]]


class Caller(NamedTuple):
    """A task that waits for a subgraph call, and the checkpoint at which the task is due."""

    head: SavedCheckpoint
    task: Task


def fork_inside(run: Run, saved: SavedCheckpoint, branch: str) -> Forking:
    """Make a checkpoint of an unfinished call the head of its namespace, and let the tasks around the call run again.

    This happens on the checkpoint's own branch or on a new one. Raises InvalidUpdateError if the call has ended.
    """
    source = saved.branch_key
    callers = yield from find_callers(source)
    if callers is None or _is_of_another_call(saved, callers[-1].task):
        raise InvalidUpdateError(ended_call_message(source))
    head: SavedCheckpoint | None = yield Load(source.branch, None, source.namespace)
    at_head = head is not None and head.id == saved.id
    target = source._replace(branch=branch)
    inner = yield from subgraph_commits(run, saved, target, at_head=at_head, restart_calls=not at_head)
    outermost = callers[0].head
    root = BranchKey(source.thread_id, "", branch)
    siblings = yield from subgraph_commits(run, outermost, root, at_head=True, restart_calls=False)
    own = yield from _copy_commit(run, saved, target, head if branch == source.branch else None)
    own.pending = replace(saved.pending, answers={}, errors={}, attempts={}, retries={})
    discarded_questions = _load_question_ids(run, source)
    between: list[StepCommit] = []
    for caller in callers[1:]:
        replaced_head = caller.head if branch == source.branch else None
        commit = yield from _copy_commit(
            run, caller.head, caller.head.branch_key._replace(branch=branch), replaced_head
        )
        commit.pending = _pending_without(caller, discarded_questions)
        between.append(commit)
    before = outermost.checkpoint
    commit_id, now = yield from new_id_and_time(run, before.step + 1)
    after = copy_with_id(before, commit_id)
    pending = _pending_without(callers[0], discarded_questions)
    metadata = {"nodes": outermost.metadata.get("nodes", [])}
    commit = commit_of(
        run, before, after, [], now, source="fork", pending=pending, metadata=metadata, releases_thread=True
    )
    commit.branch_key, commit.checkpoint, commit.graph_version = root, after, outermost.graph_version
    commit.expected = outermost.id if branch == source.branch else None
    replaced = {commit.branch_key.namespace for commit in (own, *between)}
    siblings = [
        commit
        for commit in siblings
        if commit.branch_key.namespace not in replaced
        and not commit.branch_key.namespace.startswith(source.namespace + "|")
    ]
    commit.siblings = (*siblings, *inner, *between, own)
    yield from save_commit(run, commit)
    return target, CheckpointId(own.checkpoint.id)


def find_callers(branch_key: BranchKey) -> Generator[Effect, Any, list[Caller] | None]:
    """Return the tasks around a call, the outermost first; None if one of them no longer waits for the call."""
    segments = branch_key.namespace.split("|")
    callers: list[Caller] = []
    for depth, segment in enumerate(segments):
        head: SavedCheckpoint | None = yield Load(branch_key.branch, None, "|".join(segments[:depth]))
        inner_head: SavedCheckpoint | None = yield Load(branch_key.branch, None, "|".join(segments[: depth + 1]))
        if head is None or inner_head is None:
            return None
        task_id = parent_task_of(inner_head) if inner_head.metadata.get("remembers") else _task_in(segment)
        task = next((task for task in head.checkpoint.frontier if task.id == task_id), None)
        if task is None:
            return None
        callers.append(Caller(head, task))
    return callers


def _is_of_another_call(saved: SavedCheckpoint, task: Task) -> bool:
    """Return True if a checkpoint belongs to an earlier call with the same memory, and is not the end of that call.

    It cannot be resumed, because `task` has not made that call.
    """
    return parent_task_of(saved) != task.id and not saved.checkpoint.is_complete


def ended_call_message(branch_key: BranchKey) -> str:
    """Return an error message that says why a checkpoint of a call cannot be forked, and which checkpoint can be."""
    return (
        f"The call of a subgraph in namespace {branch_key.namespace!r} has ended, so it cannot continue from one of "
        f"its checkpoints. Fork a checkpoint of thread {branch_key.thread_id!r} itself, from before the call."
    )


def _pending_without(caller: Caller, discarded_questions: set[str]) -> Pending:
    """Return the pending data of a caller's checkpoint without the data of the calling task, which will run again."""
    pending, caller_id = caller.head.pending, caller.task.id
    return Pending(
        completed={task: result for task, result in pending.completed.items() if task != caller_id},
        interrupts={task: questions for task, questions in pending.interrupts.items() if task != caller_id},
        answers={key: answer for key, answer in pending.answers.items() if key not in discarded_questions},
        journal=dict(pending.journal),
        paused=pending.paused,
        settled={task: questions for task, questions in pending.settled.items() if task != caller_id},
    )


def _load_question_ids(run: Run, branch_key: BranchKey) -> set[str]:
    """Return the ids of all questions that were asked so far in the outermost call that contains a namespace."""
    saver, outermost = cast(Checkpointer, run.saver), branch_key.namespace.partition("|")[0]
    ids: set[str] = set()
    for name in resolve(saver.namespaces(branch_key.thread_id)):
        if name == outermost or name.startswith((outermost + "|", outermost + ":")):
            for saved in resolve(saver.history(branch_key.thread_id, namespace=name, branch=branch_key.branch)):
                ids.update(question.id for questions in saved.pending.interrupts.values() for question in questions)
    return ids
