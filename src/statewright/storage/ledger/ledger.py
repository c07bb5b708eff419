"""The ledger for databases: records of runs, in the same database as their threads.

`tables` converts records to rows, `conditions` queries to SQL; `changes` writes records, and `claim` assigns runs to
workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from statewright.clock import instant_of, microseconds
from statewright.errors import SerdeError
from statewright.futures import MaybeFuture
from statewright.page import cut_page
from statewright.runs import (
    Bucket,
    Change,
    ExcludedVersion,
    Group,
    NextDue,
    Order,
    QueueSize,
    Run,
    RunEvent,
    Where,
    where,
)
from statewright.runs.records.record import R
from statewright.storage.damage import report_damage
from statewright.storage.database import UNLIMITED, Backend, Connection, D, Job
from statewright.storage.ledger.changes import job_of
from statewright.storage.ledger.claim import Claimant, HeldCursor, claim_runs, iter_due_sizes, next_due
from statewright.storage.ledger.conditions import conditions, order_by
from statewright.storage.ledger.tables import Table, Tables, decrypted_json

T = TypeVar("T")


class DatabaseLedger(Backend[D]):
    """Stores the records of runs. Its jobs can be part of the commits of a saver of the same database."""

    def __init__(self, database: D | str | os.PathLike[str], **options: Any) -> None:
        super().__init__(database, **options)
        self.database.create_tables("ledger")
        self._tables = Tables(self.database)
        self._held_cursor = HeldCursor()

    # -- writing

    def write(self, changes: Sequence[Change]) -> MaybeFuture[None]:
        return self._write(self.job(changes))

    def job(self, changes: Sequence[Change]) -> Job[Any]:
        return job_of(self._tables, changes)

    def claim(
        self,
        worker_id: str,
        now: datetime,
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        excluded_versions: Sequence[ExcludedVersion] = (),
    ) -> MaybeFuture[Sequence[Run]]:
        claimant = Claimant(worker_id, queues, excluded_versions)
        return self._write(self._claim_job(claimant, now, limit))

    def _claim_job(self, claimant: Claimant, now: datetime, limit: int) -> Job[list[Run]]:
        return lambda connection: claim_runs(connection, self._tables, claimant, now, limit, self._held_cursor)

    # -- reading

    def get(self, kind: type[R], id: str) -> MaybeFuture[R | None]:  # noqa: A002  # what it is called everywhere
        def read(connection: Connection) -> R | None:
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
        self, connection: Connection, kind: type[R], where: Where, columns: str, limit: int | None, offset: int
    ) -> list[R]:
        table: Table[R] = self._tables[kind]
        condition, values = conditions(self._tables, kind, where)
        order = f"ORDER BY {columns}"
        if limit is not None or offset:  # ids are sorted first, so that long rows outside of the page are not read
            condition = f'"id" IN (SELECT "id" FROM "{table.name}" WHERE {condition} {order} LIMIT ? OFFSET ?)'
            page = cut_page(limit, offset)
            values += [UNLIMITED if limit is None else page.stop - page.start, page.start]
        return [table.record(row) for row in connection.execute(f"{table.select} WHERE {condition} {order}", values)]

    def count(self, kind: type[R], where: Where = ()) -> MaybeFuture[int]:
        condition, values = conditions(self._tables, kind, where)
        sql = f'SELECT count(*) FROM "{kind.TABLE}" WHERE {condition}'
        return self._read(lambda connection: connection.execute(sql, values).fetchone()[0])

    def groups(
        self,
        kind: type[R],
        by: Sequence[str],
        *,
        where: Where = (),
        sums: Sequence[str] = (),
        bucket: Bucket | None = None,
    ) -> MaybeFuture[Sequence[Group]]:
        table: Table[R] = self._tables[kind]
        for name in (*by, *sums):
            table.check_column(name, searched=True)
        condition, values = conditions(self._tables, kind, where)
        keys = [f'"{name}"' for name in by]
        first = 0  # the position of the first column of `by`
        if bucket is not None:
            period, condition = _period(table, bucket), f'{condition} AND "{bucket.column}" IS NOT NULL'
            keys, first = [period, *keys], 1
        columns = ", ".join(
            [*keys, "count(*)", *(f'CAST(coalesce(sum("{name}"), 0) AS DOUBLE PRECISION)' for name in sums)]
        )
        sql = f'SELECT {columns} FROM "{table.name}" WHERE {condition}'
        if keys:
            sql += f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(f'{key} NULLS FIRST' for key in keys)}"

        def read(connection: Connection) -> list[Group]:
            rows = connection.execute(sql, values).fetchall()
            end = first + len(by)
            groups = [
                Group((*row[:first], *table.decoded(by, row[first:end])), row[end], row[end + 1 :]) for row in rows
            ]
            return [group for group in groups if group.size]  # without columns, SQL counts an empty table as a group

        return self._read(read)

    def next_due(
        self, *, queues: Sequence[str] | None = None, excluded_versions: Sequence[ExcludedVersion] = ()
    ) -> MaybeFuture[NextDue]:
        claimant = Claimant("", queues, excluded_versions)
        return self._read(lambda connection: self._next_due(connection, claimant))

    def _next_due(self, connection: Connection, claimant: Claimant) -> NextDue:
        return next_due(connection, self._tables, claimant)

    def queue_sizes(self, now: datetime) -> MaybeFuture[Sequence[QueueSize]]:
        at = microseconds(now)

        def read(connection: Connection) -> list[QueueSize]:
            sizes: dict[str, QueueSize] = {}
            due = [(*row, 0) for row in self._due_sizes(connection, at)]
            others = connection.execute(self._tables.sql["queue_sizes"], (at, at)).fetchall()
            for queue, count, since, claimed in (*due, *others):
                size = sizes.get(queue, QueueSize(queue, 0, None, 0))
                instants = [size.due_since, instant_of(since) if since is not None else None]
                first = min((instant for instant in instants if instant is not None), default=None)
                sizes[queue] = QueueSize(queue, size.due + count, first, size.claimed + claimed)
            return [sizes[queue] for queue in sorted(sizes)]

        return self._read(read)

    def _due_sizes(self, connection: Connection, at: int) -> Iterable[tuple[str, int, int | None]]:
        return iter_due_sizes(connection, self._tables, at)

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> MaybeFuture[Sequence[RunEvent]]:
        def read(connection: Connection) -> list[RunEvent]:
            row = connection.execute(self._tables.sql["number"], (run_id,)).fetchone()
            if row is None:
                return []
            return list(islice(self._log(connection, run_id, row[0], after), cut_page(limit).stop))

        return self._read(read)

    def _log(self, connection: Connection, run_id: str, number: int, after: int) -> Iterator[RunEvent]:
        """Yield the events of a run after a number. A row has the events of one write; its id has the last number."""
        begin, end = self.database.row_ids.bounds(number)
        for row_id, at, body in connection.execute(self._tables.sql["events"], (begin + max(after, 0) + 1, end)):
            for event in self._events(run_id, row_id - begin, at, body):
                if event.seq > after:
                    yield event

    def _events(self, run_id: str, last: int, at: int, body: bytes) -> list[RunEvent]:
        with report_damage("a record of run_events"):
            entries = decrypted_json(self._tables.encryptor, body)
            instant = instant_of(at)
            return [
                RunEvent(run_id, seq, kind, payload, step_id, instant)
                for seq, (kind, payload, step_id) in enumerate(entries, last - len(entries) + 1)
            ]

    def _read(self, read: Job[T]) -> MaybeFuture[T]:
        """Call a function with a reading connection.

        Raises SerdeError if a value of its conditions cannot be a parameter of SQL.
        """

        def checked(connection: Connection) -> T:
            try:
                return read(connection)
            except (UnicodeEncodeError, OverflowError) as error:
                raise SerdeError("a value of a condition", str(error)) from error

        return self._query(checked)


def _period(table: Table[Any], bucket: Bucket) -> str:
    """Return the number of the period of a record in SQL. Both databases round a division of integers towards 0."""
    table.check_column(bucket.column, searched=True)
    start, length = microseconds(bucket.start), bucket.microseconds
    distance = f'("{bucket.column}" - {start})'
    return f"(CASE WHEN {distance} < 0 THEN ({distance} + 1) / {length} - 1 ELSE {distance} / {length} END)"
