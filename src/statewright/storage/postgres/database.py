"""A Postgres database: sessions, transactions, and a pool of sessions for reading.

Each database object has one session for writing, whose transactions concurrent runs share (`group_commit.py`), up to
`readers` sessions for reading, and one for notifications. A hundred workers that read much may thus open a thousand
sessions, which is what poolers are for. A commit needs one round trip (`connection.py`).

Nothing depends on settings or locks that outlive a transaction, so a session may go through a pooler in transaction
mode, such as pgbouncer. In this case, pass `prepare=False` unless the pooler supports prepared statements, and
`direct_url`, because LISTEN does not work through a pooler.

*Clocks.* All times are those of the server's clock. The clocks of workers usually differ by seconds, or by an hour if
one was set by hand, and a worker whose clock is ahead would take over threads of others. The server compares leases on
threads and due times of runs with its clock. All other times are read from `PostgresDatabase.clock`, which is kept at
the server's time (`clock.py`).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar
from weakref import ref

from statewright.clock import Clock, SystemClock
from statewright.errors import InvalidConfig, StorageError, StorageUnavailable
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.head_cache import HeadCache
from statewright.storage.database import Connection, Job
from statewright.storage.encryption import Encryptor
from statewright.storage.group_commit import GroupCommitDatabase, LateFailure, RetryTransaction
from statewright.storage.locations import checked_schema, is_postgres_url, parse_postgres_url
from statewright.storage.postgres.bell import PostgresBell
from statewright.storage.postgres.clock import Reading, ServerClock, elapsed
from statewright.storage.postgres.compaction import Compactions
from statewright.storage.postgres.connecting import ConnectionFailed, ConnectionLost
from statewright.storage.postgres.connection import IntegrityError, Session
from statewright.storage.postgres.faults import ConnInfo, is_unstorable, parse_url, translate_error
from statewright.storage.postgres.migrate import has_schema, prepare_schema, read_version
from statewright.storage.postgres.readers import Readers
from statewright.storage.postgres.replica import Replica, ReplicaUnavailable
from statewright.storage.postgres.writer import IDLE_LIMIT, MAX_ATTEMPTS, PATIENCE, SessionWriter
from statewright.storage.row_ids import RowIds
from statewright.storage.scripts import statements

T = TypeVar("T")
CONNECT_TIMEOUT: Final = 10.0
"""The maximum time in seconds for connecting to the server."""
_PACKAGE: Final = "statewright.storage.postgres"


class PostgresDatabase(GroupCommitDatabase):
    """Threads, a store, a cache and the records of runs in a Postgres database, shared by any number of processes.

    `url` is a URL or a connection string of libpq, which may contain several hosts and options such as `sslmode`. With
    `schema`, all tables are in this schema, which is created if it does not exist. With a `key` of 16, 24 or 32 bytes,
    the values that runs and your code store are encrypted with AES-GCM; ids, namespaces and times are not. `compress`
    makes older checkpoints smaller and slower to read. `readers` is the maximum number of sessions for reading.

    `prepare=False` disables prepared statements, which some poolers do not support. `direct_url` is an address that
    leads to the server without a pooler, for notifications between processes. With a pooler and without such an
    address, processes only poll. `replica_url` is the address of a replica, which may lag behind: histories, logs and
    lists are read there. `schema`, `prepare` and the replica can also be parameters of the URL:
    `?schema=name&prepare=false&replica=host:5432`. Arguments take precedence. `clock` is the clock of the machine, by
    default the system clock.
    """

    row_ids = RowIds(number_bits=28)  # leaves 35 bits for lines: a busy server would use up the 31 bits of SQLite
    executes_late = True
    has_null_characters = False
    has_arrays = True
    INTEGRITY_ERROR = IntegrityError
    AFTER_ALL_TEXT = None  # no value sorts after all texts, so statements test whether the parameter is NULL

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        key: bytes | None = None,
        compress: bool = False,
        serde: Serde | None = None,
        prepare: bool | None = None,
        direct_url: str | None = None,
        replica_url: str | None = None,
        readers: int = 8,
        clock: Clock | None = None,
        trusts_clocks: bool = False,
    ) -> None:
        address = _read_address(url, schema, prepare, replica_url)
        self._conninfo, self.schema, self._prepare, self._replica_conninfo = address
        # Without prepared statements the address leads to a pooler, through which LISTEN does not work.
        default = self._conninfo if self._prepare else None
        bell_conninfo = _parse(direct_url) if direct_url is not None else default
        if readers < 1:
            raise InvalidConfig(f"readers is {readers}, but a database needs at least one session for reading.")
        self.bell = PostgresBell(bell_conninfo.text, schema=self.schema) if bell_conninfo is not None else None
        """Connects the processes that use the database; None if a pooler prevents that."""
        self.serde = serde or Serde()
        self.encryptor = Encryptor(key, compress=compress)
        self.head_cache = HeadCache()
        self.compactions = Compactions(self)
        machine = clock or SystemClock()
        self.trusts_clocks = trusts_clocks
        """True if all times are compared with the clocks of workers rather than the clock of the server. For tests
        and imports."""
        self._max_readers = readers
        self._open_queue()
        self._pid = os.getpid()
        self._create_sessions()
        with self._translating_errors():
            session = self._connect(idle_limit=IDLE_LIMIT)
            try:
                prepare_schema(session, self.location, self.schema, self.encryptor)
                self.clock = self._clock_on(machine, session)
            except BaseException:
                session.close()
                raise
        self._writer_session.session = session
        self._closed = False

    @property
    def location(self) -> str:
        """The address of the database, without the password."""
        return self._conninfo.public_url + (f" (schema {self.schema})" if self.schema else "")

    @property
    def scope(self) -> Hashable:
        """A key that is equal for objects of this process that use the same database and schema."""
        return self._conninfo.identity, self.schema

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Open the database at a URL such as `postgresql://user@host/name`."""
        return cls(conn_string, **options)

    @staticmethod
    def is_initialized(url: str, *, schema: str | None = None, prepare: bool | None = None) -> bool:
        """Return whether the tables exist. Nothing is created. Raises StorageUnavailable."""
        address = _read_address(url, schema, prepare, None)
        with _session_to_inspect(address) as session:
            return has_schema(session)

    @staticmethod
    def schema_version(url: str, *, schema: str | None = None, prepare: bool | None = None) -> int:
        """Return the version of the schema, 0 if there are no tables. Nothing is created. Raises StorageUnavailable."""
        address = _read_address(url, schema, prepare, None)
        with _session_to_inspect(address) as session:
            return read_version(session)

    # -- sessions

    def _create_sessions(self) -> None:
        """Create the writing session and the pools for reading, which connect when they are used."""
        reference = ref(self)  # weak, so that the sessions do not keep the database from being finalised

        def connect(conninfo: ConnInfo | None = None, idle_limit: int | None = None) -> Session:
            database = reference()
            if database is None or database._closed:
                raise _closed_error()
            return database._connect(conninfo, idle_limit=idle_limit)

        def is_closed() -> bool:
            database = reference()
            return database is None or database._closed

        self._writer_session = SessionWriter(
            partial(connect, idle_limit=IDLE_LIMIT), self.statements("writers"), is_closed
        )
        self._readers = Readers(connect, self._max_readers, is_closed, waits=True)
        self._replica: Replica | None = None
        if self._replica_conninfo is not None:
            pool = Readers(partial(connect, self._replica_conninfo), self._max_readers, is_closed, waits=False)
            self._replica = Replica(pool, self._replica_conninfo.public_url)

    def _connect(self, conninfo: ConnInfo | None = None, *, idle_limit: int | None = None) -> Session:
        return Session(
            (conninfo or self._conninfo).text.encode(),
            schema=self.schema,
            prepare=self._prepare,
            timeout=CONNECT_TIMEOUT,
            idle_limit=idle_limit,
        )

    def _disconnect(self) -> None:
        if self.bell is not None:
            self.bell.close()
        self._readers.close()
        if self._replica is not None:
            self._replica.close()
        self._writer_session.close()

    def _reconnect_after_fork(self) -> None:
        self._create_sessions()  # those of the parent are dropped: psycopg closes none that another process has opened

    # -- the clock

    def _clock_on(self, machine: Clock, session: Session) -> Clock:
        """Return the clock of the server. A clock that tests move by themselves is not changed."""
        if self.trusts_clocks or not isinstance(machine, SystemClock):
            return machine
        session.begin()
        first = self._read_clock(session)
        session.commit_later()
        reference = ref(self)

        def read() -> Reading:
            database = reference()
            if database is None:
                raise StorageUnavailable("The database was closed.")
            return database.query(database._read_clock)

        return ServerClock(read, first, machine)

    def _read_clock(self, session: Connection) -> Reading:
        sent = elapsed()
        (server,) = session.execute(self.statements("clock")["read"]).fetchone()
        return Reading(server, sent, elapsed())

    # -- reading

    @contextmanager
    def read(self) -> Generator[Session]:
        """Provide a session for reading. During the block, it sees a consistent snapshot of the database."""
        self._reopen_after_fork()
        with self._translating_errors(is_read=True), self._readers.session() as session:
            yield session

    def query(self, read: Job[T], *, stale_ok: bool = False) -> T:
        """Call a function with a session for reading, and again if the session is lost meanwhile.

        There are at most `MAX_ATTEMPTS` attempts, within `PATIENCE` seconds.
        """
        self._reopen_after_fork()
        with self._translating_errors(is_read=True):
            if stale_ok and self._replica is not None:
                with suppress(ReplicaUnavailable):
                    return self._replica.query(read)
            deadline = time.monotonic() + PATIENCE
            for attempt in itertools.count(1):
                try:
                    with self._readers.session() as session:
                        return read(session)
                except ConnectionFailed:  # the pool has waited
                    raise
                except ConnectionLost:
                    if self._closed or attempt == MAX_ATTEMPTS or time.monotonic() > deadline:
                        raise
            raise AssertionError  # unreachable: the counter is endless

    # -- writing

    def _begin(self) -> None:
        self._writer_session.begin()

    def _commit(self) -> None:
        try:
            self._writer_session.commit()
        except (RetryTransaction, ConnectionLost):
            raise
        except Exception as error:  # a statement of a job was executed only now, and has failed
            raise LateFailure from error

    def _roll_back(self) -> None:
        self._writer_session.rollback()

    def roll_back_failed(self) -> None:
        """Roll back the transaction in which a statement has failed before its error is reported.

        It still holds its locks, which is a problem if the error is completed by reading in another session.
        """
        self._roll_back()

    def _may_repeat(self, error: BaseException, attempt: int) -> bool:
        if isinstance(error, ConnectionLost):
            can_succeed = not (error.was_sent or self._is_unavailable(error) or self._closed)
            return can_succeed and attempt < MAX_ATTEMPTS
        return super()._may_repeat(error, attempt)

    def _is_unavailable(self, error: BaseException) -> bool:
        return isinstance(error, ConnectionFailed)  # after `PATIENCE`

    def _write_count(self) -> Hashable:
        return self._writing_connection.statements

    @property
    def _writing_connection(self) -> Session:
        session = self._writer_session.session
        assert session is not None
        return session

    # -- statements

    def has_tables(self, name: str) -> bool:
        return True

    def create_tables(self, name: str) -> None:
        """Do nothing, because `prepare_schema` has created all tables."""

    def statements(self, name: str) -> Mapping[str, str]:
        return statements(_PACKAGE, name, self.row_ids)

    def insert(self, connection: Any, sql: str, parameters: Any) -> int:
        row = connection.execute(f"{sql} RETURNING id", parameters).fetchone()
        return row[0] if row is not None else 0

    def is_unstorable(self, error: Exception) -> bool:
        return is_unstorable(error)

    def violated_constraint(self, error: Exception) -> tuple[bool, Sequence[str]]:
        assert isinstance(error, IntegrityError)
        # The detail of the error is `Key (column, column)=(value, value) already exists.`
        columns = error.detail.partition("(")[2].partition(")")[0].split(", ")
        is_unique = error.code == "23505"
        return is_unique, columns if is_unique else [error.column]  # the error of NOT NULL names a column

    # -- errors

    def _translate_error(self, error: BaseException) -> StorageError | None:
        return translate_error(error, self.location)

    def _closed_error(self) -> Exception:
        return _closed_error()

    def _translating_errors(self, *, is_read: bool = False) -> AbstractContextManager[None]:
        return _translating_errors_of(self.location, is_read=is_read)


