"""A session of a Postgres server, in which many statements make one round trip.

*The problem.* A superstep is one transaction of several statements. Sent one by one, each waits for the network and for
two processes to be scheduled, which costs more than all of its work. `pipeline()` of psycopg avoids the waits, but its
Python code more than doubles the cost of a commit.

*The approach.* This module drives libpq in pipeline mode. Statements are queued, and sent together at the first one
whose result is needed, or at the commit. `BEGIN` and `COMMIT` are among them: without an explicit transaction, an error
of the last statement would come after the end of the pipeline, which libpq reports as a lost connection.

*Errors.* After a failed statement the server skips the rest of the pipeline, `COMMIT` included, and the transaction
waits for a rollback. An exception while results are awaited, of a signal handler for example, leaves a session whose
state is unknown; it is closed, and the server rolls back.

*Prepared statements* are used from the second execution of a text, unless a pooler switches sessions after each
transaction: a session then does not know the statements that were prepared in another one.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from statewright.storage.database import Match, Statement
from statewright.storage.group_commit import RetryTransaction
from statewright.storage.postgres.values import BINARY, Parameter, decoder_of, encode

MAX_PREPARED: Final = 1000
"""Statements that a session remembers. Above that, all are deallocated."""
_TOKENS: Final = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::|(\?)|(?<![:\w]):([a-z_]+)""")
"""Literals, quoted names, comments and casts, which stay unchanged; placeholders `?` and `:name`."""
_CONFLICTS: Final = ("40001", "40P01")
"""SQLSTATEs of serialization failures and deadlocks: the same transaction may succeed when it is repeated."""
_ENDINGS: Final = ("08", "57P")
"""Beginnings of the SQLSTATEs with which a server ends a session, or refuses one."""
MISMATCH: Final = "SW100"
"""The SQLSTATE of the function `expect_rows`."""
_LOCK: Final = "SELECT pg_advisory_xact_lock(key) FROM unnest(?::bigint[]) AS key"


class PostgresError(Exception):
    """An error that the server has reported for a statement."""

    def __init__(self, result: pq.abc.PGresult) -> None:
        super().__init__(_field(result, pq.DiagnosticField.MESSAGE_PRIMARY) or result.get_error_message().strip())
        self.code = _field(result, pq.DiagnosticField.SQLSTATE)
        """The SQLSTATE, five characters."""
        self.detail = _field(result, pq.DiagnosticField.MESSAGE_DETAIL)
        self.table = _field(result, pq.DiagnosticField.TABLE_NAME)
        self.column = _field(result, pq.DiagnosticField.COLUMN_NAME)


class IntegrityError(PostgresError):
    """A violated constraint (SQLSTATE class 23)."""


class ConnectionLost(Exception):  # the word of the field
    """The session has ended, or its state is unknown."""

    def __init__(self, reason: str, *, was_sent: bool = False) -> None:
        super().__init__(reason)
        self.was_sent = was_sent
        """True if statements had been sent: then a transaction may have been committed."""


