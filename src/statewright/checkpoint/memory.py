"""A saver in memory, for tests and for programs whose threads may end with the process.

It stores the same objects that runs use, which is safe because values are never changed in place, so the cost of a
commit does not depend on the size of the state. Therefore it accepts values that a database cannot store. With
`checks_values=True` it encodes each commit, and refuses the same values as a database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

from statewright.checkpoint.holders import checked_lease
from statewright.checkpoint.model import BranchKey, Commit, Lease, LeaseRequest, Pending, SavedCheckpoint, Source
from statewright.checkpoint.retention import Pruned, PrunePolicy, ThreadEntry
from statewright.checkpoint.workspaces import check_workspace
from statewright.clock import Duration
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    JournalConflict,
    LeaseLost,
    SerdeError,
    ThreadBusy,
)
from statewright.events import Event, Log
from statewright.ids import DEFAULT_WORKSPACE, CheckpointId
from statewright.page import cut_page

if TYPE_CHECKING:  # packages that write bytes are loaded when values are checked
    from statewright.checkpoint.encoding import Encoder
    from statewright.serde.serde import Serde


class _Thread:
    """The commits of one thread by namespace and id, in order of saving, and the head of each line."""

    def __init__(self) -> None:
        self.saved: dict[str, dict[str, Commit]] = {}
        """Commits owned by the saver, which adds results to their `pending`."""
        self.heads: dict[tuple[str, str], CheckpointId] = {}
        self.hold: LeaseRequest | None = None
        """The lease request of the holder of the thread."""
        self.wanted: str | None = None
        self.epoch = 0
        self.changed_at = datetime.now(UTC)
        self.written: list[Commit | tuple[str, Log | None]] = []
        """Additions to the log: commits, and other additions with their namespaces."""

    def logs(self) -> dict[str, list[tuple[str, Log]]]:
        """Return the additions to the log of each run with their namespaces, in order of the beginning of runs."""
        logs: dict[str, list[tuple[str, Log]]] = {}
        for addition in self.written:
            namespace, log = (addition.line.namespace, addition.log) if isinstance(addition, Commit) else addition
            if log is not None:
                logs.setdefault(log.run_id, []).append((namespace, log))
        return logs

    @property
    def lease(self) -> Lease | None:
        """The lease, if the thread has a holder."""
        hold = self.hold
        return None if hold is None or hold.until is None else Lease(hold.owner, self.epoch, hold.until, self.wanted)

    def check(self, thread_id: str, hold: LeaseRequest | None) -> None:
        """Raise ThreadBusy or LeaseLost if a request conflicts with the lease."""
        held = self.hold
        if hold is None or (held is not None and held.owner == hold.owner):
            return
        lease = self.lease
        if not hold.claims:
            raise LeaseLost(thread_id, hold.owner, lease.owner if lease is not None else None)
        if lease is not None and not lease.has_lapsed(hold.now):
            raise ThreadBusy(thread_id, lease.owner, lease.until)

    def has_moved(self, hold: LeaseRequest | None) -> bool:
        """Return whether the thread has changed since the load on which a claim is based."""
        return hold is not None and hold.claims and hold.expected_epoch not in (None, self.epoch)

    def take(self, hold: LeaseRequest | None) -> None:
        """Claim, keep or release the thread."""
        held = self.hold
        if hold is None:
            self.epoch += 1
            return
        keeps = held is not None and held.owner == hold.owner
        if not keeps:
            self.wanted = None
        if not keeps or hold.until is None or (held is not None and held.until is not None and held.until <= hold.now):
            self.epoch += 1
            self.changed_at = hold.now
        self.hold = hold if hold.until is not None else None

    def copy(self, to: str) -> _Thread:
        copied = _Thread()
        copied.heads = dict(self.heads)
        copied.written = [*chain.from_iterable(self.logs().values())]
        for namespace, saved in self.saved.items():
            copied.saved[namespace] = {key: _moved(one, to) for key, one in saved.items()}
        return copied


class _Encoding:
    """The encoder that all views of a saver share to check values; created on first use."""

    def __init__(self) -> None:
        self._types: dict[type, None] = {}
        self._lock = threading.Lock()

    def note(self, types: Iterable[type]) -> None:
        """Register types of values to check later. A type that cannot be stored is not an error yet."""
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
            self.__dict__["encoder"] = encoder  # before the lock is released, because `note` must see it
        return encoder


def _allow_storable(serde: Serde, types: Iterable[type]) -> None:
    for kind in types:
        with suppress(SerdeError):
            serde.allow((kind,))


class InMemorySaver:
    """Keeps the checkpoints of threads in a dict; safe to use from several threads.

    `for_workspace` gives a saver of the same data with the threads of another workspace, `checked` one of the same data
    that refuses values which a database cannot store.
    """

    def __init__(
        self,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease: Duration | None = None,
        checks_values: bool = False,
    ) -> None:
        """`lease` is how long runs hold their threads after each write; 60 seconds if not given.

        With `checks_values` saving raises SerdeError for what `SqliteSaver` refuses too.
        """
        self.lease_duration = checked_lease(lease)
        self._checks_values = checks_values
        self._encoding = _Encoding()
        self._lock = threading.Lock()
        self._page_end: tuple[int, CheckpointId | None, CheckpointId | None] | None = None
        """The position at which the last page of history ended; the next one continues from there."""
        self._spaces: dict[str, dict[str, _Thread]] = {}
        """The threads of each workspace."""
        self._bind(workspace)

    def _bind(self, workspace: str) -> None:
        self.workspace = check_workspace(workspace)
        with self._lock:
            self._threads = self._spaces.setdefault(workspace, {})

    @property
    def scope(self) -> Hashable:
        """Equal for savers of the same data and workspace."""
        return id(self._spaces), self.workspace

    def for_workspace(self, workspace: str) -> Self:
        """Return a saver of the same data that sees the threads of another workspace."""
        view = copy(self)
        view._bind(workspace)
        return view

    def checked(self) -> Self:
        """Return a saver of the same data that raises SerdeError for values which a database cannot store."""
        view = copy(self)
        view._checks_values = True
        return view

    @property
    def serde(self) -> Serde:
        """Encodes values to check them. Register classes here as with a database."""
        return self._encoding.encoder.serde

    def check_value(self, value: Any) -> None:
        """Raise SerdeError for a value that a database cannot store, if values are checked."""
        if self._checks_values:
            self.serde.encode(value)

    def workspaces(self) -> list[str]:
        """List the workspaces that have threads, sorted."""
        with self._lock:
            return sorted(workspace for workspace, threads in self._spaces.items() if threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def from_conn_string(cls, conn_string: str = "") -> Self:
        """Return a new saver; the string is ignored."""
        return cls()

    def close(self) -> None:
        """Nothing is held open."""

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> SavedCheckpoint | None:
        with self._lock:  # a checkpoint and its epoch are of one moment: a claim relies on that
            thread = self._threads.get(thread_id)
            if thread is None:
                return None
            wanted = checkpoint_id or thread.heads.get((namespace, branch))
            found = thread.saved.get(namespace, {}).get(wanted) if wanted is not None else None
            return _saved(found, thread) if found is not None else None

    def allow(self, types: Iterable[type]) -> None:
        """Let values of these classes be saved. If values are checked, raise SerdeError for a class that cannot be."""
        if self._checks_values:
            self.serde.allow(types)
        else:
            self._encoding.note(types)

    def commit(self, commit: Commit, *, also: Sequence[Callable[[], object]] = ()) -> CheckpointId:
        """Save a superstep; `also` are functions that do something whole or, when they raise, not at all."""
        if self._checks_values:
            self._encoding.encoder.check(commit)
        with self._lock:
            for one in (commit, *commit.beside):
                self._check(one)
            for write in also:
                write()
            for one in commit.beside:
                self._keep(one)
            return self._keep(commit)

    def _check(self, commit: Commit) -> None:
        """Raise if a commit is not right. The lock is held."""
        line = commit.line
        thread = self._threads.get(line.thread_id) or _Thread()
        thread.check(line.thread_id, commit.hold)
        head = thread.heads.get((line.namespace, line.branch))
        if head != commit.expected or thread.has_moved(commit.hold):
            raise CheckpointConflict(line.thread_id, commit.expected, head)

    def _keep(self, commit: Commit) -> CheckpointId:
        """Save a superstep that was checked. The lock is held."""
        line = commit.line
        thread = self._threads.setdefault(line.thread_id, _Thread())
        thread.take(commit.hold)
        saved = thread.saved.get(line.namespace)
        if saved is None:
            saved = thread.saved[line.namespace] = {}
        parent = saved.get(commit.parent_id) if commit.parent_id is not None else None
        if parent is not None and parent.pending is not None and commit.source != "fork":
            parent.pending = _consumed(parent.pending, commit.source)
        identity = CheckpointId(commit.checkpoint.id)
        saved[identity] = commit
        thread.heads[line.namespace, line.branch] = identity
        thread.written.append(commit)
        for namespace in commit.drops:
            _drop(thread, namespace, line.branch)
        return identity

    def save_results(
        self,
        line: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Callable[[], object]] = (),
    ) -> None:
        if self._checks_values:
            self._encoding.encoder.check_results(pending, log, line.namespace)
        with self._lock:
            thread = self._threads.get(line.thread_id) or _Thread()
            thread.check(line.thread_id, hold)
            saved = thread.saved.get(line.namespace, {})
            if checkpoint_id not in saved:
                raise CheckpointNotFound(
                    f"Thread {line.thread_id!r} has no checkpoint {checkpoint_id!r} to which results could be added."
                )
            if thread.has_moved(hold):
                raise CheckpointConflict(line.thread_id, checkpoint_id, thread.heads.get((line.namespace, line.branch)))
            known = saved[checkpoint_id]
            check_journal(known.pending, pending)
            for write in also:
                write()
            thread.take(hold)
            if log is not None:
                thread.written.append((line.namespace, log))
            known.pending = (known.pending or Pending()).merged(pending)

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        with self._lock:
            thread = self._threads.get(thread_id)
            logs = thread.logs() if thread is not None else {}
        found: list[Event] = []
        for run, written in logs.items():
            number = 1
            for namespace, log in written if run_id is None or run_id == run else ():
                found.extend(log.events(thread_id, namespace, number))
                number += len(log.entries)
        return [one for one in found if run_id is None or (one.seq or 0) > after][cut_page(limit)]

    def renew(self, thread_id: str, hold: LeaseRequest) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            thread.check(thread_id, hold)
            if thread.has_moved(hold):
                raise CheckpointConflict(thread_id, None, thread.heads.get(("", "main")))
            thread.take(hold)
            return thread.lease

    def lease(self, thread_id: str) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            return thread.lease if thread is not None else None

    def want(self, thread_id: str, what: str) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or thread.hold is None:
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
            thread = self._threads.get(thread_id) or _Thread()
            saved = thread.saved.get(namespace, {})
            head = thread.heads.get((namespace, branch or "main"))
            page = (id(saved), head, before)
            if branch is not None and before is not None and self._page_end == page and before in saved:
                found = _ancestry(saved, saved[before].parent_id)
            else:
                found = reversed(saved.values()) if branch is None else _ancestry(saved, head)
                if before is not None and all(one.checkpoint.id != before for one in found):
                    raise CheckpointNotFound(f"Thread {thread_id!r} has no checkpoint {before!r}. List its history.")
            shown = [_saved(one) for one in islice(found, cut_page(limit).stop)]
            self._page_end = (id(saved), head, shown[-1].id) if shown else None
        return shown

    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            return sorted(branch for space, branch in thread.heads if space == namespace)

    def namespaces(self, thread_id: str) -> list[str]:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            return sorted({space for space, _ in thread.heads})

    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        with self._lock:
            found = [
                ThreadEntry(name, thread.changed_at, thread.hold.owner if thread.hold is not None else None)
                for name, thread in self._threads.items()
                if name.startswith(prefix)
            ]
        found.sort(key=lambda one: one.changed_at, reverse=True)
        return found[cut_page(limit)]

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Pruned:
        with self._lock:
            wanted = self._threads if thread_id is None else {thread_id}
            counts = [_pruned(self._threads[name], policy, dry_run) for name in wanted if name in self._threads]
        return Pruned(sum(1 for count in counts if count), sum(counts))

    def copy_thread(self, thread_id: str, to: str) -> None:
        with self._lock:
            if thread_id not in self._threads:
                raise CheckpointNotFound(f"There is no thread {thread_id!r} to copy.")
            if to in self._threads:
                found = self._threads[to].heads.get(("", "main"))
                raise CheckpointConflict(to, None, found)
            self._threads[to] = self._threads[thread_id].copy(to)

    def delete_thread(self, thread_id: str, *, also: Sequence[Callable[[], object]] = ()) -> None:
        with self._lock:
            for write in also:
                write()
            self._threads.pop(thread_id, None)


def check_journal(known: Pending | None, pending: Pending) -> None:
    """Raise JournalConflict for a step that is recorded already: its first record is what others have seen."""
    if known is not None and pending.journal:
        key = next((key for key in pending.journal if key in known.journal), None)
        if key is not None:
            raise JournalConflict(*key)


def _saved(commit: Commit, thread: _Thread | None = None) -> SavedCheckpoint:
    return SavedCheckpoint(
        line=commit.line,
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


def _pruned(thread: _Thread, policy: PrunePolicy, dry_run: bool) -> int:
    """Delete the checkpoints of a thread that no branch keeps, or only count them; return their number."""
    count = 0
    for namespace, saved in thread.saved.items():
        kept: set[str] = set()
        for branch in [branch for space, branch in thread.heads if space == namespace]:
            own = [one for one in reversed(saved.values()) if one.line.branch == branch]
            kept.update(one.checkpoint.id for one in own[: policy.kept([one.created_at for one in own])])
        gone = [key for key in saved if key not in kept]
        count += len(gone)
        if gone and not dry_run:
            _forget(thread, [saved.pop(key) for key in gone])
    return count


def _forget(thread: _Thread, gone: Sequence[Commit]) -> None:
    """Keep of commits what they added to the log."""
    ids = set(map(id, gone))
    thread.written = [_logged(one) if isinstance(one, Commit) and id(one) in ids else one for one in thread.written]


def _logged(commit: Commit) -> tuple[str, Log | None]:
    return commit.line.namespace, commit.log


def _moved(commit: Commit, to: str) -> Commit:
    """Return the same commit for another thread."""
    moved: dict[str, Any] = {field.name: getattr(commit, field.name) for field in fields(Commit)}
    moved["line"] = commit.line._replace(thread_id=to)
    moved["pending"] = commit.pending.merged(Pending()) if commit.pending is not None else None
    return Commit(**moved)


def _consumed(pending: Pending, source: Source) -> Pending:
    """Return the results that remain for a frontier whose tasks are done or discarded.

    Results that a superstep has applied are in its state; those of a superstep that asked may be wanted by a fork
    that answers otherwise, those of one that was given up by a rollback. Steps that a given-up task has done stay done
    for whoever goes back to it.
    """
    completed = {} if source == "loop" and not pending.interrupts else pending.completed
    journal = {} if source == "loop" else pending.journal
    return replace(pending, completed=completed, attempts={}, retries={}, journal=journal)


def _drop(thread: _Thread, namespace: str, branch: str) -> None:
    """Forget a namespace and those inside it, on one branch."""
    inside = [
        space for space in thread.saved if space == namespace or space.startswith((namespace + "|", namespace + ":"))
    ]
    for space in inside:
        if thread.heads.pop((space, branch), None) is None:
            continue
        saved = thread.saved.pop(space)
        others = [head for (name, _), head in thread.heads.items() if name == space]
        if others:
            kept = {one.checkpoint.id for head in others for one in _ancestry(saved, head)}
            thread.saved[space] = {key: one for key, one in saved.items() if key in kept}


def _ancestry(saved: Mapping[str, Commit], head: CheckpointId | None) -> Iterator[Commit]:
    while head is not None and head in saved:
        commit = saved[head]
        yield commit
        head = commit.parent_id
