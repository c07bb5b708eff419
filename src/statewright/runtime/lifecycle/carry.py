"""What goes with a checkpoint that becomes the head of a branch: memories of subgraphs, and calls that it has begun.

A subgraph with memory="thread" has a line of its own on each branch of its thread. Each commit of its caller notes
which checkpoint of that line it knew, so going back to a commit, or forking it, brings the memory of that time along.
A call with memory="call" belongs to a task: where the task is due again and is to run anew, its call begins anew too.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from statewright.checkpoint import BranchKey, Checkpoint, SavedCheckpoint
from statewright.errors import CheckpointNotFound
from statewright.ids import CheckpointId
from statewright.runtime.core.commit import StepCommit
from statewright.runtime.core.effects import Effect, Load, Namespaces
from statewright.runtime.core.loop import commit_of
from statewright.runtime.core.run import Run

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
    """Memories as they were at a checkpoint, and the memories in them."""
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
    """Commits that let calls, and memories that did not exist yet, begin anew on a branch that has them."""
    commits: list[StepCommit] = []
    for name in inside:
        if name in taken:
            continue
        head: SavedCheckpoint | None = yield Load(line.branch, None, name)
        if head is None or head.metadata.get("reset"):
            continue
        if _task_of(name, prefix) in due:
            begins_anew = anew or run.keeps_calls
        else:
            top = prefix + name[len(prefix) :].partition("|")[0]
            outer: SavedCheckpoint | None = head if top == name else (yield Load(line.branch, None, top))
            begins_anew = top in taken or (outer is not None and bool(outer.metadata.get("remembers")))
        if begins_anew:
            commits.append(beginning(run, head))
    return commits


def _copy(run: Run, saved: SavedCheckpoint, line: BranchKey) -> Generator[Effect, Any, StepCommit]:
    """A checkpoint once more, as the head of a line."""
    head: SavedCheckpoint | None = yield Load(line.branch, None, line.namespace)
    return copied(run, saved, line, head)


def copied(run: Run, saved: SavedCheckpoint, line: BranchKey, head: SavedCheckpoint | None) -> StepCommit:
    """The commit that makes a checkpoint the head of another line, or of its own again."""
    before = saved.checkpoint
    step = (head if head is not None else saved).checkpoint.step + 1
    after = Checkpoint(
        run.commit_id(step), step, before.values, before.frontier, before.held, before.joins, before.reported
    )
    # What is copied is followed, but for calls of another branch: those will be dropped when their tasks are done.
    follows = before if saved.metadata.get("remembers") or line.branch == saved.line.branch else None
    commit = commit_of(run, follows, after, [], source="fork", pending=saved.pending, metadata=dict(saved.metadata))
    commit.put_beside(line, after, head.id if head is not None else None)
    commit.graph_version = saved.graph_version
    return commit


def beginning(run: Run, head: SavedCheckpoint) -> StepCommit:
    """The commit that lets a line begin anew: its history stays, and the next call finds nothing."""
    after = Checkpoint(run.commit_id(head.checkpoint.step + 1), head.checkpoint.step + 1, {}, ())
    kept = {name: head.metadata[name] for name in ("remembers",) if name in head.metadata}
    commit = commit_of(run, None, after, [], source="fork", metadata={**kept, "reset": True})
    commit.put_beside(head.line, after, CheckpointId(head.id))
    commit.graph_version = head.graph_version
    return commit
