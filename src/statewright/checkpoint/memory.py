"""A saver in memory, for tests and for programs whose threads need not survive the process.

It stores the same objects that runs use, without encoding or copying them, so the cost of a commit does not depend on
the size of the state. This is safe because values are never changed in place. It also means that the saver accepts
values that a database cannot store. With `checks_values=True` it encodes each commit to check it, and refuses the same
values as a database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from statewright.checkpoint.checkpointer import Pruned, PrunePolicy, ThreadEntry, check_workspace
from statewright.checkpoint.lease import Lease, LeaseRequest, as_lease_duration, check_lease, is_claim_outdated
from statewright.checkpoint.memory_thread import MemoryThread, ancestry, saved_checkpoint
from statewright.checkpoint.model import BranchKey, Commit, Pending, SavedCheckpoint
from statewright.clock import Duration
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    JournalConflict,
    SerdeError,
)
from statewright.events import Event, Log
from statewright.ids import DEFAULT_WORKSPACE, CheckpointId
from statewright.page import cut_page

if TYPE_CHECKING:  # packages for encoding are imported only if values are checked
    from statewright.checkpoint.encoding import Encoder
    from statewright.serde.serde import Serde


class _SharedEncoder:
    """The encoder that a saver and its copies for other workspaces use to check values. It is created on first use."""

    def __init__(self) -> None:
        self._types: dict[type, None] = {}
        self._lock = threading.Lock()

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes. A class whose values cannot be stored is not an error here."""
        with self._lock:
            self._types |= dict.fromkeys(types)
            if (encoder := self.__dict__.get("encoder")) is not None:
                _allow_storable(encoder.serde, types)

    @cached_property
    def encoder(self) -> Encoder:
        from statewright.checkpoint.encoding import Encoder
        from statewright.serde.serde import Serde

        with self._lock:
            encoder = Encoder(Serde())
            _allow_storable(encoder.serde, self._types)
            self.__dict__["encoder"] = encoder  # set before the lock is released, because `allow` must see it
        return encoder


def _allow_storable(serde: Serde, types: Iterable[type]) -> None:
    """Permit values of these classes, except of classes whose values cannot be stored."""
    for cls in types:
        with suppress(SerdeError):
            serde.allow((cls,))


