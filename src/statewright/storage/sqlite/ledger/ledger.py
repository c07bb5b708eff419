"""The ledger for SQLite: records of runs in the same file as their threads.

`tables` converts records to rows, `conditions` queries to SQL; `changes` writes records, and `claim` assigns runs to
workers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final, TypeVar

from statewright.checkpoint.forms import instant_of, microseconds
from statewright.errors import NewerFormat, SerdeError
from statewright.futures import MaybeFuture
from statewright.page import cut_page
from statewright.runs import Change, Group, Order, Run, RunEvent, Where, where
from statewright.runs.records.record import R
from statewright.storage.sqlite.faults import UNREADABLE
from statewright.storage.sqlite.ledger.changes import Job, job_of
from statewright.storage.sqlite.ledger.claim import claim_runs
from statewright.storage.sqlite.ledger.conditions import conditions, order_by
from statewright.storage.sqlite.ledger.tables import Table, Tables, damaged, opened_json
from statewright.storage.sqlite.statements import statements
from statewright.storage.sqlite.view import DatabaseOrPath, View, on_event_loop

_SQL: Final = statements("ledger")

T = TypeVar("T")
FORMAT: Final = 3
"""The format of the tables that this version writes."""
_STEPS: Final = (
    (_SQL["decided_by_key"], _SQL["format_two"]),
    (_SQL["daily_spending"], _SQL["spending_of_calls"], _SQL["format_three"]),
)
"""The statements of the step from each format to the next, beginning with format 1."""


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate the tables of an older format; another process may have been faster."""
    (version,) = connection.execute(_SQL["format"]).fetchone()
    for statement in chain.from_iterable(_STEPS[version - 1 :]):
        connection.execute(statement)


class SqliteLedger(View):
    """Stores the records of runs in a SQLite file; safe to use from several threads and processes.

    In an encrypted database names, ids, times, tags, metadata and keys stay readable, because runs are looked up by
    them. It takes a path with the options of `SqliteDatabase`, or a shared database: jobs of this ledger can be part of
    the commits of a `SqliteSaver` of the same database.
    """

    def __init__(self, database: DatabaseOrPath, **options: Any) -> None:
        super().__init__(database, **options)
        self._make_tables("ledger")
        self._tables = Tables(self.database.seal)
        version = self._format()
        if version > FORMAT:
            self.close()
            raise NewerFormat(str(self.database.path), version, FORMAT)
        if version < FORMAT:
            self.database.write(_migrate)

    def _format(self) -> int:
        with self.database.read() as connection:
            return connection.execute(_SQL["format"]).fetchone()[0]

    # -- writing

    def write(self, changes: Sequence[Change]) -> MaybeFuture[None]:
        return self._written(self.job(changes))

    def job(self, changes: Sequence[Change]) -> Job:
        return job_of(self._tables, changes)

    def claim(self, worker_id: str, now: datetime, limit: int) -> MaybeFuture[Sequence[Run]]:
        at = microseconds(now)
        return self._written(lambda connection: claim_runs(connection, self._tables, worker_id, at, limit))

    # -- reading

    def get(self, kind: type[R], id: str) -> MaybeFuture[R | None]:  # noqa: A002  # what it is called everywhere
        def read(connection: sqlite3.Connection) -> R | None:
            return next(iter(self._select(connection, kind, where(id=id), '"id"', None, 0)), None)

        return self._read(read)

    def find(
        self,
        kind: type[R],
        where: Where = (),
        *,
        order: Order | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> MaybeFuture[Sequence[R]]:
        columns = order_by(self._tables[kind], order)
        return self._read(lambda connection: self._select(connection, kind, where, columns, limit, offset))

    def _select(
        self, connection: sqlite3.Connection, kind: type[R], where: Where, columns: str, limit: int | None, offset: int
    ) -> list[R]:
        table: Table[R] = self._tables[kind]
        condition, values = conditions(self._tables, kind, where)
        order = f"ORDER BY {columns}"
        if limit is not None or offset:  # ids are sorted first, so that long rows outside of the page are not read
            condition = f'"id" IN (SELECT "id" FROM "{table.name}" WHERE {condition} {order} LIMIT ? OFFSET ?)'
            values += [-1 if limit is None else cut_page(limit).stop, offset]  # SQLite takes a negative offset as 0
        return [table.record(row) for row in connection.execute(f"{table.select} WHERE {condition} {order}", values)]

    def count(self, kind: type[R], where: Where = ()) -> MaybeFuture[int]:
        condition, values = conditions(self._tables, kind, where)
        sql = f'SELECT count(*) FROM "{kind.TABLE}" WHERE {condition}'
        return self._read(lambda connection: connection.execute(sql, values).fetchone()[0])

    def groups(
        self, kind: type[R], by: Sequence[str], *, where: Where = (), sums: Sequence[str] = ()
    ) -> MaybeFuture[Sequence[Group]]:
        table: Table[R] = self._tables[kind]
        for name in (*by, *sums):
            table.check_column(name, searched=True)
        condition, values = conditions(self._tables, kind, where)
        keys = [f'"{name}"' for name in by]
        columns = ", ".join([*keys, "count(*)", *(f'total("{name}")' for name in sums)])
        sql = f'SELECT {columns} FROM "{table.name}" WHERE {condition}'
        if keys:
            sql += f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(keys)}"

        def read(connection: sqlite3.Connection) -> list[Group]:
            rows = connection.execute(sql, values).fetchall()
            groups = [Group(table.decoded(by, row[: len(by)]), row[len(by)], row[len(by) + 1 :]) for row in rows]
            return [group for group in groups if group.size]  # without columns, SQL counts an empty table as a group

        return self._read(read)

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> MaybeFuture[Sequence[RunEvent]]:
        def read(connection: sqlite3.Connection) -> list[RunEvent]:
            row = connection.execute(_SQL["number"], (run_id,)).fetchone()
            if row is None:
                return []
            return list(islice(self._log(connection, run_id, row[0], after), cut_page(limit).stop))

        return self._read(read)

    def _log(self, connection: sqlite3.Connection, run_id: str, number: int, after: int) -> Iterator[RunEvent]:
        """Yield the events of a run after a number. A row has the events of one write; its id has the last number."""
        begin, end = number << 32, (number + 1 << 32) - 1
        for row_id, at, body in connection.execute(_SQL["events"], (begin + max(after, 0) + 1, end)):
            for event in self._events(run_id, row_id - begin, at, body):
                if event.seq > after:
                    yield event

    def _events(self, run_id: str, last: int, at: int, body: bytes) -> list[RunEvent]:
        try:
            entries = opened_json(self.database.seal, body)
            instant = instant_of(at)
            return [
                RunEvent(run_id, seq, kind, payload, step_id, instant)
                for seq, (kind, payload, step_id) in enumerate(entries, last - len(entries) + 1)
            ]
        except UNREADABLE as error:
            raise damaged("run_events", error) from error

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> MaybeFuture[T]:
        """Call a function with a reading connection; on a thread of its own if an event loop runs here."""
        read = _with_text_errors(read)
        if on_event_loop():
            return self.database.read_beside(read)
        with self.database.read() as connection:
            return read(connection)


def _with_text_errors(read: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
    """Return a reading function that raises SerdeError if a value of its conditions cannot be a parameter of SQL."""

    def checked(connection: sqlite3.Connection) -> T:
        try:
            return read(connection)
        except (UnicodeEncodeError, OverflowError) as error:
            raise SerdeError("a value of a condition", str(error)) from error

    return checked
