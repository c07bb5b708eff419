"""One SQLite file: connections, and the grouping of writes into transactions.

*The problem.* With `synchronous=FULL` a commit waits for the disk, and SQLite permits a single writer. With a
transaction for each superstep, concurrent runs would queue for the disk one after another.

*The approach* is group commit. Writes are jobs, functions of the single writing connection, in a queue. A thread that
gets the lock takes all queued jobs into one transaction, and the others find their jobs done when they get the lock. A
lone write has no detour over another thread; with many writers the cost of the disk is shared. Readers have connections
of their own and never wait for writers (write-ahead log).

*Failures.* A job that fails before it has written anything just reports its error. If it fails later, the group is
rolled back and each of its jobs repeated in a transaction of its own (`_write_group`), so that no job fails because of
another. Therefore a job checks before it writes, and may be called twice.

*Interruptions.* Signal handlers run on the main thread and may raise between any two instructions. If that thread wrote
for others, they could wait forever for a job that was taken from the queue and lost. So the main thread writes alone,
if nothing is queued, and otherwise hands its job to the writer thread. `_transaction_begun` is set before `BEGIN`: if
the next writer finds it set, the transaction was interrupted, and is rolled back.

*Rejected.* A connection for each thread, with `busy_timeout`: waiters poll, and each pays for the disk. A permanent
writer thread for all writes: two context switches for each superstep of a single run. `synchronous=NORMAL`: the last
commits may be lost when the machine fails, although their events have been seen.

Several processes may open the file; within a process, share one `SqliteDatabase`.
"""

from __future__ import annotations

import _thread
import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames
from typing import Any, Final, Self, TypeVar
from weakref import ref

