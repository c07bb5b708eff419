"""A SQLite file: connections and transactions.

SQLite permits only one writer at a time, and with `synchronous=FULL` a commit waits for the disk. Concurrent writes of
a process therefore share transactions (`group_commit.py`). Because the file has a write-ahead log, readers see the last
commit and never wait for writers.

*Rejected.* A connection for each OS thread, with `busy_timeout`: threads that wait poll the lock, and each has to wait
for the disk itself. `synchronous=NORMAL`: if the machine fails, the last commits may be lost, although their events
have already been sent.

Several processes may open the same file. Within a process, share one `SqliteDatabase`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any, Final, Self

from statewright.errors import StorageError
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.head_cache import HeadCache
from statewright.storage.database import Statement
from statewright.storage.encryption import Encryptor
from statewright.storage.group_commit import GroupCommitDatabase
from statewright.storage.locations import path_of
from statewright.storage.sqlite.data_version import VersionedHeadCache, check_format
from statewright.storage.sqlite.faults import check_in_place, identity_of, translate_error, translate_errors
from statewright.storage.sqlite.forks import defer_forks
from statewright.storage.sqlite.migrate import prepare
from statewright.storage.sqlite.statements import ROW_IDS, run_script, statements

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for the writes of other processes."""
CACHED_STATEMENTS: Final = 512
"""The number of prepared statements that a connection caches. Savers, stores, caches and ledgers together use more than
the default of 128."""


class _Connection(sqlite3.Connection):
    """A connection that executes statements as soon as they are sent."""

    def lock(self, *names: str, shared: bool = False) -> None:
        """Do nothing, because the file has only one writer at a time."""

    def send(self, statement: Statement) -> None:
        try:
            cursor = self.execute(statement.sql, statement.parameters)
        except Exception as error:
            translated = statement.error_of(error)
            if translated is error:
                raise
            raise translated from error
        rows = cursor.fetchall() if cursor.description is not None else []
        statement.check(rows, cursor.rowcount if cursor.description is None else len(rows))


class SqliteDatabase(GroupCommitDatabase):
    """A SQLite file that `SqliteSaver`, `SqliteStore`, `SqliteCache` and `SqliteLedger` can share.

    With a `key` of 16, 24 or 32 bytes, the values of runs and users are encrypted with AES-GCM; ids, namespaces and
    times are not. `compress` makes older checkpoints smaller and slower to read.
    """

    row_ids = ROW_IDS
    streams_rows = True
    INTEGRITY_ERROR = sqlite3.IntegrityError
    AFTER_ALL_TEXT = b""  # SQLite sorts bytes after all text

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
        self._open_queue()
        self._readers: list[_Connection] = []
        self._pid = os.getpid()
        with translate_errors(self.path):
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
    def location(self) -> str:
        """The path that was passed to the constructor."""
        return str(self.path)

    @property
    def scope(self) -> Hashable:
        """A key that is equal for objects of this process that use the same file."""
        return self._identity or self._absolute_path

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Open the database at a path, or at a URL such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    # -- reading

    @contextmanager
    def read(self) -> Generator[_Connection]:
        """Provide a connection for reading. During the block, it sees a consistent snapshot of the database."""
        self._reopen_after_fork()
        with translate_errors(self.path):
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                check_format(connection, self.path)  # another process may have migrated the file
                yield connection
            except BaseException as error:
                # A cursor in a frame of the traceback would keep the transaction open for as long as the error exists.
                clear_frames(error.__traceback__)
                raise
            finally:
                connection.rollback()
                if self._closed:
                    _disconnect(connection)
                else:
                    self._readers.append(connection)

    def _reader(self) -> _Connection:
        if self._closed:
            raise self._closed_error()
        check_in_place(self._absolute_path, self._identity)
        try:
            return self._readers.pop()
        except IndexError:  # all connections are in use
            return self._connect()

    # -- writing

    def _begin(self) -> None:
        check_in_place(self._absolute_path, self._identity)
        self._connection.execute("BEGIN IMMEDIATE")
        self.head_cache.refresh(self._connection)

    def _commit(self) -> None:
        self._connection.execute("COMMIT")

    def _roll_back(self) -> None:
        self._connection.rollback()

    def _write_count(self) -> Hashable:
        # `in_transaction` changes if an error has ended the transaction.
        return self._connection.total_changes, self._connection.in_transaction

    @property
    def _writing_connection(self) -> _Connection:
        return self._connection

    def vacuum(self) -> int:
        """Rewrite the file without free pages, and return the number of bytes by which it has shrunk.

        Meanwhile the database can be read but not written, and the disk needs space for a copy of the file. Raises
        StorageLocked if another process is writing.
        """
        self._reopen_after_fork()
        with self._lock, translate_errors(self.path):
            if self._closed:
                raise self._closed_error()
            check_in_place(self._absolute_path, self._identity)
            self._mark_begun()
            try:
                self.head_cache.refresh(self._connection)
                # Move all pages from the write-ahead log to the file, so that its size can be compared.
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                before = os.path.getsize(self._absolute_path)
                self._connection.execute("VACUUM")  # writes the whole file into the write-ahead log
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return before - os.path.getsize(self._absolute_path)
            finally:
                # No transaction is open, but this clears the head cache. VACUUM may have changed row ids.
                self._roll_back_transaction()

    # -- statements

    def has_tables(self, name: str) -> bool:
        with self.read() as connection:
            (count,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        return bool(count)

    def create_tables(self, name: str) -> None:
        if not self.has_tables(name):
            self.write(lambda connection: run_script(connection, f"{name}_tables"))

    def statements(self, name: str) -> Mapping[str, str]:
        return statements(name)

    def insert(self, connection: Any, sql: str, parameters: Any) -> int:
        return connection.execute(sql, parameters).lastrowid or 0

    def violated_constraint(self, error: Exception) -> tuple[bool, Sequence[str]]:
        # The message of the error is `UNIQUE constraint failed: table.column, table.column`.
        columns = [name.strip().rpartition(".")[2] for name in str(error).partition(":")[2].split(",")]
        code = getattr(error, "sqlite_errorcode", None)
        return code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY), columns

    # -- connections

    def _connect(self) -> _Connection:
        connection = sqlite3.connect(
            self._absolute_path,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
            factory=_Connection,
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA temp_store=MEMORY")
        except BaseException:
            connection.close()
            raise
        _connections.add(connection)
        return connection

    def _disconnect(self) -> None:
        for connection in (*self._readers, self._connection):
            _disconnect(connection)
        self._readers.clear()

    def _reconnect_after_fork(self) -> None:
        self._readers = []
        self._connection = self._connect()  # the parent's connection remains open (see `_connections`)

    def _translate_error(self, error: BaseException) -> StorageError | None:
        return translate_error(error, self.path)

    def _closed_error(self) -> sqlite3.Error:
        return sqlite3.ProgrammingError("it was closed")  # `translate_error` adds the name of the database


def _disconnect(connection: sqlite3.Connection) -> None:
    connection.close()
    _connections.discard(connection)


_connections: set[sqlite3.Connection] = set()
"""All open connections. They are referenced here so that they are not garbage-collected. That would close a connection,
which accesses the disk, and in a forked process, closing a connection of the parent would release the parent's locks.
"""