class _Address(NamedTuple):
    """The settings of a connection, from the arguments and from the parameters of the URL."""

    conninfo: ConnInfo
    schema: str | None
    prepare: bool
    replica: ConnInfo | None


def _read_address(url: str, schema: str | None, prepare: bool | None, replica_url: str | None) -> _Address:
    """Combine arguments with the parameters of a URL. Arguments that are not None take precedence."""
    if is_postgres_url(url):
        location = parse_postgres_url(url)
        url = location.url
        schema = location.schema if schema is None else schema
        prepare = location.prepare if prepare is None else prepare
        replica_url = location.replica_url if replica_url is None else replica_url
    replica = _parse(replica_url) if replica_url is not None else None
    return _Address(parse_url(url), checked_schema(schema), prepare is not False, replica)


def _parse(url: str) -> ConnInfo:
    """Parse an address that has no parameters of its own; the errors are those of the main address."""
    return parse_url(parse_postgres_url(url).url if is_postgres_url(url) else url)


def _closed_error() -> ConnectionLost:
    return ConnectionLost("it was closed")


@contextmanager
def _translating_errors_of(location: str, *, is_read: bool) -> Generator[None]:
    """Convert errors of the server and of the connection in the block to StorageErrors."""
    try:
        yield
    except Exception as error:
        storage_error = translate_error(error, location, is_read=is_read)
        if storage_error is None:
            raise
        raise storage_error from error


@contextmanager
def _session_to_inspect(address: _Address) -> Generator[Session]:
    """Open a session that creates nothing, for as long as the block runs."""
    with _translating_errors_of(address.conninfo.public_url, is_read=True):
        session = Session(
            address.conninfo.text.encode(), schema=address.schema, prepare=address.prepare, timeout=CONNECT_TIMEOUT
        )
        try:
            yield session
        finally:
            session.close()
