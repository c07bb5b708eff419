"""Writing of commits and results by functions of the server, in one statement each.

A function checks the lease and the head, and writes. A commit therefore needs only one round trip, because nothing has
to be read before. Every transaction that writes to a thread locks it first (`Writer.lock`), so no other transaction can
write between the checks and the write. Under READ COMMITTED, each statement of a function sees all transactions that
were committed before this statement, so checks after the lock see the current state. Reading the holder without a lock
would not be enough: a worker that was frozen could still commit after another worker had taken over its thread.

Some commits need more round trips, because data must be read before it can be written: forks, commits without deltas,
and some that delete the namespaces of completed subgraph calls. They are rare. Compaction follows in a transaction of
its own (`compaction.py`).

The checkpoints of a call are deleted by a function of the server, too, as long as nothing of them has to be kept: the
log of a call is therefore stored beside its checkpoints and not in them. If a fork of a checkpoint needs its state, or
the checkpoints were compacted, the function refuses, and the transaction is repeated with `removal.drop_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from statewright.checkpoint import BranchKey, Commit, JournalKey, Lease, LeaseRequest, Pending, is_holder_gone
from statewright.checkpoint.encoding import EncodedCommit, Entries
from statewright.checkpoint.forms import journal_text, key_of
from statewright.clock import instant_of, microseconds
from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    DamagedDatabase,
    JournalConflict,
    LeaseLost,
    StorageError,
    ThreadBusy,
)
from statewright.events import Log
from statewright.ids import CheckpointId
from statewright.storage.checkpoints.commits import Writer
from statewright.storage.checkpoints.head_cache import StoredThread
from statewright.storage.checkpoints.removal import drop_calls
from statewright.storage.damage import with_damage_report
from statewright.storage.database import Connection, Job, Statement, thread_lock
from statewright.storage.group_commit import RetryTransaction
from statewright.storage.postgres.connection import PostgresError

if TYPE_CHECKING:
    from statewright.storage.postgres.database import PostgresDatabase

_RESULTS_TO_DELETE: Final = {"fork": 0, "loop": 2}
"""The argument of `save_commit` that determines which results of the parent's tasks a commit deletes, by the source of
the commit; 1 for other sources."""


class PostgresWriter(Writer):
    """Creates the jobs that write to the threads of a workspace."""

    _database: PostgresDatabase

    def lock(self, connection: Connection, thread_id: str) -> None:
        connection.lock(thread_lock(self._workspace, thread_id))

    def thread(self, connection: Connection, thread_id: str) -> StoredThread | None:
        """Lock a thread of the workspace, and return it; return None if it does not exist."""
        self.lock(connection, thread_id)
        return self.load_thread(connection, thread_id)

    # -- commits

    def commit_job(self, commit: Commit, also: Iterable[Job[Any]]) -> Job[Any]:
        thread_id = commit.branch_key.thread_id
        deltas, log = commit.deltas, commit.log
        encoded = self._encoder.encode_commit(commit, deltas, log, separate_log=bool(commit.branch_key.namespace))
        commit.size = encoded.size
        removal = _CallRemoval(self, commit)
        request = _Request(self, thread_id, commit.hold)
        # In nearly all commits, the parent is the head and the changes are known, so nothing has to be read.
        has_usual_parent = commit.parent_id is None or commit.parent_id == commit.expected
        has_changes = deltas is not None or commit.parent_id is None
        event_count = len(log.entries) if encoded.events is not None and log is not None else 0

        def store(connection: Connection) -> None:
            self.lock(connection, thread_id)
            parent = None if has_usual_parent else self._find_parent(connection, commit)
            changes = encoded.changes if has_changes else self._encode_all_values(connection, commit, encoded, parent)
            connection.send(self._save_statement(commit, encoded, changes, event_count, parent, request))
            if encoded.log is not None and log is not None:
                self._send_log(connection, thread_id, log, encoded.log)
            if commit.dropped_namespaces:
                removal.perform(connection)

        reporting_store = with_damage_report(store, thread_id)

        def job(connection: Connection) -> CheckpointId:
            reporting_store(connection)
            for other_job in also:
                other_job(connection)
            return CheckpointId(commit.checkpoint.id)

        return job

    def _save_statement(
        self,
        commit: Commit,
        encoded: EncodedCommit,
        changes: bytes | None,
        event_count: int,
        parent: int | None,
        request: _Request,
    ) -> Statement:
        """Return the statement that saves a commit. `parent` is as in `_encode_all_values`."""
        parameters = (
            self._workspace,
            *commit.branch_key,
            encoded.expected,
            commit.parent_id is not None,
            parent,
            encoded.key,
            commit.run_id,
            encoded.control,
            changes,
            encoded.events,
            event_count,
            _RESULTS_TO_DELETE.get(commit.source, 1),
            *_columns(encoded.entries),
            *request.parameters(),
        )

        def compact_if_due(rows: list[Any], _: int) -> None:
            self._database.compactions.submit_if_due(self._workspace, commit.branch_key.thread_id, *rows[0])

        return Statement(
            self._sql["save_commit"],
            parameters,
            receive=compact_if_due,
            translate=lambda error: request.translate(error, commit.branch_key, commit.expected),
        )

    def send_drop_calls(
        self, connection: Connection, commit: Commit, translate: Callable[[Exception], Exception | None]
    ) -> None:
        """Delete the namespaces of the completed calls that a commit drops by a function of the server."""
        thread_id, _, branch = commit.branch_key
        parameters = (self._workspace, thread_id, branch, list(commit.dropped_namespaces))
        connection.send(Statement(self._sql["drop_calls"], parameters, translate=translate))

    def drop_calls(self, connection: Connection, commit: Commit) -> None:
        """Delete the namespaces of the completed calls that a commit drops, and keep what others need of them."""
        thread = self.thread_number(connection, commit.branch_key.thread_id)
        assert thread is not None
        drop_calls(connection, self._database, thread, commit.branch_key.branch, commit.dropped_namespaces)

    def _find_parent(self, connection: Connection, commit: Commit) -> int:
        """Return the row id of the parent of a commit."""
        thread = self.load_thread(connection, commit.branch_key.thread_id)
        row_id = self._parent(connection, thread, commit, None)
        assert row_id is not None
        return row_id

    def _encode_all_values(
        self, connection: Connection, commit: Commit, encoded: EncodedCommit, parent: int | None
    ) -> bytes | None:
        """Return all values of a commit as changes, because it has no deltas.

        `parent` is the row id of its parent; None if the parent is the head of the branch.
        """
        reader = self._reader(connection)
        row_id = parent if parent is not None else reader.find_head(self._workspace, commit.branch_key)
        if row_id is None:  # the commit will be refused, because the branch has no head that could be its parent
            return encoded.changes
        return self._encoder.encode_all_values(commit, reader.state_at(row_id))

    # -- results

    def results_job(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        hold: LeaseRequest | None,
        log: Log | None,
        also: Iterable[Job[Any]] = (),
    ) -> Job[Any]:
        entries = self._encoder.encode_results(pending)
        body = self._encoder.encode_log(log, branch_key.namespace) if log is not None else None
        journal = {journal_text(key): key for key in pending.journal}
        request = _Request(self, branch_key.thread_id, hold, journal)
        run, count = (log.run_id, len(log.entries)) if log is not None else (None, 0)

        def job(connection: Connection) -> None:
            self.lock(connection, branch_key.thread_id)
            key = key_of(checkpoint_id)
            parameters = (
                self._workspace,
                *branch_key,
                key,
                list(journal) or None,
                *_columns(entries),
                run,
                body,
                count,
            )
            connection.send(
                Statement(
                    self._sql["save_results"],
                    (*parameters, *request.parameters()),
                    translate=lambda error: request.translate(error, branch_key, checkpoint_id),
                )
            )
            for other_job in also:
                other_job(connection)

        return job

    def _send_log(self, connection: Connection, thread_id: str, log: Log, body: bytes) -> None:
        parameters = (self._workspace, thread_id, log.run_id, body, len(log.entries))
        connection.send(Statement(self._sql["save_log"], parameters))

    # -- leases

    def renew_job(self, thread_id: str, hold: LeaseRequest) -> Job[Lease | None]:
        request = _Request(self, thread_id, hold)

        def renew(connection: Connection) -> Lease | None:
            self.lock(connection, thread_id)
            branch_key = BranchKey(thread_id)
            connection.send(
                Statement(
                    self._sql["renew"],
                    (self._workspace, thread_id, *request.parameters()),
                    translate=lambda error: request.translate(error, branch_key, None),
                )
            )
            thread = self.load_thread(connection, thread_id)
            return thread.lease if thread is not None else None

        return renew

    def load_thread(self, connection: Connection, thread_id: str) -> StoredThread | None:
        # With `now`, the server expresses the end of the lease by `Database.clock`, which may differ by an instant.
        now = None if self._database.trusts_clocks else microseconds(self._database.clock.now())
        row = connection.execute(self._sql["thread"], (now, self._workspace, thread_id)).fetchone()
        return StoredThread(*row) if row is not None else None

    def thread_number(self, connection: Connection, thread_id: str) -> int | None:
        row = connection.execute(self._sql["thread_number"], (self._workspace, thread_id)).fetchone()
        return row[0] if row is not None else None

    @property
    def trusts_clocks(self) -> bool:
        """True if leases are compared with the clocks of workers rather than the clock of the server."""
        return self._database.trusts_clocks

    def id_of_head(self, row_id: str) -> CheckpointId | None:
        """Return the id of the checkpoint with a row id, for an error. It is read in a transaction of its own."""
        # The failed transaction holds the lock of the thread. Its waiters may occupy all sessions of a pooler.
        self._database.roll_back_failed()
        with suppress(DamagedDatabase):  # the thread was deleted after the transaction
            return self._database.query(lambda connection: self._reader(connection).id_at(int(row_id)))
        return None


class _CallRemoval:
    """The deletion of completed calls by a commit: first without reading them, and if that is refused, with reading."""

    def __init__(self, writer: PostgresWriter, commit: Commit) -> None:
        self._writer = writer
        self._commit = commit
        self._must_read = False

    def perform(self, connection: Connection) -> None:
        if self._must_read:
            self._writer.drop_calls(connection, self._commit)
        else:
            self._writer.send_drop_calls(connection, self._commit, self._translate)

    def _translate(self, error: Exception) -> Exception | None:
        if not isinstance(error, PostgresError) or error.code != "SW008":
            return None
        self._must_read = True
        return RetryTransaction("checkpoints of a completed call must be read before they are deleted")


class _Request:
    """Converts a lease request to parameters of a statement, and errors of the server to exceptions."""

    def __init__(
        self,
        writer: PostgresWriter,
        thread_id: str,
        hold: LeaseRequest | None,
        journal: Mapping[str, JournalKey] | None = None,
    ) -> None:
        self._writer = writer
        self._thread_id = thread_id
        self._hold = hold
        self._journal = journal or {}
        self._gone: str | None = None
        """The name of a holder that is known not to exist any more, which the server cannot find out itself; None if
        there is none."""

    def parameters(self) -> tuple[Any, ...]:
        hold = self._hold
        if hold is None:
            return None, None, False, None, None, None
        now = microseconds(hold.now) if self._writer.trusts_clocks else None
        duration = None if hold.until is None else microseconds(hold.until) - microseconds(hold.now)
        return hold.owner, duration, hold.claims, hold.expected_epoch, self._gone, now

    def translate(self, error: Exception, branch_key: BranchKey, expected: str | None) -> Exception | None:
        if not isinstance(error, PostgresError):
            return None
        match error.code:
            case "SW001":
                current = self._writer.id_of_head(error.detail) if error.detail else None
                return CheckpointConflict(self._thread_id, expected, current)
            case "SW002" if self._hold is not None:
                return LeaseLost(self._thread_id, self._hold.owner, error.detail or None)
            case "SW003":
                until, _, owner = error.detail.partition(" ")
                if owner != self._gone and is_holder_gone(owner):
                    self._gone = owner
                    return RetryTransaction(f"the holder of thread {self._thread_id!r} has ended")
                return ThreadBusy(self._thread_id, owner, instant_of(int(until)))
            case "SW004":
                return JournalConflict(*self._journal[error.detail])
            case "SW005":
                return CheckpointNotFound(
                    f"Thread {self._thread_id!r} has no checkpoint {expected!r} to add results to."
                )
            case "SW006":
                return StorageError(
                    f"Branch {branch_key.branch!r} of thread {self._thread_id!r} has reached the maximum number of "
                    f"checkpoints. Copy the thread, and continue on the copy."
                )
            case _:
                return None


def _columns(entries: Entries) -> tuple[Sequence[Any] | None, ...]:
    """Return results as three arrays of their kinds, keys and contents; three times None if there are none."""
    return tuple(list(column) for column in zip(*entries, strict=True)) if entries else (None, None, None)
