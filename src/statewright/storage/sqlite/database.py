"""One SQLite file: who may read it, and how writes become transactions.

Readers have connections of their own and never wait for writers (write-ahead log). Writes are jobs: functions of the
one writing connection. Whoever writes takes everything that waits along, in one transaction: a commit costs what the
disk needs to confirm it, and many runs share that cost. A job that fails fails alone.

Signal handlers run on the main thread and may raise anywhere. So that thread never writes for others: it does its own
job while nothing else waits, and hands it over otherwise. What an interruption leaves half done is undone by whoever
writes next, if not at once.

The file is safe with several processes; within one, share one `SqliteDatabase`.
"""

from __future__ import annotations

import _thread
import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from weakref import ref

from statewright.errors import StorageUnavailable
from statewright.futures import LightFuture, SafeEvent, is_main_thread
from statewright.runtime.concurrency.worker_threads import call_beside, workers
from statewright.serde.serde import Serde
from statewright.storage.encryption import Encryptor
from statewright.storage.locations import path_of
from statewright.storage.sqlite.checkpoints.head_cache import Known, check_format
from statewright.storage.sqlite.faults import check_in_place, identity_of, translated
from statewright.storage.sqlite.forks import fork_between_transactions
from statewright.storage.sqlite.migrate import prepare

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
"""What to do in a transaction. It checks before it writes, and may be called again if the transaction was undone."""

PATIENCE: Final = 10.0
"""Seconds for which a write waits for other processes that write."""
STATEMENTS: Final = 512
"""How many prepared statements a connection keeps: faces of a database have more than the usual 128 together."""
LARGEST_GROUP: Final = 256
"""How many jobs one transaction takes."""


class _Write(LightFuture[T]):
    """A job, and the promise to do it."""

    __slots__ = ("_job", "answer", "error")

    def __init__(self, job: Job[T]) -> None:
        super().__init__()
        self._job = job
        self.answer: Any = None
        self.error: BaseException | None = None

    def attempt(self, connection: sqlite3.Connection) -> None:
        """Do the job; what comes of it counts once the transaction is through."""
        try:
            self.answer, self.error = self._job(connection), None
        except BaseException as error:
            clear_frames(error.__traceback__)  # see SqliteDatabase.read
            self.error = error

    def settle(self) -> None:
        if self.error is not None:
            self.set_exception(self.error)
        else:
            self.set_result(self.answer)


