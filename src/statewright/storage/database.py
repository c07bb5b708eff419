"""The port of databases: what savers, stores, caches and ledgers need from a database.

Other modules of this package define how checkpoints, items, cached results and records of runs are stored in tables,
without depending on a particular database. An adapter to the port, such as `sqlite/`, provides connections and
transactions, the definitions of the tables, and the text of every statement, because SQL dialects differ. Placeholders
in statements are `?` or `:name`.

Within a process, the jobs of a database are done one after another. If other processes can write at the same time, the
statement with which a job reads a thread (`thread` in the group `commits`) has to lock the row of the thread.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar, cast

from statewright.clock import Clock, SystemClock
from statewright.errors import InvalidConfig
from statewright.futures import LightFuture, MaybeFuture
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.head_cache import HeadCache
from statewright.storage.encryption import Encryptor
from statewright.storage.row_ids import RowIds

T = TypeVar("T")
UNLIMITED: Final = 2**62
"""A value for LIMIT that does not limit the number of rows."""


class Cursor(Protocol):
    """The rows that a statement returns, as tuples."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement has changed."""
        ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection on which a transaction is open."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor:
        """Execute a statement, after all statements that were sent before, and return its rows."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement once for each element of `parameters`."""
        ...

    def lock(self, *names: str, shared: bool = False) -> None:
        """Lock names until the end of the transaction, and wait for other transactions that have locked one of them.

        Transactions that share a lock do not wait for each other. A database with a single writer need not do anything.
        """
        ...

    def send(self, statement: Statement, /) -> None:
        """Execute a statement now or later, but before the transaction is committed. The order of statements is kept.

        With a database server, statements that were sent need only one round trip. An error may be raised here or by
        the commit.
        """
        ...


class Match(Enum):
    """The number of rows that a statement must change or select."""

    ANY = "any"
    ONE = "one"
    NONE = "none"


@dataclass(slots=True)
class Statement:
    """A statement for whose result the job need not wait."""

    sql: str
    parameters: Sequence[Any]
    match: Match = Match.ANY
    """The number of rows that the statement must change or select; otherwise the transaction fails."""
    mismatch: Callable[[], Exception] = RuntimeError
    """Creates the error that is raised in this case."""
    translate: Callable[[Exception], Exception | None] | None = None
    """Returns the error to raise for an error of the connection, such as a violated constraint; None to raise that
    error itself."""
    receive: Callable[[list[Any], int], None] | None = None
    """Receives the rows that the statement returns, and the number of rows returned or changed, before the
    transaction is reported as committed."""
    needs_response: bool = False
    """True if the caller cannot do without the result. Otherwise a transaction whose response was lost is reported as
    committed if it was, although nothing was received."""

    def check(self, rows: list[Any], count: int) -> None:
        """Process the result of the statement. Raises the error of `mismatch` if the number of rows is wrong."""
        if self.match is not Match.ANY and count != (self.match is Match.ONE):
            raise self.mismatch()
        if self.receive is not None:
            self.receive(rows, count)

    def error_of(self, error: Exception) -> Exception:
        """Return the error to raise for an error of the connection."""
        return (self.translate and self.translate(error)) or error


def thread_lock(workspace: str, thread_id: str) -> str:
    """Return the name that transactions lock before they write to a thread or to its runs."""
    return f"thread {workspace} {thread_id}"


def run_lock(run_id: str) -> str:
    """Return the name that transactions lock before they write to a run or to its records."""
    return f"run {run_id}"


LIMITS_LOCK: Final = "limits"
"""The name that transactions lock that set a limit, and share that start a run as if there were none."""
Job = Callable[[Connection], T]
"""A function that works in a transaction.

It should make all its checks before its first write. It may be called again after a rollback.
"""


