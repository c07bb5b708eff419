"""Writing of commits and results of tasks. Each is written by one job in a transaction.

All data is encoded (`checkpoint/encoding.py`) when the job is created, which happens on the OS thread of the run before
the run continues. Later changes of mutable values therefore have no effect. A job makes all its checks before it writes
anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from statewright.checkpoint import BranchKey, Commit, Lease, LeaseRequest, Pending
from statewright.checkpoint.encoding import Encoder, Entries
from statewright.checkpoint.forms import JOURNAL, journal_text, key_of
from statewright.checkpoint.lease import check_lease, is_claim_outdated
from statewright.clock import microseconds
from statewright.errors import CheckpointConflict, CheckpointNotFound, JournalConflict
from statewright.events import Log
from statewright.ids import CheckpointId
from statewright.storage.checkpoints.head_cache import Head, StoredThread
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.checkpoints.removal import drop_calls
from statewright.storage.checkpoints.segments import LARGEST, RECENT, SegmentWriter
from statewright.storage.damage import report_damage, with_damage_report
from statewright.storage.database import Connection, Database, Job


class Writer:
    """Creates the jobs that write to the threads of a workspace, and that update the head cache."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._sql = database.statements("commits")
        self._encoder = Encoder(database.serde, database.encode)
        self._cache = database.head_cache
        self._ids = database.row_ids
        self._workspace = workspace

    # -- commits

    def commit_job(self, commit: Commit, also: Iterable[Job[Any]]) -> Job[Any]:
        """Return the job that saves a commit.

        It raises CheckpointConflict, ThreadBusy or LeaseLost before it has written anything.
        """
        encoder, checkpoint_id = self._encoder, commit.checkpoint.id
        deltas, log = commit.deltas, commit.log
        encoded = encoder.encode_commit(commit, deltas, log)
        key, expected, control, changes, entries, events, separate_log = encoded
        commit.size = encoded.size

        def store(connection: Connection) -> tuple[Head | None, int]:
            """Write the commit without the jobs in `also`. Return the previous head and the new row id."""
            thread = self.thread(connection, commit.branch_key.thread_id)
            check_lease(thread, commit.branch_key.thread_id, commit.hold)
            head = self._head(connection, thread, commit.branch_key)
            if (head.key if head is not None else None) != expected or is_claim_outdated(thread, commit.hold):
                raise self._conflict(connection, commit.branch_key.thread_id, commit.expected, head)
            parent = self._parent(connection, thread, commit, head)
            stored_changes = changes
            if deltas is None and parent is not None:  # rare, because the commits of runs have deltas
                stored_changes = encoder.encode_all_values(commit, self._reader(connection).state_at(parent))
            thread = self._leased_thread(connection, thread, commit)
            run, next_event = self._run(connection, thread, commit.run_id)
            row_id = head.row_id + 1 if head is not None else self._new_line(connection, thread, commit.branch_key)
            first_event = next_event if events else None
            connection.execute(
                self._sql["insert_record"], (row_id, key, run, first_event, control, stored_changes, events)
            )
            if parent != (head.row_id if head is not None else None):
                connection.execute(self._sql["insert_jump"], (row_id, parent))
            parent_may_have_entries = head is None or parent != head.row_id or head.has_entries
            if parent is not None and commit.source != "fork" and parent_may_have_entries:
                # Delete the results of the parent's tasks that are no longer needed, as in `memory_thread.py`.
                is_completed = commit.source == "loop"
                connection.execute(self._sql["consume"], (parent, is_completed, is_completed, parent))
            if entries:
                self._store_entries(connection, row_id, entries)
            if log is not None and events is not None:
                self._cache.runs[thread.id, commit.run_id] = (run, next_event + len(log.entries))
            if log is not None and separate_log is not None:
                self._store_log(connection, thread, log, separate_log)
            if commit.dropped_namespaces:
                drop_calls(connection, self._database, thread.id, commit.branch_key.branch, commit.dropped_namespaces)
                self._cache.forget_lines()
            return head, row_id

        reporting_store = with_damage_report(store, commit.branch_key.thread_id)

        def job(connection: Connection) -> CheckpointId:
            head, row_id = reporting_store(connection)
            for other_job in also:  # not in `reporting_store`, because their errors are not damage of this thread
                other_job(connection)
            self._update_head(connection, commit, head, row_id, key, bool(entries))
            return CheckpointId(checkpoint_id)

        return job

    def _update_head(
        self,
        connection: Connection,
        commit: Commit,
        head: Head | None,
        row_id: int,
        key: bytes,
        has_entries: bool,
    ) -> None:
        """Update the cached head, and compact old records of its line if there are many, or if they are large."""
        if head is None:
            head = self._cache.heads[self._ids.line(row_id)] = Head(row_id, key, 0, 0)
        head.row_id, head.key, head.has_entries = row_id, key, has_entries
        head.count += 1
        head.size += commit.size or 0
        if head.count >= RECENT or (head.size >= LARGEST and head.count > 1):
            with report_damage(f"thread {commit.branch_key.thread_id!r}"):
                SegmentWriter(connection, self._database).compact(self._ids.line(row_id))
                head.count, head.size = self._record_sizes(connection, self._ids.line(row_id))

    def results_job(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        hold: LeaseRequest | None,
        log: Log | None,
        also: Iterable[Job[Any]] = (),
    ) -> Job[Any]:
        """Return the job that adds results of tasks in a frontier.

        It raises the same errors as a commit, and CheckpointNotFound.
        """
        entries = self._encoder.encode_results(pending)
        encoded_log = self._encoder.encode_log(log, branch_key.namespace) if log is not None else None
        key = key_of(checkpoint_id)

        def store(connection: Connection) -> None:
            thread = self.thread(connection, branch_key.thread_id)
            check_lease(thread, branch_key.thread_id, hold)
            head = self._head(connection, thread, branch_key)
            row_id = head.row_id if head is not None and head.key == key else None
            if row_id is None and head is not None:
                row_id = self._reader(connection).find_checkpoint(self._ids.line(head.row_id), checkpoint_id)
            if row_id is None or thread is None or head is None:
                raise CheckpointNotFound(
                    f"Thread {branch_key.thread_id!r} has no checkpoint {checkpoint_id!r} to add results to."
                )
            if is_claim_outdated(thread, hold, is_head=head.key == key):
                raise self._conflict(connection, branch_key.thread_id, checkpoint_id, head)
            self.apply_lease(connection, thread, branch_key.thread_id, hold)
            for journal_key in pending.journal:  # an entry is never replaced, because its result may have been used
                entry = (row_id, JOURNAL, journal_text(journal_key))
                if connection.execute(self._sql["pending"], entry).fetchone() is not None:
                    raise JournalConflict(*journal_key)
            if entries:
                self._store_entries(connection, row_id, entries)
                head.has_entries = True
            if log is not None and encoded_log is not None:
                self._store_log(connection, thread, log, encoded_log)

        reporting_store = with_damage_report(store, branch_key.thread_id)

        def job(connection: Connection) -> None:
            reporting_store(connection)
            for other_job in also:
                other_job(connection)

        return job

    # -- leases

    def renew_job(self, thread_id: str, hold: LeaseRequest) -> Job[Lease | None]:
        """Return the job that claims a thread, extends its lease or releases it, and that returns the lease.

        It raises the same errors as a commit.
        """

        def renew(connection: Connection) -> Lease | None:
            thread = self.thread(connection, thread_id)
            check_lease(thread, thread_id, hold)
            if is_claim_outdated(thread, hold):
                raise self._conflict(connection, thread_id, None, self._head(connection, thread, BranchKey(thread_id)))
            return None if thread is None else self.write_lease(connection, thread, thread_id, hold).lease

        return renew

    def lock(self, connection: Connection, thread_id: str) -> None:
        """Lock a thread until the end of the transaction. Not needed if a database has only one writer at a time."""

    def thread(self, connection: Connection, thread_id: str) -> StoredThread | None:
        """Return a thread of the workspace, from the cache if possible; None if it does not exist."""
        key = (self._workspace, thread_id)
        thread = self._cache.threads.get(key)
        if thread is None:
            thread = self.load_thread(connection, thread_id)
            if thread is not None:
                self._cache.threads[key] = thread
        return thread

    def thread_number(self, connection: Connection, thread_id: str) -> int | None:
        """Return the number of a thread, even if its lease cannot be decoded; None if it does not exist."""
        row = connection.execute(self._sql["thread"], (self._workspace, thread_id)).fetchone()
        return row[0] if row is not None else None

    def load_thread(self, connection: Connection, thread_id: str) -> StoredThread | None:
        """Read a thread of the workspace from the database; return None if it does not exist."""
        row = connection.execute(self._sql["thread"], (self._workspace, thread_id)).fetchone()
        return StoredThread(*row) if row is not None else None

    def _leased_thread(self, connection: Connection, thread: StoredThread | None, commit: Commit) -> StoredThread:
        """Return the thread of a commit after applying its lease request. Create the thread if it is None."""
        thread_id = commit.branch_key.thread_id
        if thread is None:
            values = (self._workspace, thread_id, microseconds(commit.created_at))
            number = self._database.insert(connection, self._sql["insert_thread"], values)
            thread = self._cache.threads[self._workspace, thread_id] = StoredThread(number)
        return self.apply_lease(connection, thread, thread_id, commit.hold)

    def apply_lease(
        self, connection: Connection, thread: StoredThread, thread_id: str, hold: LeaseRequest | None
    ) -> StoredThread:
        """Apply a lease request to a thread, and return the thread.

        If more than half of the time of a lease remains, it is not renewed. That saves a write in most commits.
        """
        if hold is None:  # runs that have loaded the thread must load it again before they can claim it
            connection.execute(self._sql["raise_epoch"], (thread.id,))
            thread.apply(None)
            return thread
        if thread.owner == hold.owner and hold.until is not None and thread.until is not None:
            half_time = hold.now + (hold.until - hold.now) / 2
            if thread.until >= half_time:
                return thread
        return self.write_lease(connection, thread, thread_id, hold)

    def write_lease(
        self, connection: Connection, thread: StoredThread, thread_id: str, hold: LeaseRequest
    ) -> StoredThread:
        """Apply a lease request to a thread, write its lease, and return the thread."""
        leased = copy(thread)
        leased.apply(hold)
        until = microseconds(leased.until) if leased.until is not None else None
        values = (leased.epoch, leased.owner, until, leased.wanted, microseconds(hold.now), thread.id)
        connection.execute(self._sql["write_lease"], values)
        self._cache.threads[self._workspace, thread_id] = leased
        return leased

    # -- heads

    def _head(self, connection: Connection, thread: StoredThread | None, branch_key: BranchKey) -> Head | None:
        """Return the head of a branch, from the cache if possible; None if the branch does not exist."""
        if thread is None:
            return None
        cache = self._cache
        key = (thread.id, branch_key.namespace, branch_key.branch)
        number = cache.lines.get(key)
        if number is None:
            row = connection.execute(self._sql["line"], key).fetchone()
            if row is None:
                return None
            number = cache.lines[key] = row[0]
        head = cache.heads.get(number)
        if head is None:
            row = connection.execute(self._sql["head"], self._ids.bounds(number)).fetchone()
            if row is None:
                return None
            count, size = self._record_sizes(connection, number)
            head = cache.heads[number] = Head(row[0], row[1], count, size)
        return head

    def _new_line(self, connection: Connection, thread: StoredThread, branch_key: BranchKey) -> int:
        """Create a line, and return the row id for its first checkpoint."""
        key = (thread.id, branch_key.namespace, branch_key.branch)
        number = self._cache.lines[key] = self._database.insert(connection, self._sql["insert_line"], key)
        return self._ids.row_id(number, 0)

    def _conflict(
        self, connection: Connection, thread_id: str, expected: str | None, head: Head | None
    ) -> CheckpointConflict:
        current = self._reader(connection).id_at(head.row_id) if head is not None else None
        return CheckpointConflict(thread_id, expected, current)

    def _parent(
        self, connection: Connection, thread: StoredThread | None, commit: Commit, head: Head | None
    ) -> int | None:
        """Return the row id of a commit's parent; None if it has none. Raises CheckpointNotFound if it is missing."""
        if commit.parent_id is None:
            return None
        if head is not None and commit.parent_id == commit.expected:
            return head.row_id
        namespace = (thread.id if thread is not None else 0, commit.branch_key.namespace)
        for (line,) in connection.execute(self._sql["lines"], namespace).fetchall():
            row_id = self._reader(connection).find_checkpoint(line, commit.parent_id)
            if row_id is not None:
                return row_id
        raise CheckpointNotFound(
            f"Thread {commit.branch_key.thread_id!r} has no checkpoint {commit.parent_id!r}, the parent of this commit."
        )

    # -- logs

    def _run(self, connection: Connection, thread: StoredThread, run_id: str) -> tuple[int, int]:
        """Return the number of a run, and the number of the next event in its log. Create the run if it is new."""
        entry = self._cache.runs.get((thread.id, run_id))
        if entry is None:
            row = connection.execute(self._sql["run"], (thread.id, run_id)).fetchone()
            if row is None:
                entry = (self._database.insert(connection, self._sql["insert_run"], (thread.id, run_id)), 1)
            else:
                entry = (row[0], self._reader(connection).next_number(thread.id, row[0]))
            self._cache.runs[thread.id, run_id] = entry
        return entry

    def _store_log(self, connection: Connection, thread: StoredThread, log: Log, stored: bytes) -> None:
        """Add encoded entries to the event log of a run."""
        run, next_event = self._run(connection, thread, log.run_id)
        connection.execute(self._sql["insert_events"], (self._ids.row_id(run, next_event), stored))
        self._cache.runs[thread.id, log.run_id] = (run, next_event + len(log.entries))

    # -- details

    def _reader(self, connection: Connection) -> HistoryReader:
        return HistoryReader(connection, self._database)

    def _record_sizes(self, connection: Connection, line: int) -> tuple[int, int]:
        """Return the number of records in a line, and their total size in bytes."""
        return connection.execute(self._sql["count"], self._ids.bounds(line)).fetchone()

    def _store_entries(self, connection: Connection, row_id: int, entries: Entries) -> None:
        connection.executemany(self._sql["upsert"], [(row_id, *entry) for entry in entries])
