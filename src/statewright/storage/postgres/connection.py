"""Sessions of a Postgres server, in which several statements need only one round trip.

*The problem.* A superstep is one transaction with several statements. If each statement were sent by itself, it would
wait for the network and for the scheduling of two processes, which takes longer than the statement itself. psycopg's
`pipeline()` avoids these waits, but its Python code more than doubles the time of a commit.

*The approach.* This module uses libpq directly, in pipeline mode. Statements are queued, and sent together when the
result of one is needed, or at the commit. The server does what it receives together in one transaction. So `BEGIN` and
`COMMIT` are sent only if a transaction takes several round trips. They are statements like others, and with the
settings of a transaction they would take as long as a commit.

*Settings* that a transaction needs are set once for each session, and again by each transaction if the session belongs
to a pooler. Such a session is recognized by the id of its process, which is not the one that the client was told.

*Errors.* After a statement has failed, the server skips the rest of the pipeline. A transaction of several round trips
remains open until it is rolled back. An error that comes only with the commit, after all statements have succeeded,
has a result of its own at the end of the pipeline. If an exception is raised while the session waits for results, for
example by a signal handler, the state of the session is unknown. It is then closed, and the server rolls back.

*Prepared statements* are used when the text of a statement is executed for the second time. They must be disabled if a
pooler assigns another session for each transaction, because statements that were prepared in one session do not exist
in another.

*Plans.* The server keeps the plans of prepared statements and of functions, until it gathers statistics again, which is
a minute after thousands of rows were written. A plan that was made while a table was empty reads the whole table, and
is a thousand times too slow until then. So sessions never plan to read whole tables if there is an index. Since any
index looks as good as another one for an empty table, they also discard their plans: often at first, and after
`_REPLAN_INTERVAL` transactions later on, which costs them some milliseconds.
"""

from __future__ import annotations

import logging
import re
import secrets
import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from statewright.storage.database import Match, Statement
from statewright.storage.group_commit import RetryTransaction
from statewright.storage.postgres.connecting import ConnectionLost, connect
from statewright.storage.postgres.values import BINARY, Parameter, decoder_of, encode

