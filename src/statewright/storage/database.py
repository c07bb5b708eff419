"""The port of databases: what the savers, stores, caches and ledgers of this package need of one.

The modules beside this one lay out checkpoints, items, cached results and records of runs in tables, and know no
particular database. An adapter such as `sqlite/` has the connections and transactions, the definitions of the tables,
and the text of every statement, because the dialects of SQL differ. Statements have `?` or `:name` as placeholders.

Within a process, the jobs of a database are done one after another. If other processes can write at the same time, the
statement with which a job reads a thread (`thread` of the group `commits`) has to lock its row.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar, cast

from statewright.errors import InvalidConfig
from statewright.futures import LightFuture, MaybeFuture
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.head_cache import HeadCache
from statewright.storage.encryption import Encryptor
from statewright.storage.row_ids import RowIds

T = TypeVar("T")
UNLIMITED: Final = 2**62
"""A LIMIT that permits every row."""


class Cursor(Protocol):
    """The rows that a statement returns, each a tuple."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement has changed."""
        ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection within a transaction."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor:
        """Execute a statement, after those that were sent, and return its rows."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement several times."""
        ...

    def lock(self, *names: str) -> None:
        """Lock names until the end of the transaction: wait for other transactions that have locked one of them.

        A database with a single writer needs no locks.
        """
        ...

    def send(self, statement: Statement, /) -> None:
        """Execute a statement now or at any time before the transaction is committed, in order.

        With a server, all statements that were sent make one round trip. An error may be raised here, or by the commit.
        """
        ...


class Match(Enum):
    """The number of rows that a statement has to change or select."""

    ANY = "any"
    ONE = "one"
    NONE = "none"


@dataclass(slots=True)
class Statement:
    """A statement of a job that need not wait for its result."""

    sql: str
    parameters: Sequence[Any]
    match: Match = Match.ANY
    """The transaction fails unless so many rows are changed, or selected."""
    mismatch: Callable[[], Exception] = RuntimeError
    """Creates the error for another number of rows."""
    translate: Callable[[Exception], Exception | None] | None = None
    """Returns the error for one of the connection, such as a violated constraint; None leaves it as it is."""
    receive: Callable[[Any, int], None] | None = None
    """Gets the first row that the statement returns, if it returns rows, and the number of rows, before the job counts
    as done."""

    def check(self, row: Any, count: int) -> None:
        """Process the result. Raises the error for another number of rows than `match` requires."""
        if self.match is not Match.ANY and count != (self.match is Match.ONE):
            raise self.mismatch()
        if self.receive is not None:
            self.receive(row, count)

    def error_of(self, error: Exception) -> Exception:
        """Return the error to raise for one of the connection."""
        return (self.translate and self.translate(error)) or error


def thread_lock(workspace: str, thread_id: str) -> str:
    """Return the name under which a thread is locked, by transactions that write to it or to its runs."""
    return f"thread {workspace} {thread_id}"


def run_lock(run_id: str) -> str:
    """Return the name under which a run is locked, by transactions that write to it or to its records."""
    return f"run {run_id}"


Job = Callable[[Connection], T]
"""Work in a transaction. It checks before it writes, and may be called again after a rollback."""


