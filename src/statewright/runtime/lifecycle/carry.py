"""Keep subgraphs consistent with their callers when a checkpoint becomes the head of a branch: forks and rollbacks.

A subgraph with memory="thread" has a branch of its own for each branch of its thread. Each commit of its caller records
the checkpoint of the subgraph that it knew, so a rollback or a fork restores the memory of that time. A call with
memory="call" belongs to a task: where the task is due again and runs from its beginning, so does its call.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from statewright.checkpoint import BranchKey, Checkpoint, Checkpointer, Pending, SavedCheckpoint, Task
from statewright.errors import CheckpointNotFound, InvalidUpdateError
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Load, Namespaces
from statewright.runtime.core.saving import commit_of, draw_stamp, save_commit
from statewright.runtime.invocation.run import Run

Carrying = Generator[Effect, Any, tuple[StepCommit, ...]]


def taken_along(run: Run, saved: SavedCheckpoint | None, line: BranchKey, *, at_head: bool, anew: bool) -> Carrying:
    """Return the commits that belong beside the one that makes `saved` the head of `line`; None is the beginning.

    `at_head` says whether it is the head of its own branch: then calls and memories are taken where they stand.
    Otherwise memories are taken as they were, and calls, if `anew`, begin anew. Notes the memories in the run.
    """
    memories = dict(saved.metadata.get("memories", {})) if saved is not None else {}
    run.memories = memories
    if saved is not None and at_head and saved.line.branch == line.branch:
        return ()
    prefix = f"{line.namespace}|" if line.namespace else ""
    inside = [name for name in (yield Namespaces()) if name != line.namespace and name.startswith(prefix)]
    if not inside:
        return ()
    due: set[str] = {task.id for task in saved.checkpoint.frontier} if saved is not None else set()
    if saved is not None and at_head and not anew:
        commits = yield from _heads(run, saved, line, inside, due)
    else:
        commits = yield from _remembered(run, line, memories)
        begun = [name for name in inside if _task_of(name, prefix) in due]
        if saved is not None and not anew and saved.line.branch != line.branch:
            commits += yield from _copies(run, saved.line.branch, line, begun)
        commits += yield from _begun_anew(run, line, inside, {one.line.namespace for one in commits}, prefix, due, anew)
    for commit in commits:
        if commit.line.namespace in memories:
            memories[commit.line.namespace] = commit.checkpoint.id
    return tuple(commits)


def _task_of(namespace: str, prefix: str) -> str:
    """The id of the task that made the outermost call of a namespace, seen from inside `prefix`; empty for memories."""
    segment = namespace[len(prefix) :].partition("|")[0]
    return segment.partition(":")[2].partition(":")[0]


def _heads(
    run: Run, saved: SavedCheckpoint, line: BranchKey, inside: list[str], due: set[str]
) -> Generator[Effect, Any, Any]:
    """The open calls and the memories of a branch, where they stand."""
    prefix = f"{line.namespace}|" if line.namespace else ""
    wanted: list[str] = []
    for name in inside:
        if _task_of(name, prefix) in due:
            wanted.append(name)
            continue
        top = prefix + name[len(prefix) :].partition("|")[0]
        head: SavedCheckpoint | None = yield Load(saved.line.branch, None, top)
        if head is not None and head.metadata.get("remembers"):
            wanted.append(name)
    return (yield from _copies(run, saved.line.branch, line, wanted))


def _copies(run: Run, branch: str, line: BranchKey, namespaces: list[str]) -> Generator[Effect, Any, list[StepCommit]]:
    """The heads of namespaces on one branch, once more on that of `line`."""
    commits: list[StepCommit] = []
    for name in namespaces:
        head: SavedCheckpoint | None = yield Load(branch, None, name)
        if head is not None:
            commits.append((yield from _copy(run, head, line._replace(namespace=name))))
    return commits


def _remembered(run: Run, line: BranchKey, memories: Mapping[str, str]) -> Generator[Effect, Any, list[StepCommit]]:
    """Return memories as they were at a checkpoint, nested memories included."""
    commits: list[StepCommit] = []
    for namespace, checkpoint_id in memories.items():
        saved: SavedCheckpoint | None = yield Load(line.branch, checkpoint_id, namespace)
        if saved is None:
            raise CheckpointNotFound(
                f"Thread {line.thread_id!r} cannot go back there: what the subgraph {namespace!r} remembered then was "
                f"pruned. Choose a later checkpoint, or prune less."
            )
        commits.append((yield from _copy(run, saved, line._replace(namespace=namespace))))
        commits.extend((yield from _remembered(run, line, saved.metadata.get("memories", {}))))
    return commits


def _begun_anew(
    run: Run, line: BranchKey, inside: list[str], taken: set[str], prefix: str, due: set[str], anew: bool
) -> Generator[Effect, Any, list[StepCommit]]:
    """Return commits that reset calls, and memories that did not exist yet, on a branch that has them."""
    commits: list[StepCommit] = []
    for name in inside:
        if name in taken:
            continue
        head: SavedCheckpoint | None = yield Load(line.branch, None, name)
        if head is None or head.metadata.get("reset"):
            continue
        if _task_of(name, prefix) in due:
            begins_anew = anew or run.config.keeps_calls
        else:
            top = prefix + name[len(prefix) :].partition("|")[0]
            outer: SavedCheckpoint | None = head if top == name else (yield Load(line.branch, None, top))
            begins_anew = top in taken or (outer is not None and bool(outer.metadata.get("remembers")))
        if begins_anew:
            commits.append((yield from beginning(run, head)))
    return commits


def _copy(run: Run, saved: SavedCheckpoint, line: BranchKey) -> Generator[Effect, Any, StepCommit]:
    """A checkpoint once more, as the head of a line."""
    head: SavedCheckpoint | None = yield Load(line.branch, None, line.namespace)
    return (yield from copied(run, saved, line, head))


def copied(
    run: Run, saved: SavedCheckpoint, line: BranchKey, head: SavedCheckpoint | None
) -> Generator[Effect, Any, StepCommit]:
    """Return the commit that makes a checkpoint the head of another branch, or of its own again."""
    before = saved.checkpoint
    step = (head if head is not None else saved).checkpoint.step + 1
    commit_id, now = yield from draw_stamp(run, step)
    after = Checkpoint(commit_id, step, before.values, before.frontier, before.held, before.joins, before.reported)
    # What is copied is followed, but for calls of another branch: those will be dropped when their tasks are done.
    follows = before if saved.metadata.get("remembers") or line.branch == saved.line.branch else None
    commit = commit_of(
        run, follows, after, [], now, source="fork", pending=saved.pending, metadata=dict(saved.metadata)
    )
    commit.put_beside(line, after, head.id if head is not None else None)
    commit.graph_version = saved.graph_version
    return commit


def beginning(run: Run, head: SavedCheckpoint) -> Generator[Effect, Any, StepCommit]:
    """Return the commit that resets a branch of a namespace: its history stays, and the next call starts afresh."""
    commit_id, now = yield from draw_stamp(run, head.checkpoint.step + 1)
    after = Checkpoint(commit_id, head.checkpoint.step + 1, {}, ())
    kept = {name: head.metadata[name] for name in ("remembers",) if name in head.metadata}
    commit = commit_of(run, None, after, [], now, source="fork", metadata={**kept, "reset": True})
    commit.put_beside(head.line, after, CheckpointId(head.id))
    commit.graph_version = head.graph_version
    return commit


# -- forks inside a subgraph that has been called and has not ended
#
# A call is not a thread of its own: it is resumed when the task of its caller runs again. So a fork of one of its
# checkpoints commits every graph around it once more, at the same position, with the task that made the call due, and
# without its earlier questions and answers.

Forking = Generator[Effect, Any, tuple[BranchKey, CheckpointId]]


class Caller(NamedTuple):
    """A task that waits for a call, and the checkpoint at which it is due."""

    head: SavedCheckpoint
    task: Task


def fork_inside(run: Run, saved: SavedCheckpoint, branch: str) -> Forking:
    """Make a checkpoint of a call its head on a branch, new or its own, and let the tasks around it run again."""
    source = saved.line
    callers = yield from find_callers(source)
    if callers is None or _is_of_another_call(saved, callers[-1].task):
        raise InvalidUpdateError(has_ended(source))
    head: SavedCheckpoint | None = yield Load(source.branch, None, source.namespace)
    at_head = head is not None and head.id == saved.id
    line = source._replace(branch=branch)
    inner = yield from taken_along(run, saved, line, at_head=at_head, anew=not at_head)
    outer = callers[0].head
    root = BranchKey(source.thread_id, "", branch)
    around = yield from taken_along(run, outer, root, at_head=True, anew=False)
    own = yield from copied(run, saved, line, head if branch == source.branch else None)
    own.pending = replace(saved.pending, answers={}, errors={}, attempts={}, retries={})
    forgotten = _questions_inside(run, source)
    between: list[StepCommit] = []
    for caller in callers[1:]:
        replaced_head = caller.head if branch == source.branch else None
        commit = yield from copied(run, caller.head, caller.head.line._replace(branch=branch), replaced_head)
        commit.pending = _without(caller, forgotten)
        between.append(commit)
    before = outer.checkpoint
    commit_id, now = yield from draw_stamp(run, before.step + 1)
    after = Checkpoint(
        commit_id,
        before.step + 1,
        before.values,
        before.frontier,
        before.held,
        before.joins,
        before.reported,
    )
    pending, notes = _without(callers[0], forgotten), {"nodes": outer.metadata.get("nodes", [])}
    commit = commit_of(run, before, after, [], now, source="fork", pending=pending, metadata=notes, releases=True)
    commit.line, commit.checkpoint, commit.graph_version = root, after, outer.graph_version
    commit.expected = outer.id if branch == source.branch else None
    replaced = {one.line.namespace for one in (own, *between)}
    others = [
        one
        for one in around
        if one.line.namespace not in replaced and not one.line.namespace.startswith(source.namespace + "|")
    ]
    commit.beside = (*others, *inner, *between, own)
    yield from save_commit(run, commit)
    return line, CheckpointId(own.checkpoint.id)


def find_callers(line: BranchKey) -> Generator[Effect, Any, list[Caller] | None]:
    """Return the tasks around a call, the outermost first; None if one of them does not wait for it any more."""
    segments = line.namespace.split("|")
    callers: list[Caller] = []
    for depth, segment in enumerate(segments):
        head: SavedCheckpoint | None = yield Load(line.branch, None, "|".join(segments[:depth]))
        inside: SavedCheckpoint | None = yield Load(line.branch, None, "|".join(segments[: depth + 1]))
        if head is None or inside is None:
            return None
        identity = segment.partition(":")[2].partition(":")[0]
        if inside.metadata.get("remembers"):
            identity = str(inside.metadata.get("parent_task", "")).partition(":")[0]
        task = next((task for task in head.checkpoint.frontier if task.id == identity), None)
        if task is None:
            return None
        callers.append(Caller(head, task))
    return callers


def _is_of_another_call(saved: SavedCheckpoint, task: Task) -> bool:
    """True if a checkpoint is in the middle of an earlier call of a memory, which nothing could resume."""
    caller = str(saved.metadata.get("parent_task", "")).partition(":")[0]
    return caller != task.id and not saved.checkpoint.at_rest


def has_ended(line: BranchKey) -> str:
    """Explain why a checkpoint of a call cannot be forked, and which one can."""
    return (
        f"The call of a subgraph in namespace {line.namespace!r} has ended, so nothing would go on from there. "
        f"Fork a checkpoint of thread {line.thread_id!r} itself from before the call: its history has them."
    )


def _without(caller: Caller, forgotten: set[str]) -> Pending:
    """Return the saved data of the other tasks of a checkpoint; the caller is due as if it had not run."""
    known, own = caller.head.pending, caller.task.id
    return Pending(
        completed={task: result for task, result in known.completed.items() if task != own},
        interrupts={task: questions for task, questions in known.interrupts.items() if task != own},
        answers={key: answer for key, answer in known.answers.items() if key not in forgotten},
        journal=dict(known.journal),
        paused=known.paused,
        settled={task: questions for task, questions in known.settled.items() if task != own},
    )


def _questions_inside(run: Run, line: BranchKey) -> set[str]:
    """The ids of all questions that the outermost call around a namespace has asked so far."""
    saver, top = cast(Checkpointer, run.saver), line.namespace.partition("|")[0]
    ids: set[str] = set()
    for name in resolve(saver.namespaces(line.thread_id)):
        if name == top or name.startswith((top + "|", top + ":")):
            for saved in resolve(saver.history(line.thread_id, namespace=name, branch=line.branch)):
                ids.update(one.id for questions in saved.pending.interrupts.values() for one in questions)
    return ids