MAX_PREPARED: Final = 1000
"""The maximum number of prepared statements in a session. If there are more, all of them are deallocated."""
_FIRST_REPLAN: Final = 16
"""The number of transactions after which a session first plans its statements again."""
_REPLAN_INTERVAL: Final = 1000
"""The maximum number of transactions between that and the next time."""
_PLANNER_SETTINGS: Final = {"enable_seqscan": "off", "jit": "off"}
"""Each statement reads a few rows by an index. See "Plans" above."""
logger = logging.getLogger("statewright.storage")
_TOKENS: Final = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::|(\?)|(?<![:\w]):([a-z_]+)""")
"""Matches the placeholders `?` and `:name`, and the tokens in which they are not placeholders: literals, quoted names,
comments and casts."""
_CONFLICTS: Final = ("40001", "40P01")
"""The SQLSTATEs of serialization failures and deadlocks, after which the same transaction may succeed if repeated."""
_SESSION_ENDED: Final = ("08", "57P", "25P03", "25P04")
"""The prefixes of SQLSTATEs with which a server ends a session or refuses to start one."""
_SUCCESS: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)
_CLIENT_CHECKS: Final = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3"}
"""Settings with which the server notices within about 20 seconds that the connection to a client was cut. The limit for
idle transactions is not enough: it does not apply while the server waits for the rest of a pipeline."""
MISMATCH: Final = "SW100"
"""The SQLSTATE that the function `expect_rows` raises for a wrong number of rows."""
# Advisory locks are shared by the whole database, so the schema, by its table of threads, is a part of their numbers.
_LOCK: Final = (
    "SELECT pg_advisory_xact_lock(key # coalesce(to_regclass('threads')::oid::bigint, 0)) "
    "FROM unnest(?::bigint[]) AS key"
)
_LOCK_SOME_SHARED: Final = (
    "SELECT CASE shared WHEN 0 THEN pg_advisory_xact_lock(key # id) ELSE pg_advisory_xact_lock_shared(key # id) END "
    "FROM unnest(?::bigint[], ?::bigint[]) AS locks (key, shared), "
    "coalesce(to_regclass('threads')::oid::bigint, 0) AS id"
)


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
    """A statement to send, and the function that receives its result."""

    sql: str
    parameters: Sequence[Parameter]
    receive: Callable[[Rows], None] | None = None
    statement: Statement | None = None

    @property
    def receives(self) -> bool:
        """True if a function receives the result."""
        return self.receive is not None or (self.statement is not None and self.statement.receive is not None)

    def process(self, rows: Rows) -> None:
        """Pass the result to the function that receives it."""
        if self.receive is not None:
            self.receive(rows)
        elif self.statement is not None and self.statement.receive is not None:
            self.statement.receive(rows.fetchall(), rows.rowcount)


_BEGIN: Final = _Query("BEGIN", ())
_COMMIT: Final = _Query("COMMIT", ())
_ROLLBACK: Final = _Query("ROLLBACK", ())
_Key = tuple[str, tuple[int, ...]]
"""The text of a prepared statement, and the types of its parameters."""


class _Batch(NamedTuple):
    """Statements that were sent together."""

    queries: list[_Query]
    preparations: list[_Key | None]
    """A key for each statement that is prepared first, and None for the others."""
    commits: bool
    """True if the transaction is committed with them."""


@lru_cache(maxsize=2000)
def parse(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbered placeholders, and the names of named placeholders in the order of numbers."""
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
    """Return the number to lock for a name: its hash. If two names collide, transactions wait without need."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


def _encode_parameters(sql: str, parameters: Any) -> list[Parameter]:
    if isinstance(parameters, Mapping):
        parameters = [parameters[name] for name in parse(sql)[1]]
    return [encode(value) for value in parameters]


@lru_cache(maxsize=2000)
def _with_row_check(sql: str, match: Match) -> str:
    """Return a statement that fails on the server unless it changes or selects the right number of rows.

    The client could not check the number in time, because it sends the commit together with the statement.
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
    """A session of a server. Only one OS thread at a time may use it."""

    def __init__(
        self,
        conninfo: bytes,
        *,
        schema: str | None = None,
        prepare: bool,
        timeout: float,
        idle_limit: int | None = None,
    ) -> None:
        """Connect to the server. Raises ConnectionLost if that fails or takes longer than `timeout` seconds.

        Transactions use the tables of `schema` and no others. If it is None, the search path of the user or the
        database applies. `prepare` permits prepared statements. The server ends the session if it waits for longer than
        `idle_limit` seconds for the next statement of a transaction, or for the client to read a result.
        """
        self._prepare = prepare
        self._pg: pq.abc.PGconn = connect(conninfo, timeout)
        self.backend_pid: Final = self._pg.backend_pid
        """The id of the process of the server, or what a pooler gives for it."""
        # Not with `public`, whose tables would stand for those of a schema that was removed.
        settings = {"search_path": f'"{schema}"'} if schema is not None else {}
        settings |= _PLANNER_SETTINGS
        if idle_limit is not None:
            limit = str(idle_limit * 1000)
            settings |= {"idle_in_transaction_session_timeout": limit, "tcp_user_timeout": limit, **_CLIENT_CHECKS}
        self._prepared_names: dict[_Key, bytes] = {}
        """The names of prepared statements. A name is empty if a statement was executed, but is not prepared yet."""
        self._name_prefix = f"sw_{secrets.token_hex(4)}_".encode()
        """Random, so that behind a pooler which does not support prepared statements, a name is unknown to the session
        of another client. Otherwise the statement of that client would be executed."""
        self._name_count = 0
        """The number of names that were ever assigned."""
        self._queue: list[_Query] = []
        """The statements to send."""
        self._locks: dict[int, bool] = {}
        """The numbers to lock before the queued statements are executed, and whether each lock is shared."""
        self._unread: list[_Batch] = []
        """The statements that were sent and whose results have not been read."""
        self._begin_count = 0
        """The number of statements at the start of the queue that begin a transaction."""
        self.statements = 0
        """The number of statements so far."""
        self._transactions = 0
        self._next_replan = _FIRST_REPLAN
        """The number of the transaction in which the plans are discarded."""
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._read_poll, self._write_poll = select.poll(), select.poll()
        self._read_poll.register(self._pg.socket, select.POLLIN)
        self._write_poll.register(self._pg.socket, select.POLLIN | select.POLLOUT)
        self._is_pooled = not (prepare and self._set_for_session(settings))
        """True if the session may belong to a pooler, and to other clients between transactions."""
        self._preamble = [_Query(f"SELECT {_calls(settings, is_local=True)}", ())] if settings else []
        """The statement that makes the settings for one transaction."""

    def _set_for_session(self, settings: Mapping[str, str]) -> bool:
        """Make settings for the session, unless it belongs to a pooler. Return whether they were made."""
        calls = _calls({**settings, "default_transaction_isolation": "read committed"}, is_local=False)
        # One statement, so that a pooler cannot assign another session after the comparison.
        case = f"CASE WHEN pg_backend_pid() = ? THEN ARRAY[{calls}] END"
        return self.execute(f"SELECT {case} IS NOT NULL", (self.backend_pid,)).fetchone()[0]

    @property
    def is_open(self) -> bool:
        """False once the session has been closed or lost."""
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
            except (PostgresError, ConnectionLost, RetryTransaction):
                return True
        if self.is_open and self._read_poll.poll(0):
            try:
                self._pg.consume_input()
            except psycopg.Error:
                return True
            if self._read_poll.poll(0):  # still readable after all input was read: this is the end of the stream
                return True
        return not self.is_open

    def close(self) -> None:
        """End the session. The server rolls back an open transaction."""
        self._pg.finish()

    # -- statements

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Send the queued statements and this statement, and return its rows."""
        results: list[Rows] = []
        self._enqueue(_Query(sql, _encode_parameters(sql, parameters), results.append))
        self.flush()
        return results[0]

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> None:
        """Queue a statement once for each element of `parameters`."""
        for row in parameters:
            self._enqueue(_Query(sql, _encode_parameters(sql, row)))

    def send(self, statement: Statement, /) -> None:
        """Queue a statement. A parameter that cannot be sent raises an error at once."""
        sql = _with_row_check(statement.sql, statement.match)
        try:
            parameters = _encode_parameters(sql, statement.parameters)
        except (ValueError, OverflowError) as error:
            translated = statement.error_of(error)
            if translated is error:
                raise
            raise translated from error
        self._enqueue(_Query(sql, parameters, statement=statement))

    def _enqueue(self, query: _Query) -> None:
        self._queue.append(query)
        self.statements += 1

    def lock(self, *names: str, shared: bool = False) -> None:
        """Lock names until the end of the transaction. This happens before the queued statements are executed."""
        for key in map(_lock_key, names):
            self._locks[key] = shared and self._locks.get(key, True)

    # -- transactions

    def begin(self, mode: str = "") -> None:
        """Queue the statements that begin a transaction. `mode` are its options in SQL.

        By default it is READ COMMITTED, whatever the default of the user: with another isolation level, checks after a
        lock would not see what was committed before the lock.
        """
        if self._is_pooled:
            self._queue += [_Query(f"BEGIN {mode or 'ISOLATION LEVEL READ COMMITTED'}", ()), *self._preamble]
        else:
            self._queue.append(_Query(f"BEGIN {mode}", ()) if mode else _BEGIN)
        if len(self._prepared_names) > MAX_PREPARED:
            self._prepared_names.clear()
            self._queue.append(_Query("DEALLOCATE ALL", ()))
        self._transactions += 1
        if self._transactions >= self._next_replan:
            self._next_replan += min(self._next_replan, _REPLAN_INTERVAL)
            self._queue.append(_Query("DISCARD PLANS", ()))
        self._begin_count = len(self._queue)

    def commit(self) -> None:
        """Send the queued statements together with the commit of the transaction, and process their results."""
        if self._discard_empty_transaction():
            return
        if self._begin_count and self._queue[0] is _BEGIN:  # everything is sent together
            del self._queue[0]
            self._begin_count -= 1
        else:
            self._queue.append(_COMMIT)
        self._send_queue(commits=True)
        self._read_results()

    def commit_later(self) -> None:
        """End a transaction that has only read, without waiting for the response of the server."""
        if not self._discard_empty_transaction():
            self._queue.append(_COMMIT)
            self._send_queue(commits=True)

    @property
    def is_transaction_empty(self) -> bool:
        """True if the transaction has no statement but those that begin it, which have not been sent."""
        return 0 < self._begin_count == len(self._queue) and not self._locks

    @property
    def needs_response(self) -> bool:
        """True if a queued statement has a result that its job cannot do without."""
        return any(query.statement is not None and query.statement.needs_response for query in self._queue)

    def _discard_empty_transaction(self) -> bool:
        """Discard the queue if the transaction is empty, and return whether it was."""
        if is_empty := self.is_transaction_empty:
            self._queue.clear()
        return is_empty

    def rollback(self) -> None:
        """Discard the queued statements and roll back the transaction. Close the session if that fails."""
        self._queue.clear()
        self._locks.clear()
        if self.is_open and self.in_transaction:
            try:
                self._queue.append(_ROLLBACK)
                self.flush()
            except (PostgresError, ConnectionLost, RetryTransaction):
                self.close()

    # -- the protocol

    def flush(self) -> None:
        """Send the queued statements, and process their results.

        Raises the error of the first statement that failed, RetryTransaction if the transaction should be repeated, or
        ConnectionLost if the connection was lost.
        """
        self._send_queue()
        self._read_results()

    def _send_queue(self, *, commits: bool = False) -> None:
        """Send the queued statements. `commits` is whether the transaction is committed with them."""
        queue, self._queue = self._queue, []
        if self._locks:  # locked in the same order in all sessions, so that there are no deadlocks
            locks, self._locks = sorted(self._locks.items()), {}
            keys, shared = encode([key for key, _ in locks]), [int(is_shared) for _, is_shared in locks]
            lock = _Query(_LOCK_SOME_SHARED, [keys, encode(shared)]) if any(shared) else _Query(_LOCK, [keys])
            queue.insert(self._begin_count, lock)
        self._begin_count = 0
        try:
            self._unread.append(_Batch(queue, [self._write_query(query) for query in queue], commits))
            self._pg.pipeline_sync()
        except psycopg.Error as error:
            self.close()
            raise ConnectionLost(_text_of(error), was_sent=commits) from error
        except BaseException:
            self.close()
            raise

    def _read_results(self) -> None:
        batches, self._unread = self._unread, []
        commits = any(batch.commits for batch in batches)
        queries: list[_Query] = []
        results: list[pq.abc.PGresult | None] = []
        try:
            for batch in batches:
                queries += batch.queries
                results += self._receive(batch.preparations)
                if len(results) > len(queries):  # the transaction could not be committed
                    queries.append(_COMMIT)
        except psycopg.Error as error:
            self.close()
            raise ConnectionLost(_text_of(error), was_sent=commits) from error
        except BaseException:
            self.close()
            raise
        for query, result in zip(queries, results, strict=True):
            if result is None or result.status not in _SUCCESS:
                raise self._failure(query, result, commits=commits)
        for query, result in zip(queries, results, strict=True):
            if query.receives and result is not None:
                self._process(query, result, is_committed=commits)

    def _failure(self, query: _Query, result: pq.abc.PGresult | None, *, commits: bool) -> Exception:
        """Return the error for the first statement of a batch that failed. Close the session if it was lost."""
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            self.close()
            return ConnectionLost("a result of the server is missing", was_sent=commits)
        error = PostgresError(result)
        if error.code.startswith(_SESSION_ENDED):
            # Not `query` but any: a pooler reports a lost server for the first statement without a result.
            self.close()
            lost = ConnectionLost(str(error), was_sent=commits)
            lost.__cause__ = error
            return lost
        return _error_of(query, IntegrityError(result) if error.code.startswith("23") else error)

    def _process(self, query: _Query, result: pq.abc.PGresult, *, is_committed: bool) -> None:
        """Pass the result of a statement to the function that receives it."""
        try:
            query.process(_rows_of(result))
        except Exception:
            if not is_committed:
                raise
            # An error would be taken for that of a transaction that was rolled back, which is repeated.
            logger.exception("The result of a committed statement could not be processed.")

    def _write_query(self, query: _Query) -> _Key | None:
        """Write a statement to the send buffer of libpq. Return its key if it is prepared first; None otherwise."""
        text = parse(query.sql)[0]
        types, data, formats = zip(*query.parameters, strict=True) if query.parameters else ((), (), ())
        if not self._prepare:
            self._pg.send_query_params(text, data, types, formats, BINARY)
            return None
        key = (query.sql, types)
        name = self._prepared_names.get(key)
        if name:
            self._pg.send_query_prepared(name, data, formats, BINARY)
            return None
        if name is None:  # not prepared the first time, because many statements are executed only once
            self._prepared_names[key] = b""
            self._pg.send_query_params(text, data, types, formats, BINARY)
            return None
        self._name_count += 1
        name = b"%s%d" % (self._name_prefix, self._name_count)
        self._prepared_names[key] = name
        self._pg.send_prepare(name, text, types)
        self._pg.send_query_prepared(name, data, formats, BINARY)
        return key

    def _receive(self, preparations: Sequence[_Key | None]) -> list[pq.abc.PGresult | None]:
        """Read the results of a batch: one for each statement, or that of its preparation if this has failed.

        If the statements have succeeded and could not be committed, the error follows.
        """
        results: list[pq.abc.PGresult | None] = []
        for key in preparations:
            preparation = self._last_result() if key is not None else None
            if key is not None and (preparation is None or preparation.status not in _SUCCESS):
                self._prepared_names[key] = b""  # not prepared, because this or an earlier statement has failed
            result = self._last_result()
            has_failed = preparation is not None and preparation.status == pq.ExecStatus.FATAL_ERROR
            results.append(preparation if has_failed else result)
        while (end := self._next_result()) is None or end.status != pq.ExecStatus.PIPELINE_SYNC:
            if not self.is_open:
                raise psycopg.OperationalError("the server has ended the session")
            if end is not None:
                results.append(end)
        return results

    def _last_result(self) -> pq.abc.PGresult | None:
        """Return the result of a statement; None if the session has ended."""
        result = self._next_result()
        if result is not None:
            self._next_result()  # None, which marks the end of the results of a statement
        return result

    def _next_result(self) -> pq.abc.PGresult | None:
        pg = self._pg
        while pg.flush():
            self._write_poll.poll()
            pg.consume_input()
        while pg.is_busy():
            self._read_poll.poll()
            pg.consume_input()
        return pg.get_result()


def _calls(settings: Mapping[str, str], *, is_local: bool) -> str:
    """Return the calls of `set_config` that make settings, separated by commas."""
    return ", ".join(f"set_config('{name}', '{value}', {is_local})" for name, value in settings.items())


def _text_of(error: BaseException) -> str:
    return " ".join(str(error).split())


def _rows_of(result: pq.abc.PGresult) -> Rows:
    decoders = [decoder_of(result.ftype(column)) for column in range(result.nfields)]
    rows = [_row(result, row, decoders) for row in range(result.ntuples)]
    return Rows(rows, result.command_tuples or 0)


def _row(result: pq.abc.PGresult, row: int, decoders: Sequence[Callable[[bytes], Any]]) -> tuple[Any, ...]:
    values = [result.get_value(row, column) for column in range(len(decoders))]
    return tuple(None if value is None else decode(value) for decode, value in zip(decoders, values, strict=True))


def _error_of(query: _Query, error: PostgresError) -> Exception:
    """Return the error to raise for a failed statement."""
    if error.code in _CONFLICTS:
        retry = RetryTransaction(str(error))
        retry.__cause__ = error
        return retry
    if query.statement is None:
        return error
    translated = query.statement.mismatch() if error.code == MISMATCH else query.statement.error_of(error)
    if translated is not error:
        translated.__cause__ = error
    return translated
