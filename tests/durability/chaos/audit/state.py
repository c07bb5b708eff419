"""The state that the checks share: everything that is known about the file and the children so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.checkpoint import BranchKey, SavedCheckpoint

PAGE_SIZE: Final = 40
"""Checkpoints that are read at a time."""
Note = Mapping[str, Any]
TaskKey = tuple[str, str, str]
"""A thread, a branch, and the id of a task: forks and copies have tasks with the same ids."""


class BrokenPromise(Exception):
    """An invariant does not hold."""


@dataclass
class BranchHistory:
    """The checkpoints of a branch that have been in the file."""

    ids: list[str] = field(default_factory=list[str])
    """The ids of its checkpoints and their ancestors, by step."""
    step: int = -1
    """The step of the last checkpoint."""
    has_own: bool = False
    """True if some of them are not ancestors from another branch."""
    due: frozenset[str] = frozenset()
    """The tasks that are due at the head."""
    asking: frozenset[str] = frozenset()
    """The due tasks that wait for an answer."""


@dataclass
class AuditState:
    """Facts about the file and the children of a scenario."""

    shape: str
    durability: str
    histories: dict[BranchKey, BranchHistory] = field(default_factory=dict[BranchKey, BranchHistory])
    """All branches that have been in the file."""
    present: set[BranchKey] = field(default_factory=set[BranchKey])
    """The branches that are in the file now."""
    checkpoint_ids: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The threads and ids of all checkpoints that have been in the file."""
    finished: set[TaskKey] = field(default_factory=set[TaskKey])
    """The tasks that must not run again."""
    done: set[str] = field(default_factory=set[str])
    """The threads that have ended and were checked."""
    count: Counter[str] = field(default_factory=Counter[str])
    """The numbers that the report shows."""

    def is_consumed(self, key: BranchKey) -> bool:
        """Return whether a branch belongs to a subgraph whose calling task has finished, so that it may be deleted."""
        return any((*thread_branch(key), task_id) in self.finished for task_id in _calling_task_ids(key.namespace))

    def has_checkpoint(self, key: BranchKey, checkpoint_id: str) -> bool:
        return (key.thread_id, checkpoint_id) in self.checkpoint_ids or self.is_consumed(key)


def branch_key(note: Note) -> BranchKey:
    return BranchKey(*note["branch"])


def thread_branch(key: BranchKey) -> tuple[str, str]:
    """Return the thread and the name of a branch, which the branches of its subgraphs share."""
    return key.thread_id, key.branch


def task_key(note: Note, task_id: str | None = None) -> TaskKey:
    return *thread_branch(branch_key(note)), task_id or note["task"]


def describe_task(note: Note) -> str:
    return f"Task {note['task']} of node {note['node']!r} in {branch_key(note)}"


def _calling_task_ids(namespace: str) -> list[str]:
    """Return the ids of the tasks that lead to a namespace."""
    return [part for segment in namespace.split("|") for part in segment.split(":")[1:2]]


def iter_checkpoints(app: Any, key: BranchKey) -> Iterator[SavedCheckpoint]:
    """Yield the checkpoints of a branch, newest first."""
    before = None
    while True:
        page = app.checkpointer.history(
            key.thread_id, namespace=key.namespace, branch=key.branch, before=before, limit=PAGE_SIZE
        )
        yield from page
        if len(page) < PAGE_SIZE:
            return
        before = page[-1].id