def _field(result: pq.abc.PGresult, field: pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode("utf-8", "replace")


class Rows:
    """The rows that a statement has returned, and the number of rows that it has changed."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class _Query(NamedTuple):
    """A statement to be sent, and the function that gets its result."""

    sql: str
    parameters: Sequence[Parameter]
    receive: Callable[[Rows], None] | None = None
    statement: Statement | None = None


_Key = tuple[str, tuple[int, ...]]
"""A text and the types of its parameters: a prepared statement is for both."""


@lru_cache(maxsize=2000)
def parse(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbered placeholders, and the names of its named ones in the order of their numbers."""
    names: dict[str, int] = {}
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        if match[1]:
            count += 1
            return f"${count}"
        if match[2]:
            return f"${names.setdefault(match[2], len(names) + 1)}"
        return match[0]

    return _TOKENS.sub(number, sql).encode(), tuple(names)


def _lock_key(name: str) -> int:
    """Return the number that is locked for a name: a hash, so that a rare collision makes two wait in vain."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


def _encoded(sql: str, parameters: Any) -> list[Parameter]:
    if isinstance(parameters, Mapping):
        parameters = [parameters[name] for name in parse(sql)[1]]
    return [encode(value) for value in parameters]


@lru_cache(maxsize=2000)
def _matching(sql: str, match: Match) -> str:
    """Return a statement that the server lets fail unless it changes or selects the right number of rows.

    The client learns the number only after the commit, which is sent along.
    """
    if match is Match.ANY:
        return sql
    if match is Match.NONE:
        return f"SELECT expect_rows(count(*), 0) FROM ({sql}) AS selected"
    if not sql.startswith("SELECT") and " RETURNING " not in sql:
        sql += " RETURNING 1"
    expected = "(SELECT expect_rows(count(*), 1) AS is_one FROM changed) AS expected"
    return f"WITH changed AS ({sql}) SELECT changed.*, is_one FROM {expected} LEFT JOIN changed ON true"


class Session:
    """A session of a server, used by one thread at a time."""

    def __init__(self, conninfo: bytes, *, schema: str | None = None, prepare: bool, timeout: float) -> None:
        """Connect within `timeout` seconds. Raises ConnectionLost if that fails.

        Transactions use the tables of `schema`, or those that the settings of the user and the database select.
        """
        self._prepare = prepare
        # For one transaction at a time, because the session may belong to a pooler.
        self._preamble = [_Query(f'SET LOCAL search_path TO "{schema}", public', ())] if schema is not None else []
        self._seen: dict[_Key, bytes] = {}
        """The names of statements that were executed at least once; one with an empty name is not prepared yet."""
        self._names = 0
        self._queue: list[_Query] = []
        self._locks: set[int] = set()
        self._unread: list[tuple[list[_Query], list[_Key | None]]] = []
        """Statements that were sent, and whose results have not been read."""
        self._begun = 0
        """The number of queued statements that begin a transaction."""
        self.statements = 0
        """The number of statements so far."""
        self._pg: pq.abc.PGconn = connect(conninfo, timeout)
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._reads, self._writes = select.poll(), select.poll()
        self._reads.register(self._pg.socket, select.POLLIN)
        self._writes.register(self._pg.socket, select.POLLIN | select.POLLOUT)

    @property
    def is_open(self) -> bool:
        """False after the session was closed or lost."""
        return self._pg.status == pq.ConnStatus.OK

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open on the server."""
        return self._pg.transaction_status != pq.TransactionStatus.IDLE

    def has_ended(self) -> bool:
        """Return whether the server has ended the session while it was idle."""
        if self._unread:
            try:
                self._read_results()
            except (PostgresError, ConnectionLost):
                return True
        if self.is_open and self._reads.poll(0):
            try:
                self._pg.consume_input()
            except psycopg.Error:
                return True
            if self._reads.poll(0):  # the end of the stream stays readable
                return True
        return not self.is_open

    def close(self) -> None:
        """End the session. The server rolls back an open transaction."""
        self._pg.finish()

    # -- statements

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Send a statement with all queued ones, and return its rows."""
        results: list[Rows] = []
        self._enqueue(_Query(sql, _encoded(sql, parameters), results.append))
        self.flush()
        return results[0]

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> None:
        """Queue a statement several times."""
        for row in parameters:
            self._enqueue(_Query(sql, _encoded(sql, row)))

    def send(self, statement: Statement, /) -> None:
        """Queue a statement. Raises at once for a parameter that cannot be sent."""
        sql = _matching(statement.sql, statement.match)
        try:
            parameters = _encoded(sql, statement.parameters)
        except (ValueError, OverflowError) as error:
            translated = statement.error_of(error)
            if translated is error:
                raise
            raise translated from error
        self._enqueue(_Query(sql, parameters, statement=statement))

    def _enqueue(self, query: _Query) -> None:
        self._queue.append(query)
        self.statements += 1

    def lock(self, *names: str) -> None:
        """Lock names until the end of the transaction, before the queued statements are executed."""
        self._locks.update(map(_lock_key, names))

    # -- transactions

    def begin(self, mode: str = "") -> None:
        """Begin a transaction with the next statement that is sent."""
        self._queue += [_Query(f"BEGIN {mode}".strip(), ()), *self._preamble]
        if len(self._seen) > MAX_PREPARED:
            self._seen.clear()
            self._queue.append(_Query("DEALLOCATE ALL", ()))
        self._begun = len(self._queue)

    def commit(self) -> None:
        """Commit the transaction, with all queued statements in one round trip."""
        if not self._discard_empty_transaction():
            self._queue.append(_Query("COMMIT", ()))
            self.flush()

    def commit_later(self) -> None:
        """End a transaction that has only read, without waiting for the answer."""
        if not self._discard_empty_transaction():
            self._queue.append(_Query("COMMIT", ()))
            self._send_queue()

    def _discard_empty_transaction(self) -> bool:
        """Discard a transaction without statements before it is sent. Return False if there is none."""
        is_empty = 0 < self._begun == len(self._queue) and not self._locks
        if is_empty:
            self._queue.clear()
        return is_empty

    def rollback(self) -> None:
        """Roll back the transaction, and discard queued statements. A session in an unknown state is closed."""
        self._queue.clear()
        self._locks.clear()
        if self.is_open and self.in_transaction:
            try:
                self._queue.append(_Query("ROLLBACK", ()))
                self.flush()
            except (PostgresError, ConnectionLost):
                self.close()

    # -- the protocol

    def flush(self) -> None:
        """Send the queued statements, and process their results.

        Raises the error of the first one that failed, RetryTransaction if the transaction should be repeated, and
        ConnectionLost.
        """
        self._send_queue()
        self._read_results()

    def _send_queue(self) -> None:
        queue, self._queue = self._queue, []
        if self._locks:  # in the same order in all sessions, so that they do not wait for each other in a circle
            keys, self._locks = sorted(self._locks), set()
            queue.insert(self._begun, _Query(_LOCK, [encode(keys)]))
        self._begun = 0
        try:
            preparations = [self._put(query) for query in queue]
            self._unread.append((queue, preparations))
            self._pg.pipeline_sync()
        except psycopg.Error as error:
            self.close()
            raise ConnectionLost(str(error).strip()) from error
        except BaseException:
            self.close()
            raise

    def _read_results(self) -> None:
        unread, self._unread = self._unread, []
        outcomes: list[Rows | PostgresError | None] = []
        try:
            for _, preparations in unread:
                outcomes += self._receive(preparations)
        except psycopg.Error as error:
            self.close()
            raise ConnectionLost(str(error).strip(), was_sent=True) from error
        except BaseException:
            self.close()
            raise
        queries = [query for queue, _ in unread for query in queue]
        for query, outcome in zip(queries, outcomes, strict=True):
            if isinstance(outcome, PostgresError):
                raise _error_of(query, outcome)
            if outcome is None:
                self.close()
                raise ConnectionLost("the server has not answered a statement", was_sent=True)
            if query.receive is not None:
                query.receive(outcome)
            elif query.statement is not None:
                self._finish(query.statement, outcome)

    def _finish(self, statement: Statement, rows: Rows) -> None:
        """Report the rows of a statement that has matched as it should."""
        if statement.receive is not None:
            statement.receive(rows.fetchone(), rows.rowcount)

    def _put(self, query: _Query) -> _Key | None:
        """Write a statement to the buffer. Return its key if it is prepared first."""
        text = parse(query.sql)[0]
        data = [parameter.data for parameter in query.parameters]
        formats = [parameter.format for parameter in query.parameters]
        types = tuple(parameter.type for parameter in query.parameters)
        if not self._prepare:
            self._pg.send_query_params(text, data, types, formats, BINARY)
            return None
        key = (query.sql, types)
        name = self._seen.get(key)
        if name:
            self._pg.send_query_prepared(name, data, formats, BINARY)
            return None
        if name is None:  # many texts are executed only once
            self._seen[key] = b""
            self._pg.send_query_params(text, data, types, formats, BINARY)
            return None
        self._names += 1
        name = b"s%d" % self._names
        self._seen[key] = name
        self._pg.send_prepare(name, text, types)
        self._pg.send_query_prepared(name, data, formats, BINARY)
        return key

    def _receive(self, preparations: Sequence[_Key | None]) -> list[Rows | PostgresError | None]:
        """Return the outcome of each statement; None for one that was skipped after an error."""
        outcomes: list[Rows | PostgresError | None] = []
        for key in preparations:
            preparation = self._next_outcome() if key is not None else None
            if key is not None and not isinstance(preparation, Rows):
                self._seen[key] = b""  # not prepared, because of an error here or before
            outcome = self._next_outcome()
            outcomes.append(preparation if isinstance(preparation, PostgresError) else outcome)
        while (result := self._next_result()) is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
            pass
        return outcomes

    def _next_outcome(self) -> Rows | PostgresError | None:
        result = self._next_result()
        outcome = _outcome_of(result) if result is not None else None
        while result is not None:  # a statement has one result, and an end
            result = self._next_result()
        return outcome

    def _next_result(self) -> pq.abc.PGresult | None:
        pg = self._pg
        while pg.flush():
            self._writes.poll()
            pg.consume_input()
        while pg.is_busy():
            self._reads.poll()
            pg.consume_input()
        return pg.get_result()


def connect(conninfo: bytes, timeout: float) -> pq.abc.PGconn:
    """Connect within `timeout` seconds, without holding the interpreter. Raises ConnectionLost if that fails."""
    deadline = time.monotonic() + timeout
    connection: pq.abc.PGconn = pq.PGconn.connect_start(conninfo)
    status = connection.status
    while status != pq.ConnStatus.BAD:
        match connection.connect_poll():
            case pq.PollingStatus.OK:
                return connection
            case pq.PollingStatus.READING:
                event = select.POLLIN
            case pq.PollingStatus.WRITING:
                event = select.POLLOUT
            case _:
                break
        poll = select.poll()
        poll.register(connection.socket, event)
        rest = deadline - time.monotonic()
        if rest <= 0 or not poll.poll(rest * 1000):
            connection.finish()
            raise ConnectionLost(f"the server did not answer within {timeout:g} seconds")
    message = connection.get_error_message().strip()
    connection.finish()
    raise ConnectionLost(message)


def _outcome_of(result: pq.abc.PGresult) -> Rows | PostgresError | None:
    match result.status:
        case pq.ExecStatus.TUPLES_OK:
            decoders = [decoder_of(result.ftype(column)) for column in range(result.nfields)]
            rows = [_row(result, row, decoders) for row in range(result.ntuples)]
            return Rows(rows, result.command_tuples or 0)
        case pq.ExecStatus.COMMAND_OK | pq.ExecStatus.EMPTY_QUERY:
            return Rows([], result.command_tuples or 0)
        case pq.ExecStatus.FATAL_ERROR:
            error = PostgresError(result)
            return IntegrityError(result) if error.code.startswith("23") else error
        case _:  # skipped after an error
            return None


def _row(result: pq.abc.PGresult, row: int, decoders: Sequence[Callable[[bytes], Any]]) -> tuple[Any, ...]:
    values = [result.get_value(row, column) for column in range(len(decoders))]
    return tuple(None if value is None else decode(value) for decode, value in zip(decoders, values, strict=True))


def _error_of(query: _Query, error: PostgresError) -> Exception:
    """Return the error to raise for a failed statement."""
    if error.code in _CONFLICTS:
        retry = RetryTransaction(str(error))
        retry.__cause__ = error
        return retry
    if error.code.startswith(_ENDINGS):
        return ConnectionLost(str(error), was_sent=True)
    if query.statement is None:
        return error
    translated = query.statement.mismatch() if error.code == MISMATCH else query.statement.error_of(error)
    if translated is not error:
        translated.__cause__ = error
    return translated
