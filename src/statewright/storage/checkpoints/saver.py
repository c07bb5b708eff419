"""The checkpointer that stores threads in a database."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeVar

from statewright.checkpoint import (
    DEFAULT_WORKSPACE,
    BranchKey,
    Commit,
    Lease,
    LeaseRequest,
    Pending,
    Pruned,
    PrunePolicy,
    SavedCheckpoint,
    ThreadEntry,
    as_lease_duration,
    check_workspace,
)
from statewright.checkpoint.forms import restore_log
from statewright.clock import Duration, instant_of
from statewright.errors import CheckpointConflict, CheckpointNotFound
from statewright.events import Event, Log
from statewright.futures import MaybeFuture
from statewright.ids import CheckpointId
from statewright.page import cut_page
from statewright.runtime.concurrency.worker_threads import submit_to_thread
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.commits import Writer
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.checkpoints.listing import HistoryLister
from statewright.storage.checkpoints.removal import Pruner, delete_thread
from statewright.storage.damage import with_damage_report
from statewright.storage.database import UNLIMITED, Backend, Connection, D, Job, on_event_loop

_MAX_PENDING_COMMITS: Final = 1000
"""The number of entries in `pending_commits` above which entries of completed commits are removed."""

T = TypeVar("T")


class DatabaseSaver(Backend[D]):
    """Saves the checkpoints of the threads of one workspace.

    `for_workspace` returns a saver for another workspace of the same database.
    """

    writer_type: ClassVar[type[Writer]] = Writer

    def __init__(
        self,
        database: D | str | os.PathLike[str],
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease: Duration | None = None,
        **options: Any,
    ) -> None:
        self.lease_duration = as_lease_duration(lease)
        check_workspace(workspace)
        super().__init__(database, **options)
        self._bind(workspace)

    def _bind(self, workspace: str) -> None:
        self.workspace = check_workspace(workspace)
        self._sql = self.database.statements("saver")
        self._writer = self.writer_type(self.database, workspace)
        self._lister = HistoryLister(workspace)

    @property
    def scope(self) -> Hashable:
        """A key that is equal for savers with the same data and workspace."""
        return self.database.scope, self.workspace

    def for_workspace(self, workspace: str) -> Self:
        """Return a saver for the same database that sees the threads of another workspace. It need not be closed."""
        saver = copy(self)
        saver._owns = False
        saver._bind(workspace)
        return saver

    def check_value(self, value: Any) -> None:
        """Raise SerdeError for a value that cannot be stored."""
        self.database.serde.encode(value)

    def workspaces(self) -> MaybeFuture[Sequence[str]]:
        """Return the workspaces that have threads, sorted."""
        return self._read(lambda connection: [name for (name,) in connection.execute(self._sql["workspaces"])])

    @property
    def serde(self) -> Serde:
        """The serde that encodes values. Register classes with it."""
        return self.database.serde

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes to be stored."""
        self.database.serde.allow(types)

    # -- writing

    def commit(self, commit: Commit, *, also: Sequence[Job[Any]] = ()) -> MaybeFuture[CheckpointId]:
        siblings = [self._writer.commit_job(sibling, ()) for sibling in commit.siblings]
        job = self._writer.commit_job(commit, [*siblings, *also])
        if not commit.overlaps:
            return self._write(job)
        pending_commits = self.database.pending_commits
        write = pending_commits[self.workspace, commit.branch_key.thread_id] = self.database.submit(job)
        if len(pending_commits) > _MAX_PENDING_COMMITS:
            for key in [key for key, earlier in tuple(pending_commits.items()) if earlier.done()]:
                pending_commits.pop(key, None)
        return write

    def save_results(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Job[Any]] = (),
    ) -> MaybeFuture[None]:
        return self._write(self._writer.results_job(branch_key, checkpoint_id, pending, hold, log, also))

    def renew(self, thread_id: str, hold: LeaseRequest) -> MaybeFuture[Lease | None]:
        return self._write(with_damage_report(self._writer.renew_job(thread_id, hold), thread_id))

    def want(self, thread_id: str, what: str) -> MaybeFuture[Lease | None]:
        def job(connection: Connection) -> Lease | None:
            self._writer.lock(connection, thread_id)
            connection.execute(self._sql["want"], (what, self.workspace, thread_id))
            self.database.head_cache.threads.pop((self.workspace, thread_id), None)
            thread = self._writer.load_thread(connection, thread_id)
            return thread.lease if thread is not None else None

        return self._write(with_damage_report(job, thread_id))

    def delete_thread(self, thread_id: str, *, also: Sequence[Job[Any]] = ()) -> MaybeFuture[None]:
        def delete(connection: Connection) -> None:
            self._writer.lock(connection, thread_id)
            number = self._writer.thread_number(connection, thread_id)
            if number is not None:
                delete_thread(connection, self.database, number)
                self.database.head_cache.forget()

        reporting_delete = with_damage_report(delete, thread_id)

        def job(connection: Connection) -> None:
            for other_job in also:  # done first, because a job that fails before anything is written needs no rollback
                other_job(connection)
            reporting_delete(connection)

        return self._write(job)

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> MaybeFuture[Pruned]:
        if on_event_loop():
            return submit_to_thread(lambda: self._prune(policy, thread_id, dry_run))
        return self._prune(policy, thread_id, dry_run)

    def _prune(self, policy: PrunePolicy, thread_id: str | None, dry_run: bool) -> Pruned:
        """Prune each thread in a transaction of its own, so that other writes need not wait for all of them."""
        threads = self.database.query(lambda connection: self._thread_numbers(connection, thread_id))
        counts = [self._prune_thread(number, name, policy, dry_run) for number, name in threads]
        return Pruned(sum(1 for count in counts if count), sum(counts))

    def _prune_thread(self, number: int, thread_id: str, policy: PrunePolicy, dry_run: bool) -> int:
        def prune(connection: Connection, *, dry_run: bool = False) -> int:
            return Pruner(connection, self.database).prune(number, policy, dry_run=dry_run)

        def job(connection: Connection) -> int:
            self._writer.lock(connection, thread_id)
            count = prune(connection)
            self.database.head_cache.forget()
            return count

        # Count first, with a connection for reading: most threads have nothing to prune, so that no write is needed.
        count = self.database.query(with_damage_report(partial(prune, dry_run=True), thread_id))
        return self.database.write(with_damage_report(job, thread_id)) if count and not dry_run else count

    def _thread_numbers(self, connection: Connection, thread_id: str | None) -> list[tuple[int, str]]:
        """Return the number and the id of a thread, or of all threads if `thread_id` is None."""
        if thread_id is None:
            return connection.execute(self._sql["thread_numbers"], (self.workspace,)).fetchall()
        number = self._writer.thread_number(connection, thread_id)
        return [(number, thread_id)] if number is not None else []

    def copy_thread(self, thread_id: str, to: str) -> MaybeFuture[None]:
        def job(connection: Connection) -> None:
            for name in (thread_id, to):
                self._writer.lock(connection, name)
            source, target = (self._writer.thread_number(connection, name) for name in (thread_id, to))
            if source is None:
                raise CheckpointNotFound(f"Thread {thread_id!r} does not exist.")
            if target is not None:
                raise CheckpointConflict(to, None, self._head_id(connection, to))
            self._copy(connection, source, to)

        return self._write(with_damage_report(job, thread_id))

    def _copy(self, connection: Connection, source: int, to: str) -> None:
        """Copy all rows of the thread with the number `source`. `to` is the id of the new thread."""
        sql, insert = self._sql, self.database.insert
        target, ids = insert(connection, sql["copy_thread"], (to, source)), self.database.row_ids
        for (run,) in connection.execute(sql["numbers_of_runs"], (source,)).fetchall():
            copied = insert(connection, sql["copy_run"], (target, run))
            connection.execute(sql["copy_events"], (ids.row_id(copied, 0) - ids.row_id(run, 0), *ids.bounds(run)))
        copies: dict[int, int] = {}
        for (line,) in connection.execute(sql["numbers_of_lines"], (source,)).fetchall():
            copies[line] = insert(connection, sql["copy_line"], (target, line))
        for line, copied in copies.items():
            shift, bounds = ids.row_id(copied, 0) - ids.row_id(line, 0), ids.bounds(line)
            connection.execute(sql["copy_records"], (shift, target, *bounds))
            connection.execute(sql["copy_segments"], (shift, *bounds))
            connection.execute(sql["copy_pending"], (shift, *bounds))
            connection.execute(sql["copy_grown"], (copied, line))
            for row_id, parent in connection.execute(sql["jumps"], bounds).fetchall():
                moved = ids.row_id(copies[ids.line(parent)], ids.number(parent)) if parent is not None else None
                connection.execute(sql["copy_jump"], (row_id + shift, moved))

    def _head_id(self, connection: Connection, thread_id: str) -> CheckpointId | None:
        reader = self._reader(connection)
        head = reader.find_head(self.workspace, BranchKey(thread_id))
        return reader.id_at(head) if head is not None else None

    # -- reading

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> MaybeFuture[SavedCheckpoint | None]:
        branch_key = BranchKey(thread_id, namespace, branch)
        return self._read(lambda connection: self._load(connection, branch_key, checkpoint_id), thread_id)

    def _load(
        self, connection: Connection, branch_key: BranchKey, checkpoint_id: CheckpointId | None
    ) -> SavedCheckpoint | None:
        reader = self._reader(connection)
        row_id: int | None = None
        if checkpoint_id is None:
            row_id = reader.find_head(self.workspace, branch_key)
        else:
            for number, branch in reader.lines_of(self.workspace, branch_key.thread_id, branch_key.namespace):
                row_id = reader.find_checkpoint(number, checkpoint_id)
                if row_id is not None:
                    branch_key = branch_key._replace(branch=branch)
                    break
        if row_id is None:
            return None
        saved = reader.checkpoint_at(row_id, branch_key)
        thread = self._writer.load_thread(connection, branch_key.thread_id)
        return replace(saved, epoch=thread.epoch, lease=thread.lease) if thread is not None else saved

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> MaybeFuture[Sequence[SavedCheckpoint]]:
        def read(connection: Connection) -> Sequence[SavedCheckpoint]:
            return self._lister.load_page(self._reader(connection), thread_id, namespace, branch, before, limit)

        return self._read(read, thread_id)

    def outlines(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> MaybeFuture[Sequence[SavedCheckpoint]]:
        """Return a history like `history`, but of checkpoints without values and results of tasks, which costs less."""

        def read(connection: Connection) -> Sequence[SavedCheckpoint]:
            return self._lister.load_outlines(self._reader(connection), thread_id, namespace, branch, before, limit)

        return self._read(read, thread_id)

    def threads(self, *, prefix: str = "", limit: int | None = None) -> MaybeFuture[Sequence[ThreadEntry]]:
        size = UNLIMITED if limit is None else cut_page(limit).stop
        parameters = {"workspace": self.workspace, "prefix": prefix, "limit": size}
        return self._read(
            lambda connection: [
                ThreadEntry(name, instant_of(changed), owner)
                for name, changed, owner in connection.execute(self._sql["threads"], parameters)
            ]
        )

    def branches(self, thread_id: str, *, namespace: str = "") -> MaybeFuture[Sequence[str]]:
        return self._read(
            lambda connection: sorted(_names(self._reader(connection).lines_of(self.workspace, thread_id, namespace))),
            thread_id,
        )

    def namespaces(self, thread_id: str) -> MaybeFuture[Sequence[str]]:
        return self._read(
            lambda connection: _names(connection.execute(self._sql["namespaces"], (self.workspace, thread_id))),
            thread_id,
        )

    def lease(self, thread_id: str) -> MaybeFuture[Lease | None]:
        def read(connection: Connection) -> Lease | None:
            thread = self._writer.load_thread(connection, thread_id)
            return thread.lease if thread is not None else None

        return self._read(read, thread_id)

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> MaybeFuture[Sequence[Event]]:
        def read(connection: Connection) -> Sequence[Event]:
            reader = self._reader(connection)
            first = after if run_id is not None else 0
            runs = connection.execute(self._sql["runs"], (self.workspace, thread_id)).fetchall()
            events = (
                event
                for thread, run, name in runs
                if run_id is None or run_id == name
                for number, plain in reader.log(thread, run, first)
                for event in _events(plain, thread_id, name, number)
                if (event.seq or 0) > first
            )
            return list(islice(events, cut_page(limit).stop))

        return self._read(read, thread_id)

    def _read(self, read: Job[T], thread_id: str | None = None) -> MaybeFuture[T]:
        """Call a function with a connection for reading, and return its result or a future.

        If this process is still writing a commit to the thread, the function is called afterwards, because a run may
        end without waiting for its last commit.
        """
        commit = self.database.pending_commit((self.workspace, thread_id)) if thread_id is not None else None
        return self._query(with_damage_report(read, thread_id), after=commit)

    def _reader(self, connection: Connection) -> HistoryReader:
        return HistoryReader(connection, self.database)


def _names(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the last column of rows. Raises TypeError if a value is not a string, which means that it is damaged."""
    names = [row[-1] for row in rows]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is not a string")
    return names


def _events(plain: Sequence[Any], thread_id: str, run_id: str, number: int) -> list[Event]:
    namespace, log = restore_log(plain, run_id)
    return log.events(thread_id, namespace, number)
