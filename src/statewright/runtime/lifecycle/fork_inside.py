"""Going back inside a subgraph that a task has called and that has not ended.

A call is no thread of its own: it goes on when its caller's task runs again. So a fork of one of its checkpoints also
commits every graph around it once more, at the same place, but with the task that made the call due and its former
questions and answers forgotten.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple, cast

from statewright.checkpoint import BranchKey, Checkpoint, Checkpointer, Pending, SavedCheckpoint, Task
from statewright.errors import InvalidUpdateError
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.runtime.core.effects import Effect, Load
from statewright.runtime.core.loop import commit_of, save_commit
from statewright.runtime.core.run import Run
from statewright.runtime.lifecycle.carry import copied, taken_along

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
    own = copied(run, saved, line, head if branch == source.branch else None)
    own.pending = replace(saved.pending, answers={}, errors={}, attempts={}, retries={})
    forgotten = _questions_inside(run, source)
    between = [
        copied(run, one.head, one.head.line._replace(branch=branch), one.head if branch == source.branch else None)
        for one in callers[1:]
    ]
    for commit, one in zip(between, callers[1:], strict=True):
        commit.pending = _without(one, forgotten)
    before = outer.checkpoint
    after = Checkpoint(
        run.commit_id(before.step + 1),
        before.step + 1,
        before.values,
        before.frontier,
        before.held,
        before.joins,
        before.reported,
    )
    pending, notes = _without(callers[0], forgotten), {"nodes": outer.metadata.get("nodes", [])}
    commit = commit_of(run, before, after, [], source="fork", pending=pending, metadata=notes, releases=True)
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
    """Whether a checkpoint stands in the middle of a former call of a memory, which nothing could go on with."""
    caller = str(saved.metadata.get("parent_task", "")).partition(":")[0]
    return caller != task.id and not saved.checkpoint.at_rest


def has_ended(line: BranchKey) -> str:
    """Say why a checkpoint of a call cannot be gone back to, and what can."""
    return (
        f"The call of a subgraph in namespace {line.namespace!r} has ended, so nothing would go on from there. "
        f"Fork a checkpoint of thread {line.thread_id!r} itself from before the call: its history has them."
    )


def _without(caller: Caller, forgotten: set[str]) -> Pending:
    """What is known of the other tasks of a checkpoint; the caller is due as if it had not run."""
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
