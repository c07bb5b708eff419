"""Group commit: concurrent writes of a process share transactions.

*The problem.* A commit waits for the disk, or for a server and its disk. With a transaction for each superstep,
concurrent runs would wait one after another.

*The approach.* Writes are jobs, functions of the single writing connection, in a queue. A thread that gets the lock
takes all queued jobs into one transaction, and the others find their jobs done when they get the lock. A lone write has
no detour over another thread; with many writers the cost of a commit is shared. Readers have connections of their own,
and never wait for writers.

*Failures.* A job that fails before it has written anything just reports its error. If it fails later, the group is
rolled back and each of its jobs repeated in a transaction of its own (`_write_group`), so that no job fails because of
another. Therefore a job checks before it writes, and may be called again.

*Interruptions.* Signal handlers run on the main thread and may raise between any two instructions. If that thread wrote
for others, they could wait forever for a job that was taken from the queue and lost. So the main thread writes alone,
if nothing is queued, and otherwise hands its job to the writer thread. `_transaction_begun` is set before a transaction
begins: if the next writer finds it set, the transaction was interrupted, and is rolled back.

*Rejected.* A connection for each thread: each pays for its commit, and on one file they wait for each other. A
permanent writer thread for all writes: two context switches for each superstep of a single run.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Sequence
from traceback import clear_frames
from typing import Any, Final, TypeVar
from weakref import ref

from statewright.errors import StorageError, StorageUnavailable
from statewright.futures import LightFuture, SafeEvent, is_main_thread
from statewright.runtime.concurrency.worker_threads import submit_to_thread, workers
from statewright.storage.database import Database, Job

T = TypeVar("T")
MAX_GROUP_SIZE: Final = 256
"""The largest number of jobs in one transaction."""
MAX_ATTEMPTS: Final = 100
"""Attempts at a job that asks for another one (`RetryTransaction`)."""


class RetryTransaction(Exception):  # a request, not an error
    """Raised by a job or a commit: roll back, and do the same job again in a new transaction."""


class LateFailure(Exception):  # the error is its cause
    """Raised by a commit: a job has failed after it returned. `__cause__` is its error."""


class QueuedWrite(LightFuture[T]):
    """A job and the future of its result."""

    __slots__ = ("_job", "error", "outcome")

    def __init__(self, job: Job[T]) -> None:
        super().__init__()
        self._job = job
        self.outcome: Any = None
        """The result, which is valid once the transaction has been committed."""
        self.error: BaseException | None = None

    def attempt(self, connection: Any) -> None:
        """Do the job."""
        try:
            self.outcome, self.error = self._job(connection), None
        except BaseException as error:
            # A cursor in a frame of the traceback would keep a transaction open as long as the error exists.
            clear_frames(error.__traceback__)
            self.error = error

    def settle(self) -> None:
        """Report the outcome to the waiting threads."""
        if self.error is not None:
            self.set_exception(self.error)
        else:
            self.set_result(self.outcome)


class GroupCommitDatabase(Database):
    """A database with one writing connection, and a queue of writes.

    An adapter calls `_open_queue`, connects, and then sets `_closed` to False.
    """

    _closed = True
    """True until the database is open, because `__del__` runs even if `__init__` raises."""

    _pid = -1
    """The process that has opened the connections."""

    def _open_queue(self) -> None:
        """Create the queue and its locks: at first, and in a forked process, where no other thread exists."""
        self._lock = threading.Lock()
        """Held during a transaction."""
        self._writer_start_lock = threading.Lock()
        """Held while the writer thread is started."""
        self._queue: deque[QueuedWrite[Any]] = deque()
        self._transaction_begun = False
        """True from before a transaction begins until its end. If the next writer finds it set, the transaction was
        interrupted. The state of the connection cannot replace it: a database may have rolled back by itself, when the
        head cache still has to be cleared."""
        self._wakeup, self._writer_ended = SafeEvent(), SafeEvent()
        self._writer: int | None = None
        """The id of the writer thread, once it has been started."""
        self.pending_commits: dict[tuple[str, str], LightFuture[Any]] = {}

    # -- the part of an adapter

    @abstractmethod
    def _begin(self) -> None:
        """Begin a transaction on the writing connection."""

    @abstractmethod
    def _commit(self) -> None:
        """Commit the transaction. Raises LateFailure for a job whose statements were executed only now."""

    @abstractmethod
    def _roll_back(self) -> None:
        """Roll back the transaction on the writing connection, if one is open there."""

    @abstractmethod
    def _write_count(self) -> Hashable:
        """Return a value that changes when a job writes, or makes its transaction fail."""

    @property
    @abstractmethod
    def _writing_connection(self) -> Any:
        """The connection on which a transaction is open."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close all connections."""

    @abstractmethod
    def _reconnect_after_fork(self) -> None:
        """Open new connections in a forked process. Those of its parent must not even be closed."""

    @abstractmethod
    def _translate_error(self, error: BaseException) -> StorageError | None:
        """Return the error of Statewright for one of the database; None for other exceptions."""

    @abstractmethod
    def _closed_error(self) -> Exception:
        """Return the error of a database that was closed."""

    # -- opening and closing

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __del__(self) -> None:
        """Close on another thread, because a finaliser must not take locks, wait or write."""
        if not self._closed and self._pid == os.getpid() and not sys.is_finalizing():
            workers.hand_over(self.close)

    def close(self) -> None:
        """Write all queued jobs and close the database. Later reads and writes raise."""
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
            self._disconnect()
        if self._writer is not None and self._writer != threading.get_ident():  # a job may close the database
            self._writer_ended.wait()

    @property
    def transaction_lock(self) -> threading.Lock:
        """The lock that is held during a transaction."""
        return self._lock

    def _reopen_after_fork(self) -> None:
        """Begin anew in a forked process, where neither the writer thread nor the connections can be used."""
        if self._pid == os.getpid():
            return
        with _reopen_lock:
            if self._pid == os.getpid():
                return
            self._reconnect_after_fork()
            self.head_cache.forget()
            self._open_queue()
            self._pid = os.getpid()  # last, because other threads proceed once it is set

    # -- writing

    def write(self, job: Job[T]) -> T:
        """Do a job in a transaction, together with queued jobs, and return its result.

        Exceptions of signal handlers propagate; the job may have been done nevertheless.
        """
        self._reopen_after_fork()
        if is_main_thread():
            return self._write_on_main_thread(job)
        write = QueuedWrite(job)
        self._queue.append(write)
        with self._lock:
            while not write.done() and self._queue:  # the previous holder of the lock may have done it
                self._write_next_group()
        if not write.done():  # the thread that had taken it was killed
            raise self._killed_error()
        return write.result()

    def _write_on_main_thread(self, job: Job[T]) -> T:
        """Do a job for a thread that may be interrupted anywhere: alone, or on the writer thread with others."""
        if not self._queue and not self._lock.locked():
            with self._lock:
                if not self._queue:  # checked again under the lock
                    return self._write_alone(job)
        return self.submit(job).result()

    def submit(self, job: Job[T]) -> LightFuture[T]:
        """Queue a job for a transaction on the writer thread; jobs keep their order.

        It is done even if no caller waits for it any more. The future of a closed database raises.
        """
        self._reopen_after_fork()
        if self._writer is None:
            self._start_writer()
        write = QueuedWrite(job)
        self._queue.append(write)
        if not self._wakeup.is_set():
            self._wakeup.set()
        if self._closed:  # too late, unless `_close` has taken it from the queue
            try:
                self._queue.remove(write)
            except ValueError:
                return write
            write.error = self._closed_error()
            self._settle(write)
        return write

    def pending_commit(self, thread: tuple[str, str]) -> LightFuture[Any] | None:
        self._reopen_after_fork()
        commit = self.pending_commits.get(thread)
        return None if commit is None or commit.done() else commit

    def submit_read(self, read: Job[T], *, after: LightFuture[Any] | None = None) -> LightFuture[T]:
        def call() -> T:
            if after is not None:
                after.wait()
            with self.read() as connection:
                return read(connection)

        return submit_to_thread(call)

    # -- the writer thread

    def _start_writer(self) -> None:
        with self._writer_start_lock:  # not the lock of transactions, for which `submit` must not wait
            if self._writer is None and not self._closed:
                # Not a `threading.Thread`: one whose start is interrupted may wait for ever. If a signal comes between
                # the start and the assignment there will be two writers, which does no harm.
                self._writer = _thread.start_new_thread(_write_on, (ref(self), self._wakeup, self._writer_ended))

    def _write_all(self) -> bool:
        """Write all queued jobs. Return False if the database is closed."""
        with self._lock:
            while self._queue:
                self._write_next_group()
        return not self._closed

    # -- transactions

    def _write_next_group(self) -> None:
        """Write the first queued jobs as one transaction. The caller holds the lock, and is not the main thread."""
        queue, group = self._queue, list[QueuedWrite[Any]]()
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
                write.error = write.error or self._killed_error()
            raise
        finally:
            for write in group:
                self._settle(write)

    def _settle(self, write: QueuedWrite[Any]) -> None:
        if write.error is not None and (storage_error := self._translate_error(write.error)) is not None:
            storage_error.__cause__ = write.error
            write.error = storage_error
        write.settle()

    def _write_group(self, group: Sequence[QueuedWrite[Any]]) -> bool:
        """Write a group. Return False, after a rollback, if its jobs have to be repeated one by one."""
        try:
            self._begin_transaction()
            for write in group:
                before = self._write_count()
                write.attempt(self._writing_connection)
                has_written = self._write_count() != before
                if write.error is not None and (has_written or isinstance(write.error, RetryTransaction)):
                    self._roll_back_transaction()
                    return False
            self._commit_transaction()
        except (LateFailure, RetryTransaction):
            self._roll_back_transaction()
            return False
        except BaseException:
            self._roll_back_transaction()
            raise
        return True

    def _write_alone(self, job: Job[T]) -> T:
        """Do a job while the queue is empty. The lock is held.

        A signal handler may raise anywhere. No other thread waits for this job, and an open transaction is rolled back.
        """
        write = QueuedWrite(job)
        try:
            self._write_single(write)
        finally:
            if self._transaction_begun:  # the signal interrupted the rollback
                self._roll_back_transaction()
        self._settle(write)
        return write.result()

    def _write_single(self, write: QueuedWrite[Any]) -> None:
        for _ in range(MAX_ATTEMPTS):
            try:
                self._begin_transaction()
                write.attempt(self._writing_connection)
                if write.error is None:
                    self._commit_transaction()
                    return
                self._roll_back_transaction()
            except LateFailure as failure:
                self._roll_back_transaction()
                write.error = failure.__cause__
            except BaseException as error:
                self._roll_back_transaction()
                write.error = error
            if not isinstance(write.error, RetryTransaction):
                return
        if write.error is not None:
            write.error = write.error.__cause__ or write.error

    def _begin_transaction(self) -> None:
        if self._closed:
            raise self._closed_error()
        self._mark_begun()
        self._begin()

    def _mark_begun(self) -> None:
        """Mark a transaction as begun, after rolling back one that was interrupted."""
        if self._transaction_begun:
            self._roll_back_transaction()
        self._transaction_begun = True

    def _commit_transaction(self) -> None:
        self._commit()
        self._transaction_begun = False

    def _roll_back_transaction(self) -> None:
        """Roll back the open transaction, if there is one. Its jobs may have changed the cache of heads, too."""
        if self._transaction_begun:
            self._roll_back()
            self.head_cache.forget()
            self._transaction_begun = False

    def _killed_error(self) -> StorageUnavailable:
        return StorageUnavailable(
            f"The thread that was writing to {self.location} was killed, so it is not known whether this write was "
            f"saved. Read the stored data before you write it again."
        )


def _write_on(database: ref[GroupCommitDatabase], wakeup: SafeEvent, ended: SafeEvent) -> None:
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


_reopen_lock = threading.Lock()
"""Held while a database is opened again in a forked process."""