from statewright.errors import StorageUnavailable
from statewright.futures import LightFuture, SafeEvent, is_main_thread
from statewright.runtime.concurrency.worker_threads import submit_to_thread, workers
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.head_cache import HeadCache
from statewright.storage.database import Database
from statewright.storage.encryption import Encryptor
from statewright.storage.locations import path_of
from statewright.storage.sqlite.data_version import VersionedHeadCache, check_format
from statewright.storage.sqlite.faults import check_in_place, identity_of, translate_error
from statewright.storage.sqlite.forks import defer_forks
from statewright.storage.sqlite.migrate import prepare
from statewright.storage.sqlite.statements import run_script, statements

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
"""Work in a transaction. It checks before it writes, and may be called again after a rollback."""

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for the writes of other processes."""
CACHED_STATEMENTS: Final = 512
"""Prepared statements that a connection caches: savers, stores, caches and ledgers use more than the default of 128."""
MAX_GROUP_SIZE: Final = 256
"""The largest number of jobs in one transaction."""


class _Write(LightFuture[T]):
    """A job and the future of its result."""

    __slots__ = ("_job", "error", "outcome")

    def __init__(self, job: Job[T]) -> None:
        super().__init__()
        self._job = job
        self.outcome: Any = None
        """The result, which is valid once the transaction has been committed."""
        self.error: BaseException | None = None

    def attempt(self, connection: sqlite3.Connection) -> None:
        """Do the job."""
        try:
            self.outcome, self.error = self._job(connection), None
        except BaseException as error:
            clear_frames(error.__traceback__)  # see SqliteDatabase.read
            self.error = error

    def settle(self) -> None:
        """Report the outcome to the waiting threads."""
        if self.error is not None:
            self.set_exception(self.error)
        else:
            self.set_result(self.outcome)


class SqliteDatabase(Database):
    """A file with threads, a store, a cache and the records of runs.

    `SqliteSaver`, `SqliteStore`, `SqliteCache` and `SqliteLedger` are views of it. With a `key` of 16, 24 or 32 bytes,
    the values of runs and users are encrypted with AES-GCM; ids, namespaces and times are not. `compress` makes older
    checkpoints smaller and slower to read.
    """

    INTEGRITY_ERROR = sqlite3.IntegrityError
    AFTER_ALL_TEXT = b""  # SQLite sorts bytes after all text
    _closed = True
    """True until the file is open, because `__del__` runs even if `__init__` raises."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        compress: bool = False,
        serde: Serde | None = None,
    ) -> None:
        self.path = path_of(path)
        self._absolute_path = os.path.abspath(self.path)  # the working directory may change
        self.serde = serde or Serde()
        self.encryptor = Encryptor(key, compress=compress)
        self.head_cache: HeadCache = VersionedHeadCache(self.path)
        self.pending_commits: dict[tuple[str, str], LightFuture[Any]] = {}
        self._lock = threading.Lock()
        """Held during a transaction."""
        self._writer_start_lock = threading.Lock()
        """Held while the writer thread is started."""
        self._queue: deque[_Write[Any]] = deque()
        self._transaction_begun = False
        """True from before `BEGIN` until the end of a transaction. If the next writer finds it set, the transaction was
        interrupted. `Connection.in_transaction` cannot replace it: that is false after SQLite itself has rolled back,
        when the head cache still has to be cleared."""
        self._reset_writer()
        self._readers: list[sqlite3.Connection] = []
        self._pid = os.getpid()
        with self._translating_errors():
            self._connection = self._connect()
            try:
                prepare(self._connection, self.path, self.encryptor)
            except BaseException:
                _disconnect(self._connection)
                raise
        self._identity = identity_of(self._absolute_path)
        self._closed = False
        defer_forks(self)

    @property
    def transaction_lock(self) -> threading.Lock:
        """The lock that is held during a transaction."""
        return self._lock

    @property
    def location(self) -> str:
        """The path, as it was given."""
        return str(self.path)

    @property
    def scope(self) -> Hashable:
        """Equal for databases of this process with the same file."""
        return self._identity or self._absolute_path

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Open the database at a path, or at a URL such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __del__(self) -> None:
        """Close on another thread, because a finaliser must not take locks, wait or write."""
        if not self._closed and self._pid == os.getpid() and not sys.is_finalizing():
            workers.hand_over(self.close)

    def close(self) -> None:
        """Write all queued jobs and close the file. Later reads and writes raise."""
        if self._closed:
            return
        self._reopen_after_fork()
        if is_main_thread():  # not here, where a signal handler could interrupt a transaction with jobs of others
            try:
                closing = submit_to_thread(self._close)
            except RuntimeError:  # the interpreter shuts down and starts no threads
                self._close()
            else:
                closing.result()
        else:
            self._close()

    def _close(self) -> None:
        with self._lock:
            while self._queue:
                self._write_next_group()
            self._closed = True
            while self._queue:  # jobs that were queued meanwhile fail
                self._write_next_group()
            self._wakeup.set()
            for connection in (*self._readers, self._connection):
                _disconnect(connection)
            self._readers.clear()
        if self._writer is not None and self._writer != threading.get_ident():  # a job may close the database
            self._writer_ended.wait()

    # -- reading

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Provide a connection that sees a single state of the database during the block."""
        self._reopen_after_fork()
        with self._translating_errors():
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                check_format(connection, self.path)  # another process may have migrated the file
                yield connection
            except BaseException as error:
                # A cursor in a frame of the traceback would keep the read transaction open as long as the error exists.
                clear_frames(error.__traceback__)
                raise
            finally:
                connection.rollback()
                if self._closed:
                    _disconnect(connection)
                else:
                    self._readers.append(connection)

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise _closed_error()
        check_in_place(self._absolute_path, self._identity)
        try:
            return self._readers.pop()
        except IndexError:  # all connections are in use
            return self._connect()

    def submit_read(
        self, read: Callable[[sqlite3.Connection], T], *, after: LightFuture[Any] | None = None
    ) -> LightFuture[T]:
        def call() -> T:
            if after is not None:
                after.wait()
            with self.read() as connection:
                return read(connection)

        return submit_to_thread(call)

    def pending_commit(self, thread: tuple[str, str]) -> LightFuture[Any] | None:
        self._reopen_after_fork()
        commit = self.pending_commits.get(thread)
        return None if commit is None or commit.done() else commit

    # -- writing

    def write(self, job: Job[T]) -> T:
        """Do a job in a transaction, together with queued jobs, and return its result.

        Exceptions of signal handlers propagate; the job may have been done nevertheless.
        """
        self._reopen_after_fork()
        if is_main_thread():
            return self._write_on_main_thread(job)
        write = _Write(job)
        self._queue.append(write)
        with self._lock:
            while not write.done() and self._queue:  # the previous holder of the lock may have done it
                self._write_next_group()
        if not write.done():  # the thread that had taken it was killed
            raise _killed_error(self.path)
        return write.result()

    def _write_on_main_thread(self, job: Job[T]) -> T:
        """Do a job for a thread that may be interrupted anywhere: alone, or on the writer thread with others."""
        if not self._queue and not self._lock.locked():
            with self._lock:
                if not self._queue:  # checked again under the lock
                    return self._write_alone(job)
        return self.submit(job).result()

    def vacuum(self) -> int:
        """Rewrite the file without its free pages, and return by how many bytes it has shrunk.

        Meanwhile the database can be read but not written, and the disk needs room for a copy. Raises StorageLocked if
        another process writes.
        """
        self._reopen_after_fork()
        with self._lock, self._translating_errors():
            if self._closed:
                raise _closed_error()
            check_in_place(self._absolute_path, self._identity)
            self._mark_begun()
            try:
                self.head_cache.refresh(self._connection)
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # now the file has all pages
                before = os.path.getsize(self._absolute_path)
                self._connection.execute("VACUUM")  # writes the whole file into the write-ahead log
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return before - os.path.getsize(self._absolute_path)
            finally:
                self._roll_back()  # no transaction is open, but VACUUM may change row ids, so the cache is cleared

    def submit(self, job: Job[T]) -> LightFuture[T]:
        """Queue a job for a transaction on the writer thread; jobs keep their order.

        It is done even if no caller waits for it any more. The future of a closed database raises.
        """
        self._reopen_after_fork()
        if self._writer is None:
            self._start_writer()
        write = _Write(job)
        self._queue.append(write)
        if not self._wakeup.is_set():
            self._wakeup.set()
        if self._closed:  # too late, unless `_close` has taken it from the queue
            try:
                self._queue.remove(write)
            except ValueError:
                return write
            write.error = _closed_error()
            self._settle(write)
        return write

    def _start_writer(self) -> None:
        with self._writer_start_lock:  # not the lock of transactions, for which `submit` must not wait
            if self._writer is None and not self._closed:
                # Not a `threading.Thread`: one whose start is interrupted may wait for ever. If a signal comes between
                # the start and the assignment there will be two writers, which does no harm.
                self._writer = _thread.start_new_thread(_write_on, (ref(self), self._wakeup, self._writer_ended))

    def _reset_writer(self) -> None:
        """Create the state of a writer thread that has not been started: at first, and after a fork."""
        self._wakeup, self._writer_ended = SafeEvent(), SafeEvent()
        self._writer: int | None = None

    def _write_all(self) -> bool:
        """Write all queued jobs. Return False if the database is closed."""
        with self._lock:
            while self._queue:
                self._write_next_group()
        return not self._closed

    def _write_next_group(self) -> None:
        """Write the first queued jobs as one transaction. The caller holds the lock, and is not the main thread."""
        queue, group = self._queue, list[_Write[Any]]()
        try:
            while queue and len(group) < MAX_GROUP_SIZE:
                group.append(queue.popleft())
            if group and not self._write_group(group):
                for write in group:
                    self._write_single(write)
        except Exception as error:
            for write in group:
                write.error = write.error or error
        except BaseException:  # this thread is being killed, which the others must learn as an error
            for write in group:
                write.error = write.error or _killed_error(self.path)
            raise
        finally:
            for write in group:
                self._settle(write)

    def _settle(self, write: _Write[Any]) -> None:
        if write.error is not None and (storage_error := translate_error(write.error, self.path)) is not None:
            storage_error.__cause__ = write.error
            write.error = storage_error
        write.settle()

    def _write_group(self, group: list[_Write[Any]]) -> bool:
        """Write a group. Return False, after a rollback, if a job failed after it had written."""
        connection = self._connection
        try:
            self._begin()
            for write in group:
                before = connection.total_changes
                write.attempt(connection)
                if write.error is not None and (connection.total_changes != before or not connection.in_transaction):
                    self._roll_back()
                    return False
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        return True

    def _write_alone(self, job: Job[T]) -> T:
        """Do a job while the queue is empty. The lock is held.

        A signal handler may raise anywhere. No other thread waits for this job, and an open transaction is rolled back.
        """
        write = _Write(job)
        try:
            self._write_single(write)
        finally:
            if self._transaction_begun:  # the signal interrupted the rollback
                self._roll_back()
        self._settle(write)
        return write.result()

    def _write_single(self, write: _Write[Any]) -> None:
        try:
            self._begin()
            write.attempt(self._connection)
            if write.error is None:
                self._commit()
            else:
                self._roll_back()
        except BaseException as error:
            self._roll_back()
            write.error = error

    def _begin(self) -> None:
        if self._closed:
            raise _closed_error()
        check_in_place(self._absolute_path, self._identity)
        self._mark_begun()
        self._connection.execute("BEGIN IMMEDIATE")
        self.head_cache.refresh(self._connection)

    def _mark_begun(self) -> None:
        """Mark a transaction as begun, after rolling back one that was interrupted."""
        if self._transaction_begun:
            self._roll_back()
        self._transaction_begun = True

    def _commit(self) -> None:
        self._connection.execute("COMMIT")
        self._transaction_begun = False

    def _roll_back(self) -> None:
        """Roll back the open transaction, if there is one. Its jobs may have changed the cache of heads, too."""
        if self._transaction_begun:
            self._connection.rollback()
            self.head_cache.forget()
            self._transaction_begun = False

    # -- statements

    def create_tables(self, name: str) -> None:
        with self.read() as connection:
            (count,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        if not count:
            self.write(lambda connection: run_script(connection, f"{name}_tables"))

    def statements(self, name: str) -> Mapping[str, str]:
        return statements(name)

    def insert(self, connection: Any, sql: str, parameters: Any) -> int:
        return connection.execute(sql, parameters).lastrowid or 0

    def violated_constraint(self, error: Exception) -> tuple[bool, Sequence[str]]:
        # The message is `UNIQUE constraint failed: table.column, table.column`.
        columns = [name.strip().rpartition(".")[2] for name in str(error).partition(":")[2].split(",")]
        code = getattr(error, "sqlite_errorcode", None)
        return code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY), columns

    # -- connections

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._absolute_path,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA temp_store=MEMORY")
        except BaseException:
            connection.close()
            raise
        _connections.add(connection)
        return connection

    def _reopen_after_fork(self) -> None:
        """Open new connections in a forked process: those of its parent must not even be closed (`_connections`)."""
        if self._pid == os.getpid():
            return
        with _reopen_lock:
            if self._pid == os.getpid():
                return
            self._readers, self._queue = [], deque()
            self._lock, self._writer_start_lock = threading.Lock(), threading.Lock()
            self._reset_writer()
            self._connection = self._connect()
            self._transaction_begun = False
            self.head_cache.forget()
            self.pending_commits = {}
            self._pid = os.getpid()  # last, because other threads proceed once it is set

    @contextmanager
    def _translating_errors(self) -> Generator[None]:
        """Raise errors of SQLite and the file system as errors of Statewright."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            storage_error = translate_error(error, self.path)
            if storage_error is None:
                raise
            raise storage_error from error


def _write_on(database: ref[SqliteDatabase], wakeup: SafeEvent, ended: SafeEvent) -> None:
    """Write queued jobs until the database is closed. The thread must not keep the database alive."""
    try:
        while True:
            wakeup.wait()
            wakeup.clear()
            open_database = database()
            if open_database is None or not open_database._write_all():  # pyright: ignore[reportPrivateUsage]
                return
            del open_database
    finally:
        ended.set()


def _closed_error() -> sqlite3.Error:
    """Return an error for `translate_error`, which names the database: `... cannot be used: it was closed.`"""
    return sqlite3.ProgrammingError("it was closed")


def _killed_error(path: Path) -> StorageUnavailable:
    return StorageUnavailable(
        f"The thread that was writing to {path} was killed, so it is not known whether this write was saved. Read the "
        f"stored data before you write it again."
    )


def _disconnect(connection: sqlite3.Connection) -> None:
    connection.close()
    _connections.discard(connection)


_reopen_lock = threading.Lock()
_connections: set[sqlite3.Connection] = set()
"""All open connections. They are referenced here because garbage collection would close a connection at once, which
touches the disk; and closing a connection of the parent in a forked process would release the locks of the parent."""
