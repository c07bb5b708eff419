"""One thread of a saver in memory: its commits, heads, lease and log. The saver holds its lock during each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from statewright.checkpoint.checkpointer import PrunePolicy
from statewright.checkpoint.lease import LeasedThread, LeaseRequest
from statewright.checkpoint.model import Commit, Pending, SavedCheckpoint, Source
from statewright.events import Log
from statewright.ids import CheckpointId

Addition = tuple[str, Log | None]
"""An addition to the log of a run, with the namespace that made it."""


class MemoryThread(LeasedThread):
    """The commits of one thread by namespace and id, in order of saving, and the head of each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: dict[str, dict[str, Commit]] = {}
        """Commits owned by the saver, which adds results to their `pending`."""
        self.heads: dict[tuple[str, str], CheckpointId] = {}
        """The head by namespace and branch."""
        self.changed_at = datetime.now(UTC)
        self._additions: list[Commit | Addition] = []
        """Additions to the log: commits, and other additions with their namespaces."""

    def apply(self, request: LeaseRequest | None) -> bool:
        is_new = super().apply(request)
        if is_new and request is not None:
            self.changed_at = request.now
        return is_new

    # -- writing

    def keep(self, commit: Commit) -> CheckpointId:
        """Save a commit that was checked."""
        line = commit.branch_key
        self.apply(commit.hold)
        commits = self.commits.get(line.namespace)
        if commits is None:
            commits = self.commits[line.namespace] = {}
        parent = commits.get(commit.parent_id) if commit.parent_id is not None else None
        if parent is not None and parent.pending is not None and commit.source != "fork":
            parent.pending = _consumed(parent.pending, commit.source)
        checkpoint_id = CheckpointId(commit.checkpoint.id)
        commits[checkpoint_id] = commit
        self.heads[line.namespace, line.branch] = checkpoint_id
        self._additions.append(commit)
        for namespace in commit.dropped_namespaces:
            self._drop(namespace, line.branch)
        return checkpoint_id

    def add_log(self, namespace: str, log: Log) -> None:
        """Add entries to the log of a run outside a commit."""
        self._additions.append((namespace, log))

    def _drop(self, namespace: str, branch: str) -> None:
        """Delete a namespace and those inside it, on one branch. Checkpoints from which others forked stay."""
        inside = (f"{namespace}|", f"{namespace}:")
        for space in [space for space in self.commits if space == namespace or space.startswith(inside)]:
            if self.heads.pop((space, branch), None) is None:
                continue
            commits = self.commits.pop(space)
            heads = [head for (name, _), head in self.heads.items() if name == space]
            if heads:
                kept = {commit.checkpoint.id for head in heads for commit in ancestry(commits, head)}
                self.commits[space] = {key: commit for key, commit in commits.items() if key in kept}

    def prune(self, policy: PrunePolicy, *, dry_run: bool) -> int:
        """Delete the checkpoints that no branch keeps, or only count them; return their number."""
        count = 0
        for namespace, commits in self.commits.items():
            kept: set[str] = set()
            for branch in [branch for space, branch in self.heads if space == namespace]:
                newest_first = [commit for commit in reversed(commits.values()) if commit.branch_key.branch == branch]
                number = policy.kept([commit.created_at for commit in newest_first])
                kept.update(commit.checkpoint.id for commit in newest_first[:number])
            removed = [key for key in commits if key not in kept]
            count += len(removed)
            if removed and not dry_run:
                self._keep_logs([commits.pop(key) for key in removed])
        return count

    def _keep_logs(self, removed: Sequence[Commit]) -> None:
        """Replace deleted commits by their additions to the log, which stay."""
        ids = set(map(id, removed))
        self._additions = [
            _log_of(addition) if isinstance(addition, Commit) and id(addition) in ids else addition
            for addition in self._additions
        ]

    def copy(self, to: str) -> MemoryThread:
        """Return a copy of the thread with the id `to`, without its lease."""
        copied = MemoryThread()
        copied.heads = dict(self.heads)
        copied._additions = [*chain.from_iterable(self.logs().values())]
        for namespace, commits in self.commits.items():
            copied.commits[namespace] = {key: _moved(commit, to) for key, commit in commits.items()}
        return copied

    # -- reading

    def logs(self) -> dict[str, list[tuple[str, Log]]]:
        """Return the additions to the log of each run with their namespaces, in order of the starts of the runs."""
        logs: dict[str, list[tuple[str, Log]]] = {}
        for addition in self._additions:
            namespace, log = _log_of(addition) if isinstance(addition, Commit) else addition
            if log is not None:
                logs.setdefault(log.run_id, []).append((namespace, log))
        return logs


def saved_checkpoint(commit: Commit, thread: MemoryThread | None = None) -> SavedCheckpoint:
    """Return a commit as a saved checkpoint; with the epoch and the lease of its thread, if that is given."""
    return SavedCheckpoint(
        branch_key=commit.branch_key,
        parent_id=commit.parent_id,
        checkpoint=commit.checkpoint,
        source=commit.source,
        run_id=commit.run_id,
        created_at=commit.created_at,
        metadata=commit.metadata,
        pending=commit.pending or Pending(),
        graph_version=commit.graph_version,
        epoch=thread.epoch if thread is not None else None,
        lease=thread.lease if thread is not None else None,
    )


def ancestry(commits: Mapping[str, Commit], head: CheckpointId | None) -> Iterator[Commit]:
    """Yield a commit and its ancestors, the newest first."""
    while head is not None and head in commits:
        commit = commits[head]
        yield commit
        head = commit.parent_id


def _log_of(commit: Commit) -> Addition:
    return commit.branch_key.namespace, commit.log


def _moved(commit: Commit, to: str) -> Commit:
    """Return the same commit for another thread."""
    values: dict[str, Any] = {field.name: getattr(commit, field.name) for field in fields(Commit)}
    values["branch_key"] = commit.branch_key._replace(thread_id=to)
    values["pending"] = commit.pending.merged(Pending()) if commit.pending is not None else None
    return Commit(**values)


def _consumed(pending: Pending, source: Source) -> Pending:
    """Return the results that remain for a frontier whose tasks are done or discarded.

    Results that a superstep has applied are in its state, unless one of its tasks asked a question: a fork from here
    may answer it differently, and then needs the results of the other tasks. Results of a superstep that a rollback
    discarded remain as well, and so does its journal, for a run that returns to it.
    """
    completed = {} if source == "loop" and not pending.interrupts else pending.completed
    journal = {} if source == "loop" else pending.journal
    return replace(pending, completed=completed, attempts={}, retries={}, journal=journal)
