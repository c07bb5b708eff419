"""A thread in a saver in memory: its commits, heads, lease and event log. The saver holds its lock during each call."""

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

NamespacedLog = tuple[str, Log | None]
"""Log entries that one write has added, with the namespace of the write; the log is None if it added none."""


class MemoryThread(LeasedThread):
    """One thread, with its checkpoints and its lease."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: dict[str, dict[str, Commit]] = {}
        """The commits by namespace and checkpoint id, in the order in which they were saved. The saver owns them and
        adds results to their `pending`."""
        self.heads: dict[tuple[str, str], CheckpointId] = {}
        """The id of the head, by namespace and branch."""
        self.changed_at = datetime.now(UTC)
        self._log_sources: list[Commit | NamespacedLog] = []
        """The writes that may have added entries to the event log, in order: commits, and logs of other writes."""

    def apply(self, request: LeaseRequest | None) -> bool:
        is_new_epoch = super().apply(request)
        if is_new_epoch and request is not None:
            self.changed_at = request.now
        return is_new_epoch

    # -- writing

    def save(self, commit: Commit) -> CheckpointId:
        """Save a commit that has been checked."""
        _, own_namespace, branch = commit.branch_key
        self.apply(commit.hold)
        commits = self.commits.get(own_namespace)
        if commits is None:
            commits = self.commits[own_namespace] = {}
        parent = commits.get(commit.parent_id) if commit.parent_id is not None else None
        if parent is not None and parent.pending is not None and commit.source != "fork":
            parent.pending = _remaining_results(parent.pending, commit.source)
        checkpoint_id = CheckpointId(commit.checkpoint.id)
        commits[checkpoint_id] = commit
        self.heads[own_namespace, branch] = checkpoint_id
        self._log_sources.append(commit)
        for namespace in commit.dropped_namespaces:
            self._delete_namespace(namespace, branch)
        return checkpoint_id

    def add_log(self, namespace: str, log: Log) -> None:
        """Add entries to the event log of a run that are not part of a commit."""
        self._log_sources.append((namespace, log))

    def _delete_namespace(self, namespace: str, branch: str) -> None:
        """Delete a namespace, and the namespaces nested in it, on one branch. Checkpoints of other branches remain."""
        nested_prefixes = (f"{namespace}|", f"{namespace}:")
        for name in [name for name in self.commits if name == namespace or name.startswith(nested_prefixes)]:
            if self.heads.pop((name, branch), None) is None:
                continue
            commits = self.commits.pop(name)
            other_heads = [head for (head_namespace, _), head in self.heads.items() if head_namespace == name]
            if other_heads:
                remaining = {commit.checkpoint.id for head in other_heads for commit in ancestry(commits, head)}
                self.commits[name] = {key: commit for key, commit in commits.items() if key in remaining}

    def prune(self, policy: PrunePolicy, *, dry_run: bool) -> int:
        """Delete the checkpoints that the policy does not keep, or with `dry_run` only count them.

        Return their number.
        """
        count = 0
        for namespace, commits in self.commits.items():
            kept_ids: set[str] = set()
            for branch in [branch for head_namespace, branch in self.heads if head_namespace == namespace]:
                newest_first = [commit for commit in reversed(commits.values()) if commit.branch_key.branch == branch]
                kept_count = policy.count_kept([commit.created_at for commit in newest_first])
                kept_ids.update(commit.checkpoint.id for commit in newest_first[:kept_count])
            removed = [key for key in commits if key not in kept_ids]
            count += len(removed)
            if removed and not dry_run:
                self._keep_logs([commits.pop(key) for key in removed])
        return count

    def _keep_logs(self, removed: Sequence[Commit]) -> None:
        """Keep only the logs of deleted commits."""
        ids = set(map(id, removed))
        self._log_sources = [
            _log_of(source) if isinstance(source, Commit) and id(source) in ids else source
            for source in self._log_sources
        ]

    def copy(self, to: str) -> MemoryThread:
        """Return a copy of the thread with the id `to`, without its lease."""
        copied = MemoryThread()
        copied.heads = dict(self.heads)
        copied._log_sources = [*chain.from_iterable(self.logs().values())]
        for namespace, commits in self.commits.items():
            copied.commits[namespace] = {key: _copy_commit(commit, to) for key, commit in commits.items()}
        return copied

    # -- reading

    def logs(self) -> dict[str, list[tuple[str, Log]]]:
        """Return the logs of each run with their namespaces, by run id, in the order in which the runs started."""
        logs: dict[str, list[tuple[str, Log]]] = {}
        for source in self._log_sources:
            namespace, log = _log_of(source) if isinstance(source, Commit) else source
            if log is not None:
                logs.setdefault(log.run_id, []).append((namespace, log))
        return logs


def saved_checkpoint(commit: Commit, thread: MemoryThread | None = None) -> SavedCheckpoint:
    """Return a commit as a saved checkpoint, with the epoch and the lease of the thread if `thread` is given."""
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
    """Yield a commit and its ancestors, newest first. `head` is the id of the commit's checkpoint."""
    while head is not None and head in commits:
        commit = commits[head]
        yield commit
        head = commit.parent_id


def _log_of(commit: Commit) -> NamespacedLog:
    return commit.branch_key.namespace, commit.log


def _copy_commit(commit: Commit, to: str) -> Commit:
    """Return a copy of a commit for the thread with the id `to`."""
    values: dict[str, Any] = {field.name: getattr(commit, field.name) for field in fields(Commit)}
    values["branch_key"] = commit.branch_key._replace(thread_id=to)
    values["pending"] = commit.pending.merged(Pending()) if commit.pending is not None else None
    return Commit(**values)


def _remaining_results(pending: Pending, source: Source) -> Pending:
    """Return the results that a checkpoint keeps once it has a child, whose source is `source`.

    The results of a completed superstep are part of the child's state, so they are deleted. They are kept if one of the
    tasks asked a question, because a fork of the checkpoint may answer it differently and then needs the results of the
    other tasks. If the superstep was not completed but discarded by a rollback or `update_state`, its results and its
    journal are kept for a run that returns to the checkpoint.
    """
    completed = {} if source == "loop" and not pending.interrupts else pending.completed
    journal = {} if source == "loop" else pending.journal
    return replace(pending, completed=completed, attempts={}, retries={}, journal=journal)