class Closeable:
    """Closed at the end of a `with` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class Database(Closeable, ABC):
    """A database that savers, stores, caches and ledgers share, so that one transaction can write for several."""

    row_ids: ClassVar[RowIds]
    """The division of row ids."""
    executes_late: ClassVar[bool] = False
    """True if statements that were sent are executed by the commit: then checks before them save no rollback."""
    has_arrays: ClassVar[bool] = False
    """True if a list can be one parameter of a statement."""
    streams_rows: ClassVar[bool] = False
    """True if a statement reads rows as they are fetched, so that a large result takes no memory."""
    INTEGRITY_ERROR: ClassVar[type[Exception]]
    """Raised by a connection for a violated constraint."""
    AFTER_ALL_TEXT: ClassVar[Any]
    """The end of an open range of texts: a value that sorts after all of them."""

    serde: Serde
    encryptor: Encryptor
    head_cache: HeadCache
    """Recently written heads; used by one job at a time."""
    pending_commits: dict[tuple[str, str], LightFuture[Any]]
    """The last commit by workspace and thread, if its run has not waited for it; readers of the thread wait."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The path or address, without a password."""

    @property
    @abstractmethod
    def scope(self) -> Hashable:
        """Equal for databases of this process with the same data."""

    # -- stored values

    def encode(self, value: Any, where: str = "value") -> bytes:
        """Return a value in stored form. Raises SerdeError with the path, from `where`, to a part that has none."""
        return self.encryptor.encrypt(self.serde.encode(value, where))

    def decode(self, stored: bytes) -> Any:
        """Reverse `encode`."""
        return self.serde.decode(self.encryptor.decrypt(stored))

    # -- transactions

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Provide a connection that sees a single state of the database during the block."""

    @abstractmethod
    def submit_read(self, read: Job[T], *, after: LightFuture[Any] | None = None) -> LightFuture[T]:
        """Call a function on another thread, with a connection, after a write has completed."""

    @abstractmethod
    def write(self, job: Job[T]) -> T:
        """Do a job in a transaction, and return its result."""

    @abstractmethod
    def submit(self, job: Job[T]) -> LightFuture[T]:
        """Queue a job for a transaction on another thread; jobs keep their order."""

    @abstractmethod
    def pending_commit(self, thread: tuple[str, str]) -> LightFuture[Any] | None:
        """Return the last commit to a thread (workspace and id), if it has not been written yet."""

    # -- statements

    @abstractmethod
    def has_tables(self, name: str) -> bool:
        """Return whether a group of tables exists."""

    @abstractmethod
    def create_tables(self, name: str) -> None:
        """Create a group of tables, unless they exist."""

    @abstractmethod
    def statements(self, name: str) -> Mapping[str, str]:
        """Return a group of statements by name."""

    @abstractmethod
    def insert(self, connection: Connection, sql: str, parameters: Any) -> int:
        """Insert a row, and return its number."""

    @abstractmethod
    def violated_constraint(self, error: Exception) -> tuple[bool, Sequence[str]]:
        """Return whether a constraint that was violated is one of uniqueness, and its columns."""


D = TypeVar("D", bound=Database)


class View(Closeable, Generic[D]):
    """A view of a database: a saver, a store, a cache or a ledger.

    It opens the database with `options` if it is given a path, and closes it then, but not one that it was given.
    """

    database_type: ClassVar[type[Any]]

    def __init__(self, database: D | str | os.PathLike[str], **options: Any) -> None:
        self._owns = not isinstance(database, Database)
        if options and not self._owns:
            name = self.database_type.__name__
            raise InvalidConfig(f"{', '.join(options)}: these options open a file. Pass them to {name}(...).")
        self.database = cast("D", self.database_type(database, **options) if self._owns else database)

    def _write(self, job: Job[T]) -> MaybeFuture[T]:
        """Do a job in a transaction; return its result, or a future of it on the thread of an event loop."""
        return self.database.submit(job) if on_event_loop() else self.database.write(job)

    def _query(self, read: Job[T], *, after: LightFuture[Any] | None = None) -> MaybeFuture[T]:
        """Call a function with a reading connection, after a write; on another thread if an event loop runs here."""
        if on_event_loop():
            return self.database.submit_read(read, after=after)
        if after is not None:
            after.wait()
        with self.database.read() as connection:
            return read(connection)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a view of the database at a path or URL, such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.database.location!r})"

    def close(self) -> None:
        """Close the database, if this view has opened it."""
        if self._owns:
            self.database.close()


def on_event_loop() -> bool:
    """Return whether an event loop runs on this thread, which must not be blocked then."""
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and asyncio._get_running_loop() is not None