class SqliteDatabase:
    """A file that keeps threads, a store and a cache; `SqliteSaver`, `SqliteStore`, `SqliteCache` are its faces.

    With a `key` (16, 24 or 32 bytes) what runs and users put in is encrypted: AES-GCM; names of threads, namespaces and
    times are not. `compress` makes older checkpoints smaller and slower to read.
    """

    _closed = True
    """Until it is open: `__del__` runs even where `__init__` raises."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        compress: bool = False,
        serde: Serde | None = None,
    ) -> None:
        self.path = path_of(path)
        self._location = os.path.abspath(self.path)  # wherever the process will work later
        self.serde = serde or Serde()
        self.seal = Encryptor(key, compress=compress)
        self.known = Known(self.path)
        """What was written lately; used under the lock of the writer alone."""
        self.ahead: dict[tuple[str, str], LightFuture[Any]] = {}
        """By workspace and id of a thread, the last commit that a run has not waited for: who reads the thread does."""
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._queue: deque[_Write[Any]] = deque()
        self._begun = False
        """Whether a transaction is under way. Found so by who writes next, it was interrupted."""
        self._forget_writer()
        self._readers: list[sqlite3.Connection] = []
        self._process = os.getpid()
        with self._faults():
            self._connection = self._connect()
            try:
                prepare(self._connection, self.path, self.seal)
            except BaseException:
                _disconnect(self._connection)
                raise
        self._identity = identity_of(self._location)
        self._closed = False
        fork_between_transactions(self)

    @property
    def transaction_lock(self) -> threading.Lock:
        """The lock under which transactions are made."""
        return self._lock

    @property
    def scope(self) -> Hashable:
        """Equal for databases of this process that have the same file open."""
        return self._identity or self._location

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The database of a path, or of a URL such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __del__(self) -> None:
        """Have another thread close what was dropped: here nothing may be locked, waited for, or written."""
        if not self._closed and self._process == os.getpid() and not sys.is_finalizing():
            workers.hand_over(self.close)

    def close(self) -> None:
        """Write what waits, and let go of the file. Nothing can be read or written any more."""
        if self._closed:
            return
        self._check_process()
        if is_main_thread():
            try:
                closing = call_beside(self._close)
            except RuntimeError:  # no thread can be started any more: the interpreter ends
                self._close()
            else:
                closing.result()
        else:
            self._close()

    def _close(self) -> None:
        with self._lock:
            while self._queue:
                self._drain()
            self._closed = True
            while self._queue:  # what was handed over meanwhile is told that it came too late
                self._drain()
            self._bell.set()
            for connection in (*self._readers, self._connection):
                _disconnect(connection)
            self._readers.clear()
        if self._writer is not None and self._writer != threading.get_ident():
            self._writer_ended.wait()

    # -- reading

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """A connection that sees one state of the database, for as long as the block lasts."""
        self._check_process()
        with self._faults():
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                check_format(connection, self.path)
                yield connection
            except BaseException as error:
                # A cursor in what failed would keep the connection at this state, as long as somebody keeps the error.
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
            raise sqlite3.ProgrammingError(_CLOSED)
        check_in_place(self._location, self._identity)
        try:
            return self._readers.pop()
        except IndexError:  # all are in use
            return self._connect()

    def read_beside(
        self, read: Callable[[sqlite3.Connection], T], *, after: LightFuture[Any] | None = None
    ) -> LightFuture[T]:
        """What a function reads, on a thread of its own, when a write is through."""

        def call() -> T:
            if after is not None:
                after.wait()
            with self.read() as connection:
                return read(connection)

        return call_beside(call)

    def unsaved_of(self, thread: tuple[str, str]) -> LightFuture[Any] | None:
        """Find the last commit to a thread, given by its workspace and id, if it is still on its way to the disk."""
        self._check_process()
        promise = self.ahead.get(thread)
        return None if promise is None or promise.done() else promise

    # -- writing

    def write(self, job: Job[T]) -> T:
        """Do a job in a transaction, with whatever else waits to be written; its answer.

        Raises what a signal handler raises meanwhile; the job may have been done all the same.
        """
        self._check_process()
        if is_main_thread():
            return self._write_uncertainly(job)
        promise = _Write(job)
        self._queue.append(promise)
        with self._lock:
            while not promise.done() and self._queue:  # whoever held the lock may have done it already
                self._drain()
        if not promise.done():  # who had taken it along was ended from outside
            raise _broken_off(self.path)
        return promise.result()

    def _write_uncertainly(self, job: Job[T]) -> T:
        """Do a job on a thread that may be interrupted anywhere: by itself, or on the writer thread with others."""
        if not self._queue and not self._lock.locked():
            with self._lock:
                if not self._queue:  # nobody has come first
                    return self._write_by_itself(job)
        return self.hand_over(job).result()

    def vacuum(self) -> int:
        """Write the file anew without what is empty in it; how many bytes it became smaller.

        Others can read meanwhile and cannot write, and the disk needs room for a second copy. Raises StorageLocked if
        another process writes.
        """
        self._check_process()
        with self._lock, self._faults():
            if self._closed:
                raise sqlite3.ProgrammingError(_CLOSED)
            check_in_place(self._location, self._identity)
            self._note_begin()
            try:
                self.known.refresh(self._connection)
                before = os.path.getsize(self._location)
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return before - os.path.getsize(self._location)
            finally:
                self._undo()  # nothing, except what is known: rows may have other numbers

    def hand_over(self, job: Job[T]) -> LightFuture[T]:
        """Let a job be done in a transaction on the writer thread; jobs keep their order.

        It is done even if nobody waits for it any more. The promise of a closed database raises.
        """
        self._check_process()
        if self._writer is None:
            self._start_writer()
        promise = _Write(job)
        self._queue.append(promise)
        if not self._bell.is_set():
            self._bell.set()
        if self._closed:  # it came too late, unless whoever has closed has found it
            try:
                self._queue.remove(promise)
            except ValueError:
                return promise
            promise.error = sqlite3.ProgrammingError(_CLOSED)
            self._settle(promise)
        return promise

    def _start_writer(self) -> None:
        with self._starting:  # not the lock: whoever hands over does not wait for those who write
            if self._writer is None and not self._closed:
                # Not a `threading.Thread`: one whose start is interrupted may wait for ever. If a signal comes between
                # the start and the assignment there will be two writers, which does no harm.
                self._writer = _thread.start_new_thread(_write_on, (ref(self), self._bell, self._writer_ended))

    def _forget_writer(self) -> None:
        self._bell, self._writer_ended = SafeEvent(), SafeEvent()
        self._writer: int | None = None

    def _write_all(self) -> bool:
        """Write whatever waits; False if the database is closed."""
        with self._lock:
            while self._queue:
                self._drain()
        return not self._closed

    def _drain(self) -> None:
        """Write what waits as one transaction. The lock is held, and no signal handler interrupts this thread."""
        queue, group = self._queue, list[_Write[Any]]()
        try:
            while queue and len(group) < LARGEST_GROUP:
                group.append(queue.popleft())
            if group and not self._written_together(group):
                for one in group:
                    self._written_alone(one)
        except Exception as error:
            for one in group:
                one.error = one.error or error
        except BaseException:  # this thread was told to end, which is no business of the others
            for one in group:
                one.error = one.error or _broken_off(self.path)
            raise
        finally:
            for one in group:
                self._settle(one)

    def _settle(self, write: _Write[Any]) -> None:
        if write.error is not None:
            write.error = translated(write.error, self.path) or write.error
        write.settle()

    def _written_together(self, group: list[_Write[Any]]) -> bool:
        """Write a group; False if one failed after it had written, so that nothing was kept."""
        connection = self._connection
        try:
            self._begin()
            for one in group:
                before = connection.total_changes
                one.attempt(connection)
                if one.error is not None and (connection.total_changes != before or not connection.in_transaction):
                    self._undo()
                    return False
            self._commit()
        except BaseException:
            self._undo()
            raise
        return True

    def _write_by_itself(self, job: Job[T]) -> T:
        """Do a job while nothing else waits. The lock is held.

        A signal handler may raise anywhere in between. Nobody else waits for what is done here, and a transaction that
        is left open is undone.
        """
        one = _Write(job)
        try:
            self._written_alone(one)
        finally:
            if self._begun:  # the signal came while it was undone
                self._undo()
        self._settle(one)
        return one.result()

    def _written_alone(self, one: _Write[Any]) -> None:
        try:
            self._begin()
            one.attempt(self._connection)
            if one.error is None:
                self._commit()
            else:
                self._undo()
        except BaseException as error:
            self._undo()
            one.error = error

    def _begin(self) -> None:
        if self._closed:
            raise sqlite3.ProgrammingError(_CLOSED)
        check_in_place(self._location, self._identity)
        self._note_begin()
        self._connection.execute("BEGIN IMMEDIATE")
        self.known.refresh(self._connection)

    def _note_begin(self) -> None:
        """Note that something is under way, once what was interrupted before is undone."""
        if self._begun:
            self._undo()
        self._begun = True

    def _commit(self) -> None:
        self._connection.execute("COMMIT")
        self._begun = False

    def _undo(self) -> None:
        """Write nothing of the present transaction, if there is one."""
        if self._begun:
            self._connection.rollback()
            self.known.forget()
            self._begun = False

    # -- connections

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._location,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=STATEMENTS,
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA temp_store=MEMORY")
        except BaseException:
            connection.close()
            raise
        _connections.add(connection)
        return connection

    def _check_process(self) -> None:
        """After a fork, begin with connections of one's own: those of the parent must not even be closed."""
        if self._process == os.getpid():
            return
        with _after_fork:
            if self._process == os.getpid():
                return
            self._readers, self._queue = [], deque()
            self._lock, self._starting = threading.Lock(), threading.Lock()
            self._forget_writer()
            self._connection = self._connect()
            self._begun = False
            self.known.forget()
            self.ahead = {}
            self._process = os.getpid()  # last: until then other threads wait

    @contextmanager
    def _faults(self) -> Generator[None]:
        """Raises errors of SQLite as those of Statewright."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            ours = translated(error, self.path)
            if ours is None:
                raise
            raise ours from error


def _write_on(database: ref[SqliteDatabase], bell: SafeEvent, ended: SafeEvent) -> None:
    """Write whatever waits, until the database is closed. The thread that does so must not keep the database."""
    try:
        while True:
            bell.wait()
            bell.clear()
            open_database = database()
            if open_database is None or not open_database._write_all():  # pyright: ignore[reportPrivateUsage]
                return
            del open_database
    finally:
        ended.set()


def _broken_off(path: Path) -> StorageUnavailable:
    return StorageUnavailable(
        f"The thread that wrote to {path} for others was ended from outside while it did so. Whether this write was "
        f"kept is not known: read what is stored before you write it again."
    )


def _disconnect(connection: sqlite3.Connection) -> None:
    connection.close()
    _connections.discard(connection)


_CLOSED: Final = "it was closed"
_after_fork = threading.Lock()
_connections: set[sqlite3.Connection] = set()
"""All that are open. Kept here because a connection that is collected as garbage is closed there and then, which
touches the disk; and in a forked process closing those of its parent would release the locks of that."""