class Closeable:
    """An object that is closed at the end of a `with` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class Database(Closeable, ABC):
    """A database that savers, stores, caches and ledgers can share, so that one transaction can write for several."""

    row_ids: ClassVar[RowIds]
    """The layout of row ids."""
    executes_late: ClassVar[bool] = False
    """True if statements that were sent may be executed only by the commit. Checking values before sending a statement
    then does not avoid rollbacks."""
    has_null_characters: ClassVar[bool] = True
    """True if texts may contain null characters."""
    has_arrays: ClassVar[bool] = False
    """True if a list can be one parameter of a statement."""
    streams_rows: ClassVar[bool] = False
    """True if a statement reads rows as they are fetched, so that a large result takes no memory."""
    INTEGRITY_ERROR: ClassVar[type[Exception]]
    """The exception that a connection raises for a violated constraint."""
    AFTER_ALL_TEXT: ClassVar[Any]
    """A value that sorts after all texts, as the end of a range without an upper bound."""

    clock: Clock = SystemClock()
    """The clock with which stored times are compared. With a server, it is the same for all processes."""
    serde: Serde
    encryptor: Encryptor
    head_cache: HeadCache
    """Recently written heads. Only the current job may use it."""
    pending_commits: dict[tuple[str, str], LightFuture[Any]]
    """The last commit of each thread, by workspace and thread id, if its run has not waited for it. Readers of the
    thread wait for it."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The path or the address, without the password."""

    @property
    @abstractmethod
    def scope(self) -> Hashable:
        """A key that is equal for objects of this process that use the same data."""

    # -- stored values

    def encode(self, value: Any, where: str = "value") -> bytes:
        """Return the bytes to store for a value.

        Raises SerdeError if it cannot be stored, with the path to the part that is not valid; the path begins with
        `where`.
        """
        return self.encryptor.encrypt(self.serde.encode(value, where))

    def decode(self, stored: bytes) -> Any:
        """Return the value from which `encode` returned these bytes."""
        return self.serde.decode(self.encryptor.decrypt(stored))

    # -- transactions

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Provide a connection for reading. During the block, it sees a consistent snapshot of the database."""

    def query(self, read: Job[T], *, stale_ok: bool = False) -> T:
        """Call a function with a connection for reading, and return its result.

        It may be called again if the connection is lost. With `stale_ok`, it may see the state of some time ago, on a
        replica; writes of this process may be missing.
        """
        with self.read() as connection:
            return read(connection)

    @abstractmethod
    def submit_read(
        self, read: Job[T], *, after: LightFuture[Any] | None = None, stale_ok: bool = False
    ) -> LightFuture[T]:
        """Do the same as `query` on another thread, once the write `after` has completed."""

    @abstractmethod
    def write(self, job: Job[T]) -> T:
        """Do a job in a transaction, and return its result."""

    @abstractmethod
    def submit(self, job: Job[T]) -> LightFuture[T]:
        """Queue a job, which is done in a transaction on another thread. Jobs are done in the order of the queue."""

    @abstractmethod
    def pending_commit(self, thread: tuple[str, str]) -> LightFuture[Any] | None:
        """Return the last commit to a thread if it has not been written yet. `thread` is its workspace and its id."""

    # -- statements

    @abstractmethod
    def has_tables(self, name: str) -> bool:
        """Return whether a group of tables exists."""

    @abstractmethod
    def create_tables(self, name: str) -> None:
        """Create the group of tables with this name, unless they exist."""

    @abstractmethod
    def statements(self, name: str) -> Mapping[str, str]:
        """Return the statements of the group with this name, by their names."""

    @abstractmethod
    def insert(self, connection: Connection, sql: str, parameters: Any) -> int:
        """Insert a row, and return the number that the database has assigned to it, 0 if the statement inserts none."""

    def is_unstorable(self, error: Exception) -> bool:
        """Return whether an error of a statement means that a text or another value can never be stored here."""
        return False

    @abstractmethod
    def violated_constraint(self, error: Exception) -> tuple[bool, Sequence[str]]:
        """Return whether the constraint that was violated is a uniqueness constraint, and its columns."""


D = TypeVar("D", bound=Database)


class Backend(Closeable, Generic[D]):
    """The base class of savers, stores, caches and ledgers that use a database.

    If it is given a path or URL, it opens the database with `options`, and closes it in `close`. If it is given an open
    database, it does not close it.
    """

    database_type: ClassVar[type[Any]]
    _stale_ok = False
    """True if reads may see the state of some time ago."""

    def __init__(self, database: D | str | os.PathLike[str], **options: Any) -> None:
        self._owns = not isinstance(database, Database)
        if options and not self._owns:
            name = self.database_type.__name__
            raise InvalidConfig(
                f"The options {', '.join(options)} are for opening a database, but the given database is already open. "
                f"Pass them to {name}(...)."
            )
        self.database = cast("D", self.database_type(database, **options) if self._owns else database)

    @property
    def clock(self) -> Clock:
        """The clock with which stored times are compared: that of the database."""
        return self.database.clock

    def _write(self, job: Job[T]) -> MaybeFuture[T]:
        """Do a job in a transaction. Return its result or, if an event loop is running on this thread, a future."""
        return self.database.submit(job) if on_event_loop() else self.database.write(job)

    def _query(self, read: Job[T], *, after: LightFuture[Any] | None = None) -> MaybeFuture[T]:
        """Call a function with a connection for reading, once the write `after` has completed.

        Return its result. If an event loop is running on this thread, call it on another thread and return a future.
        """
        if on_event_loop():
            return self.database.submit_read(read, after=after, stale_ok=self._stale_ok)
        if after is not None:
            after.wait()
        return self.database.query(read, stale_ok=self._stale_ok)

    def for_history(self) -> Self:
        """Return a view of the same database whose reads may be a little old, as those of a replica are."""
        view = copy(self)
        view._owns, view._stale_ok = False, True
        return view

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return an instance for the database at a path or URL, such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.database.location!r})"

    def close(self) -> None:
        """Close the database, if this object has opened it."""
        if self._owns:
            self.database.close()


def on_event_loop() -> bool:
    """Return whether an event loop is running on this thread, so that the thread must not be blocked."""
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and asyncio._get_running_loop() is not None