class InMemorySaver:
    """Stores the checkpoints of threads in memory. Safe to use from several OS threads at once.

    `for_workspace` returns a saver for the same data that sees the threads of another workspace. `checked` returns a
    saver for the same data that refuses values which a database cannot store.
    """

    def __init__(
        self,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease: Duration | None = None,
        checks_values: bool = False,
    ) -> None:
        """Each write of a run renews the run's lease on its thread for `lease`, by default 60 seconds.

        With `checks_values=True`, values that `SqliteSaver` cannot store raise SerdeError.
        """
        self.lease_duration = as_lease_duration(lease)
        self._checks_values = checks_values
        self._shared = _SharedEncoder()
        self._lock = threading.Lock()
        self._page_end: tuple[int, CheckpointId | None, CheckpointId | None] | None = None
        """The end of the last page of a history, where the next page continues: the id of the dict of commits, the
        head of the branch, and the last checkpoint of the page."""
        self._workspaces: dict[str, dict[str, MemoryThread]] = {}
        """The threads of each workspace, by thread id."""
        self._bind(workspace)

    def _bind(self, workspace: str) -> None:
        self.workspace = check_workspace(workspace)
        with self._lock:
            self._threads = self._workspaces.setdefault(workspace, {})

    @property
    def scope(self) -> Hashable:
        """A key that is equal for savers with the same data and workspace."""
        return id(self._workspaces), self.workspace

    def for_workspace(self, workspace: str) -> Self:
        """Return a saver for the same data that sees the threads of another workspace."""
        saver = copy(self)
        saver._bind(workspace)
        return saver

    def checked(self) -> Self:
        """Return a saver for the same data that raises SerdeError for values which a database cannot store."""
        saver = copy(self)
        saver._checks_values = True
        return saver

    @property
    def serde(self) -> Serde:
        """The serde that encodes values to check them. Register classes with it as for a saver with a database."""
        return self._shared.encoder.serde

    def check_value(self, value: Any) -> None:
        """Raise SerdeError if a database could not store a value; do nothing unless values are checked."""
        if self._checks_values:
            self.serde.encode(value)

    def workspaces(self) -> list[str]:
        """Return the workspaces that have threads, sorted."""
        with self._lock:
            return sorted(workspace for workspace, threads in self._workspaces.items() if threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def from_conn_string(cls, conn_string: str = "") -> Self:
        """Return a new saver; the connection string is ignored."""
        return cls()

    def close(self) -> None:
        """Do nothing, because no resources are open."""

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> SavedCheckpoint | None:
        with self._lock:  # a checkpoint and its epoch must be read at the same moment, because a claim relies on it
            thread = self._threads.get(thread_id)
            if thread is None:
                return None
            requested = checkpoint_id or thread.heads.get((namespace, branch))
            commit = thread.commits.get(namespace, {}).get(requested) if requested is not None else None
            return saved_checkpoint(commit, thread) if commit is not None else None

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes to be saved.

        If values are checked, raises SerdeError for a class whose values cannot be stored.
        """
        if self._checks_values:
            self.serde.allow(types)
        else:
            self._shared.allow(types)

    def commit(self, commit: Commit, *, also: Sequence[Callable[[], object]] = ()) -> CheckpointId:
        """Save a superstep. `also` are functions that make further changes. If one raises, it must change nothing."""
        if self._checks_values:
            self._shared.encoder.check_commit(commit)
        with self._lock:
            for each in (*commit.siblings, commit):
                self._check_commit(each)
            for write in also:
                write()
            for sibling in commit.siblings:
                self._save_commit(sibling)
            return self._save_commit(commit)

    def _check_commit(self, commit: Commit) -> None:
        """Raise an error if the lease or the head does not permit a commit. The caller must hold the lock."""
        thread_id, namespace, branch = commit.branch_key
        thread = self._threads.get(thread_id)
        check_lease(thread, thread_id, commit.hold)
        head = thread.heads.get((namespace, branch)) if thread is not None else None
        if head != commit.expected or is_claim_outdated(thread, commit.hold):
            raise CheckpointConflict(thread_id, commit.expected, head)

    def _save_commit(self, commit: Commit) -> CheckpointId:
        """Save a commit that has been checked. The caller must hold the lock."""
        thread_id = commit.branch_key.thread_id
        thread = self._threads.get(thread_id)
        if thread is None:
            thread = self._threads[thread_id] = MemoryThread()
        return thread.save(commit)

    def save_results(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Callable[[], object]] = (),
    ) -> None:
        if self._checks_values:
            self._shared.encoder.check_results(pending, log, branch_key.namespace)
        with self._lock:
            thread = self._threads.get(branch_key.thread_id)
            check_lease(thread, branch_key.thread_id, hold)
            commit = thread.commits.get(branch_key.namespace, {}).get(checkpoint_id) if thread is not None else None
            if thread is None or commit is None:
                raise CheckpointNotFound(
                    f"Thread {branch_key.thread_id!r} has no checkpoint {checkpoint_id!r} to add results to."
                )
            head = thread.heads.get((branch_key.namespace, branch_key.branch))
            if is_claim_outdated(thread, hold, is_head=head == checkpoint_id):
                raise CheckpointConflict(branch_key.thread_id, checkpoint_id, head)
            check_journal(commit.pending, pending)
            for write in also:
                write()
            thread.apply(hold)
            if log is not None:
                thread.add_log(branch_key.namespace, log)
            commit.pending = (commit.pending or Pending()).merged(pending)

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        with self._lock:
            thread = self._threads.get(thread_id)
            logs = thread.logs() if thread is not None else {}
        events: list[Event] = []
        for run_logs in logs.values() if run_id is None else (logs.get(run_id, ()),):
            next_number = 1
            for namespace, log in run_logs:
                events.extend(log.events(thread_id, namespace, next_number))
                next_number += len(log.entries)
        return [event for event in events if run_id is None or (event.seq or 0) > after][cut_page(limit)]

    def renew(self, thread_id: str, hold: LeaseRequest) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            check_lease(thread, thread_id, hold)
            if is_claim_outdated(thread, hold):
                raise CheckpointConflict(thread_id, None, self._main_head(thread_id))
            if thread is None:
                return None
            thread.apply(hold)
            return thread.lease

    def lease(self, thread_id: str) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            return thread.lease if thread is not None else None

    def want(self, thread_id: str, what: str) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or thread.owner is None:
                return None
            thread.wanted = what
            return thread.lease

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> Sequence[SavedCheckpoint]:
        with self._lock:
            thread = self._threads.get(thread_id) or MemoryThread()
            commits = thread.commits.get(namespace, {})
            head = thread.heads.get((namespace, branch or "main"))
            is_next_page = self._page_end == (id(commits), head, before)
            if branch is not None and before is not None and is_next_page and before in commits:
                remaining = ancestry(commits, commits[before].parent_id)
            else:
                remaining = reversed(commits.values()) if branch is None else ancestry(commits, head)
                # `all` consumes the iterator up to and including `before`, so that the page starts after it.
                if before is not None and all(commit.checkpoint.id != before for commit in remaining):
                    raise CheckpointNotFound(f"Thread {thread_id!r} has no checkpoint {before!r}. List its history.")
            page = [saved_checkpoint(commit) for commit in islice(remaining, cut_page(limit).stop)]
            self._page_end = (id(commits), head, page[-1].id) if page else None
        return page

    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        with self._lock:
            thread = self._threads.get(thread_id) or MemoryThread()
            return sorted(branch for space, branch in thread.heads if space == namespace)

    def namespaces(self, thread_id: str) -> list[str]:
        with self._lock:
            thread = self._threads.get(thread_id) or MemoryThread()
            return sorted({space for space, _ in thread.heads})

    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        with self._lock:
            entries = [
                ThreadEntry(name, thread.changed_at, thread.owner)
                for name, thread in self._threads.items()
                if name.startswith(prefix)
            ]
        entries.sort(key=lambda entry: entry.changed_at, reverse=True)
        return entries[cut_page(limit)]

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Pruned:
        with self._lock:
            ids = self._threads if thread_id is None else {thread_id} & self._threads.keys()
            counts = [self._threads[name].prune(policy, dry_run=dry_run) for name in ids]
        return Pruned(sum(1 for count in counts if count), sum(counts))

    def copy_thread(self, thread_id: str, to: str) -> None:
        with self._lock:
            if thread_id not in self._threads:
                raise CheckpointNotFound(f"Thread {thread_id!r} does not exist.")
            if to in self._threads:
                raise CheckpointConflict(to, None, self._main_head(to))
            self._threads[to] = self._threads[thread_id].copy(to)

    def _main_head(self, thread_id: str) -> CheckpointId | None:
        thread = self._threads.get(thread_id)
        return thread.heads.get(("", "main")) if thread is not None else None

    def delete_thread(self, thread_id: str, *, also: Sequence[Callable[[], object]] = ()) -> None:
        with self._lock:
            for write in also:
                write()
            self._threads.pop(thread_id, None)


def check_journal(existing: Pending | None, pending: Pending) -> None:
    """Raise JournalConflict if a new journal entry is for a step that already has one.

    An entry is never replaced, because other code may already have used the first result.
    """
    if existing is not None and pending.journal:
        key = next((key for key in pending.journal if key in existing.journal), None)
        if key is not None:
            raise JournalConflict(*key)
