"""Group commit: concurrent writes in a process share transactions.

*The problem.* A commit waits until the disk, or a server and its disk, has stored the data. If each superstep had a
transaction of its own, concurrent runs would wait for their commits one after another.

*The approach.* A write is a job in a queue, a function whose argument is the only writing connection. The thread that
acquires the lock does all queued jobs in one transaction. When other threads acquire the lock afterwards, their jobs
are already done. If there is only one writer, it does its job itself, without switching to another thread. If there are
many, they share the cost of a commit. Readers have connections of their own and never wait for writers.

*Failures.* If a job fails before it has written anything, only this job reports the error. If it fails later, the whole
transaction is rolled back, and each job of the group is done again in a transaction of its own (`_write_group`), so
that no job fails because of another. A job should therefore make all checks before it writes, and it may be called
again.

*Interruptions.* Signal handlers run on the main thread and may raise exceptions between any two instructions. If the
main thread did jobs of other threads, these might wait forever for a job that was taken from the queue and lost. The
main thread therefore does only its own job, and only if the queue is empty; otherwise it leaves the job to the writer
thread. `_transaction_begun` is set before a transaction begins and cleared after it has ended. If it is set when the
next transaction begins, the previous transaction was interrupted, and is rolled back.

*Rejected.* A connection for each thread: each thread would pay for its own commit, and threads that use the same file
would wait for each other. A permanent writer thread for all writes: even a single run would need two context switches
for each superstep.
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
from typing import Any, Final, Generic, TypeVar
from weakref import ref

from statewright.errors import StorageError, StorageUnavailable
from statewright.futures import LightFuture, SafeEvent, is_main_thread
from statewright.runtime.concurrency.worker_threads import submit_to_thread, workers
from statewright.storage.database import Database, Job

T = TypeVar("T")
MAX_GROUP_SIZE: Final = 256
"""The maximum number of jobs in one transaction."""
CLOSE_PATIENCE: Final = 5.0
"""The longest time in seconds that `close` waits for releases of threads that worker threads have begun."""
MAX_ATTEMPTS: Final = 100
"""The maximum number of attempts at a job that raises `RetryTransaction`."""


class RetryTransaction(Exception):  # a request, not an error
    """Raised by a job or a commit to have the transaction rolled back and the same job done again in a new one."""


class LateFailure(Exception):  # its cause is the error
    """Raised by a commit if a statement of a job has failed after the job returned. `__cause__` is the error."""


class SeparateJob(Generic[T]):
    """A job that shares its transaction with no other, because it locks what all processes need."""

    def __init__(self, job: Job[T]) -> None:
        self._job = job

    def __call__(self, connection: Any) -> T:
        return self._job(connection)


class QueuedWrite(LightFuture[T]):
    """A job and the future of its result."""

    __slots__ = ("_job", "error", "is_separate", "outcome")

    def __init__(self, job: Job[T]) -> None:
        super().__init__()
        self._job = job
        self.is_separate: Final = isinstance(job, SeparateJob)
        self.outcome: Any = None
        """The result of the job, which is valid once the transaction has been committed."""
        self.error: BaseException | None = None

    def attempt(self, connection: Any) -> None:
        """Do the job, and keep its result or its error."""
        try:
            self.outcome, self.error = self._job(connection), None
        except BaseException as error:
            # A cursor in a frame of the traceback would keep a transaction open for as long as the error exists.
            clear_frames(error.__traceback__)
            self.error = error

    def settle(self) -> None:
        """Report the result or the error to the threads that are waiting for the write."""
        if self.error is not None:
            self.set_exception(self.error)
        else:
            self.set_result(self.outcome)


class GroupCommitDatabase(Database):
    """A database with one writing connection and a queue of writes.

    The constructor of an adapter calls `_open_queue`, connects, and then sets `_closed` to False.
    """

    _closed = True
    """True until the database is open. It is a class attribute because `__del__` runs even if `__init__` raises."""

    _pid = -1
    """The id of the process that has opened the connections."""

    def _open_queue(self) -> None:
        """Create the queue and its locks, in the constructor and in a forked process, where no other thread exists."""
        self._lock = threading.Lock()
        """Held during a transaction."""
        self._writer_start_lock = threading.Lock()
        """Held while the writer thread is being started."""
        self._queue: deque[QueuedWrite[Any]] = deque()
        self._transaction_begun = False
        """True from just before a transaction begins until it has ended. If it is True when another transaction begins,
        the previous one was interrupted. The state of the connection would not show this: if a database has rolled back
        a transaction by itself, the head cache still has to be cleared."""
        self._wakeup, self._writer_ended = SafeEvent(), SafeEvent()
        self._writer: int | None = None
        """The id of the writer thread; None until it has been started."""
        self.pending_commits: dict[tuple[str, str], LightFuture[Any]] = {}

    # -- methods that an adapter implements

    @abstractmethod
    def _begin(self) -> None:
        """Begin a transaction on the writing connection."""

    @abstractmethod
    def _commit(self) -> None:
        """Commit the transaction. Raises LateFailure if a statement of a job was executed only now, and failed."""

    @abstractmethod
    def _roll_back(self) -> None:
        """Roll back the transaction on the writing connection, if one is open."""

    @abstractmethod
    def _write_count(self) -> Hashable:
        """Return a value that changes whenever a job has written, or has made the transaction unusable."""

    @property
    @abstractmethod
    def _writing_connection(self) -> Any:
        """The connection on which the transaction is open."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close all connections."""

    @abstractmethod
    def _reconnect_after_fork(self) -> None:
        """Open new connections in a forked process. The parent's connections must not be used, not even closed."""

    def _may_repeat(self, error: BaseException, attempt: int) -> bool:
        """Return whether a job may be done again in a new transaction after this error, which has ended the attempt
        with this number. Nothing has been committed then.
        """
        return isinstance(error, RetryTransaction) and attempt < MAX_ATTEMPTS

    def _is_unavailable(self, error: BaseException) -> bool:
        """Return whether no transaction can be begun, so that the other jobs of a group need not be attempted."""
        return False

    @abstractmethod
    def _translate_error(self, error: BaseException) -> StorageError | None:
        """Return the StorageError for an error of the database; None for other exceptions."""

    @abstractmethod
    def _closed_error(self) -> Exception:
        """Return the error to raise for the use of a database that was closed."""

    # -- opening and closing

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __del__(self) -> None:
        """Close the database on another thread, because a finaliser must not acquire locks, wait or write."""
        if not self._closed and self._pid == os.getpid() and not sys.is_finalizing():
            workers.hand_over(self.close)

    def close(self) -> None:
        """Do all queued jobs and close the database. Later reads and writes raise StorageUnavailable."""
        if self._closed:
            return
        self._reopen_after_fork()
        # Threads of dropped runs are released by worker threads, which may not have come to it yet.
        workers.finish(self._has_lane, CLOSE_PATIENCE)
        if is_main_thread():  # a signal handler could interrupt a transaction with jobs of other threads here
            try:
                closing = submit_to_thread(self._close)
            except RuntimeError:  # the interpreter is shutting down and starts no more threads
                self._close()
            else:
                closing.result()
        else:
            self._close()

    def _has_lane(self, lane: Hashable) -> bool:
        """Return whether jobs of a lane of the worker threads write to this database: see `DatabaseSaver.scope`."""
        return isinstance(lane, tuple) and lane[:1] == (self.scope,)

    def _close(self) -> None:
        with self._lock:
            while self._queue:
                self._write_next_group()
            self._closed = True
            while self._queue:  # jobs that were queued in the meantime fail, because the database is closed
                self._write_next_group()
            self._wakeup.set()
            self._disconnect()
        # The writer thread must not wait for itself if a job closes the database.
        if self._writer is not None and self._writer != threading.get_ident():
            self._writer_ended.wait()

    @property
    def transaction_lock(self) -> threading.Lock:
        """The lock that is held during a transaction."""
        return self._lock

    def _reopen_after_fork(self) -> None:
        """Reinitialize in a forked process, which has no writer thread and must not use the parent's connections."""
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

        If a signal handler raises an exception, it propagates, although the job may have been done.
        """
        self._reopen_after_fork()
        if is_main_thread():
            return self._write_on_main_thread(job)
        write = QueuedWrite(job)
        self._queue.append(write)
        with self._lock:
            while not write.done() and self._queue:  # the previous holder of the lock may have done the job
                self._write_next_group()
        if not write.done():  # the thread that had taken the job from the queue was killed
            raise self._killed_error()
        return write.result()

    def _write_on_main_thread(self, job: Job[T]) -> T:
        """Do a job of the main thread: here if there are no other jobs, or else with them on the writer thread."""
        if not self._queue and not self._lock.locked():
            with self._lock:
                if not self._queue:  # checked again under the lock
                    return self._write_alone(job)
        return self.submit(job).result()

    def submit(self, job: Job[T]) -> LightFuture[T]:
        """Queue a job, which the writer thread does in a transaction. Jobs are done in the order of the queue.

        The job is done even if no caller is waiting for it. If the database is closed, the future raises an error.
        """
        self._reopen_after_fork()
        if self._writer is None:
            self._start_writer()
        write = QueuedWrite(job)
        self._queue.append(write)
        if not self._wakeup.is_set():
            self._wakeup.set()
        if self._closed:  # the job will not be done, unless `_close` has already taken it from the queue
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

    def submit_read(
        self, read: Job[T], *, after: LightFuture[Any] | None = None, stale_ok: bool = False
    ) -> LightFuture[T]:
        def call() -> T:
            if after is not None:
                after.wait()
            return self.query(read, stale_ok=stale_ok)

        return submit_to_thread(call)

    # -- the writer thread

    def _start_writer(self) -> None:
        with self._writer_start_lock:  # not `_lock`, because `submit` must not wait for a transaction
            if self._writer is None and not self._closed:
                # Not a `threading.Thread`, whose `start` may wait forever if it is interrupted by a signal. If a signal
                # arrives between the start and the assignment, there will be two writer threads, which does no harm.
                database: ref[GroupCommitDatabase] = ref(self)
                arguments = (database, self._wakeup, self._writer_ended)
                self._writer = _thread.start_new_thread(_write_until_closed, arguments)

    def _write_all(self) -> bool:
        """Do all queued jobs. Return False if the database is closed."""
        with self._lock:
            while self._queue:
                self._write_next_group()
        return not self._closed

    # -- transactions

    def _write_next_group(self) -> None:
        """Do the first jobs of the queue in one transaction. The caller holds the lock and is not the main thread."""
        queue, group = self._queue, list[QueuedWrite[Any]]()
        try:
            while queue and len(group) < MAX_GROUP_SIZE:
                if group and (group[-1].is_separate or queue[0].is_separate):
                    break
                group.append(queue.popleft())
            if group and not self._write_group(group):
                self._write_singly(group)
        except Exception as error:
            for write in group:
                write.error = write.error or error
        except BaseException:  # this thread is being killed, so the threads that wait for the jobs must get an error
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
        """Do a group of jobs in one transaction.

        Return False if the transaction was rolled back and each job has to be done again in its own transaction.
        """
        try:
            self._begin_transaction()
            for write in group:
                before = self._write_count()
                write.attempt(self._writing_connection)
                has_written = self._write_count() != before
                if write.error is not None and (has_written or self._may_repeat(write.error, 0)):
                    self._roll_back_transaction()
                    return False
            self._commit_transaction()
        except BaseException as error:
            self._roll_back_transaction()
            if isinstance(error, LateFailure) or self._may_repeat(error, 0):
                return False
            raise
        return True

    def _write_alone(self, job: Job[T]) -> T:
        """Do a job of the main thread, which holds the lock, while the queue is empty.

        A signal handler may raise an exception at any point. No other thread is waiting for this job, and the
        transaction is rolled back if it is still open.
        """
        write = QueuedWrite(job)
        try:
            self._write_single(write)
        finally:
            if self._transaction_begun:  # a signal has interrupted the rollback
                self._roll_back_transaction()
        self._settle(write)
        return write.result()

    def _write_singly(self, group: Sequence[QueuedWrite[Any]]) -> None:
        """Do each job of a group in a transaction of its own. If the database cannot be used, the rest fails at once.

        Otherwise each job would wait again for the same answer, while all other writes wait for the lock.
        """
        for write in group:
            self._write_single(write)
            if write.error is not None and self._is_unavailable(write.error):
                raise write.error

    def _write_single(self, write: QueuedWrite[Any]) -> None:
        """Do one job in a transaction of its own, several times if an error permits that."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
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
            if write.error is None or not self._may_repeat(write.error, attempt):
                break
        if isinstance(write.error, RetryTransaction):
            write.error = write.error.__cause__ or write.error

    def _begin_transaction(self) -> None:
        if self._closed:
            raise self._closed_error()
        self._mark_begun()
        self._begin()

    def _mark_begun(self) -> None:
        """Record that a transaction is about to begin. Roll back the previous one first, if it was interrupted."""
        if self._transaction_begun:
            self._roll_back_transaction()
        self._transaction_begun = True

    def _commit_transaction(self) -> None:
        self._commit()
        self._transaction_begun = False

    def _roll_back_transaction(self) -> None:
        """Roll back the open transaction, if there is one, and clear the head cache, which jobs may have changed."""
        if self._transaction_begun:
            self._roll_back()
            self.head_cache.forget()
            self._transaction_begun = False

    def _killed_error(self) -> StorageUnavailable:
        return StorageUnavailable(
            f"The thread that was writing to {self.location} was killed, so it is not known whether this write was "
            f"saved. Read the stored data before you write it again."
        )


def _write_until_closed(database: ref[GroupCommitDatabase], wakeup: SafeEvent, ended: SafeEvent) -> None:
    """Do queued jobs until the database is closed.

    This is the function of the writer thread, which has only a weak reference, so as not to keep the database alive.
    """
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
"""Held while a database is being reinitialized in a forked process."""
