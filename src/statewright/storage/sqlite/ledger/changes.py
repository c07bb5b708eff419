"""Changes to records as jobs of a transaction.

Everything is encoded when the job is created, on the calling thread; the transaction only executes statements. A job
may be called again after a rollback.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from statewright.errors import DuplicateRecord, RecordConflict, RecordPresent, SerdeError, StorageError
from statewright.runs import (
    OF_RUNS,
    Absent,
    Advance,
    Among,
    Announce,
    Change,
    Condition,
    DailySpending,
    Delete,
    Forget,
    Insert,
    Plus,
    Record,
    Run,
    RunEvent,
    Spend,
    Update,
    UpdateAll,
    Where,
    delivery_of,
    where,
)
from statewright.storage.sqlite.ledger.conditions import Sql, conditions
from statewright.storage.sqlite.ledger.tables import UNREADABLE, Table, Tables, closed_json, damaged, opened_json
from statewright.storage.sqlite.statements import statements

Job = Callable[[sqlite3.Connection], Any]
Written = Record | Mapping[str, Any] | None
"""The data that a statement writes: a record, or values by column."""
_SQL: Final = statements("ledger_changes")
_INSERT_EVENTS: Final = _SQL["insert_events"]
_DELETE_EVENTS: Final = _SQL["delete_events"]
_WEBHOOKS: Final = _SQL["webhooks"]
LONG_INPUT: Final = 1000
"""Bytes above which the input of a run has a row of its own."""
_INSERT_INPUT: Final = _SQL["insert_input"]
_DELETE_INPUT: Final = _SQL["delete_input"]
_SET_BY_LEDGER: Final = ("version", "last_event", "updated_at")
"""The columns that only the ledger sets when a run advances."""


def job_of(tables: Tables, changes: Sequence[Change]) -> Job:
    """Return the job that makes changes in order. It raises RecordConflict, and needs a rollback then."""
    return _all([*_checks_ahead(tables, changes), *(_job(tables, change) for change in changes)])


def _job(tables: Tables, change: Change) -> Job:
    match change:
        case Advance():
            return _advance(tables, change)
        case Insert(record):
            return _insert(tables, record)
        case Spend():
            return _spend(tables, change)
        case Update(kind, record_id, values, expect):
            return _update(tables, kind, record_id, values, expect)
        case UpdateAll(kind, matching, values):
            return _update_all(tables, kind, matching, values)
        case Delete(kind, matching):
            return _delete(tables, kind, matching)
        case Absent(kind, matching):
            return _absent(tables, kind, matching)
        case Announce():
            return _announce(tables, change)
        case Forget(run_id):
            jobs = [_delete(tables, kind, where(run_id=run_id)) for kind in OF_RUNS]
            return _all([*jobs, _delete(tables, Run, where(id=run_id))])


def _all(jobs: Sequence[Job]) -> Job:
    def job(connection: sqlite3.Connection) -> None:
        for part in jobs:
            part(connection)

    return job


# -- guards


def _checks_ahead(tables: Tables, changes: Sequence[Change]) -> list[Job]:
    """Return jobs that check the expectations of the first changes before any of them is made.

    A job that fails after it has written rolls back the whole group of jobs in its transaction, which then are repeated
    one by one. Checks are needed only if a change with expectations follows another one. They end before a change that
    may depend on an earlier one, so that the same change is refused as without them.
    """
    checks: list[Job] = []
    changed: set[tuple[type[Record], str]] = set()
    is_needed = False
    for change in changes:
        if not isinstance(change, (Update, Advance)) or _reads_other_records(change.expect):
            break
        kind, record_id = (change.kind, change.id) if isinstance(change, Update) else (Run, change.run_id)
        if (kind, record_id) in changed:
            break
        is_needed = is_needed or bool(changed and change.expect)
        changed.add((kind, record_id))
        checks.append(partial(_check, tables, kind, record_id, change.expect))
    return checks if is_needed else []


def _check(tables: Tables, kind: type[Record], record_id: str, expect: Where, connection: sqlite3.Connection) -> None:
    table = tables[kind]
    condition, parameters = conditions(tables, kind, [Condition("id", "=", record_id), *expect])
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition}'
    if _execute(connection, sql, parameters, table).fetchone() is None:
        raise RecordConflict(table.name, record_id, expect)


def _reads_other_records(where: Where) -> bool:
    return any(isinstance(condition.value, Among) for condition in where)


def _absent(tables: Tables, kind: type[Record], where: Where) -> Job:
    table = tables[kind]
    condition, parameters = conditions(tables, kind, where)
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition} LIMIT 1'

    def job(connection: sqlite3.Connection) -> None:
        if _execute(connection, sql, parameters, table).fetchone() is not None:
            raise RecordPresent(table.name, where)

    return job


# -- records


def _insert(tables: Tables, record: Record) -> Job:
    table = tables[type(record)]
    row = table.row(record)
    large = _large_input(table, record, row)

    def job(connection: sqlite3.Connection) -> None:
        _execute(connection, table.insert, row, table, record)
        if large is not None:
            connection.execute(_INSERT_INPUT, (record.id, large))

    return job


def _spend(tables: Tables, change: Spend) -> Job:
    table, spent = tables[DailySpending], change.spent
    row = table.row(spent)
    sums = ", ".join(f'"{name}" = "{name}" + excluded."{name}"' for name in spent.SUMS)
    sql = f'{table.insert} ON CONFLICT ("id") DO UPDATE SET {sums} {table.returning}'

    def job(connection: sqlite3.Connection) -> None:
        change.after = table.record(_execute(connection, sql, row, table, spent).fetchone())

    return job


def _large_input(table: Table[Any], record: Record, row: list[Any]) -> bytes | None:
    """Remove the input of a new run from its row, and return it, if it is large enough for a row of its own."""
    index = table.names.index("input") if isinstance(record, Run) else None
    if index is None or row[index] is None or len(row[index]) <= LONG_INPUT:
        return None
    large, row[index] = row[index], None
    return large


def _update(tables: Tables, kind: type[Record], record_id: str, values: Mapping[str, Any], expect: Where) -> Job:
    table = tables[kind]
    assignments, parameters = _assignments(table, values)
    condition, more = conditions(tables, kind, [Condition("id", "=", record_id), *expect])
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    parameters += more

    def job(connection: sqlite3.Connection) -> None:
        if _execute(connection, sql, parameters, table, values).rowcount != 1:
            raise RecordConflict(table.name, record_id, expect)
        if kind is Run and "input" in values:
            connection.execute(_DELETE_INPUT, (record_id,))

    return job


def _update_all(tables: Tables, kind: type[Record], where: Where, values: Mapping[str, Any]) -> Job:
    table = tables[kind]
    assignments, parameters = _assignments(table, values)
    condition, more = _stable_conditions(tables, kind, where)
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    parameters += more
    return lambda connection: _execute(connection, sql, parameters, table, values)


def _assignments(table: Table[Any], values: Mapping[str, Any]) -> Sql:
    """Return the assignments of an UPDATE, which always increments the version of a run."""
    texts: list[str] = []
    parameters: list[Any] = []
    is_run = table.kind is Run
    if is_run:
        texts.append('"version" = "version" + 1')
    for name, value in values.items():
        if is_run and name == "version":
            continue
        if isinstance(value, Plus):
            table.check_column(name, searched=True)
            texts.append(f'"{name}" = "{name}" + ?')
            parameters.append(value.amount)
        else:
            texts.append(f'"{name}" = ?')
            parameters.append(table.encoded(name, value))
    return ", ".join(texts) or '"id" = "id"', parameters


def _delete(tables: Tables, kind: type[Record], where: Where) -> Job:
    """Return the job that deletes records, with the logs of runs, because their numbers may be reused."""
    table = tables[kind]
    condition, parameters = _stable_conditions(tables, kind, where)
    selection = f'FROM "{table.name}" WHERE {condition}'

    def job(connection: sqlite3.Connection) -> None:
        if kind is Run:
            numbers = _execute(connection, f"SELECT number {selection}", parameters, table).fetchall()
            connection.executemany(_DELETE_EVENTS, [{"run": number} for (number,) in numbers])
            _execute(connection, f"DELETE FROM run_inputs WHERE run IN (SELECT id {selection})", parameters, table)
        _execute(connection, f"DELETE {selection}", parameters, table)

    return job


def _stable_conditions(tables: Tables, kind: type[Record], where: Where) -> Sql:
    """Return conditions that select all records before the first of them changes.

    A subquery of `Among` may read the table that is being changed. Selecting ids first keeps its result the same.
    """
    text, parameters = conditions(tables, kind, where)
    if _reads_other_records(where):
        text = f'"id" IN (SELECT "id" FROM "{kind.TABLE}" WHERE {text})'
    return text, parameters


# -- runs and announcements


def _advance(tables: Tables, change: Advance) -> Job:
    table, count = tables[Run], len(change.events)
    values = {name: value for name, value in change.values.items() if name not in _SET_BY_LEDGER}
    assignments, parameters = _assignments(table, values)
    condition, more = conditions(tables, Run, [Condition("id", "=", change.run_id), *change.expect])
    at = table.encoded("updated_at", change.at)
    sql = (
        f'UPDATE "{table.name}" SET {assignments}, "updated_at" = ?, "last_event" = "last_event" + ? '
        f"WHERE {condition} RETURNING number, last_event"
    )
    parameters += [at, count, *more]
    body = _body(tables, change) if count else b""

    def job(connection: sqlite3.Connection) -> None:
        row = _execute(connection, sql, parameters, table, values).fetchone()
        if row is None:
            raise RecordConflict(table.name, change.run_id, change.expect)
        number, last = row
        if "input" in values:
            connection.execute(_DELETE_INPUT, (change.run_id,))
        if count:
            connection.execute(_INSERT_EVENTS, (number << 32 | last, at, body))
        change.written = _numbered(change, last - count + 1)

    return job


def _numbered(change: Advance, first: int) -> list[RunEvent]:
    return [
        RunEvent(change.run_id, seq, event.type, event.payload, event.step_id, change.at)
        for seq, event in enumerate(change.events, first)
    ]


def _body(tables: Tables, change: Advance) -> bytes:
    try:
        return closed_json(tables.seal, [tuple(event) for event in change.events])
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"an event of run {change.run_id!r}", str(error)) from error


def _announce(tables: Tables, change: Announce) -> Job:
    _insert(tables, delivery_of(change, ""))  # to raise SerdeError for bad data even if there are no subscribers

    def job(connection: sqlite3.Connection) -> None:
        webhooks = connection.execute(_WEBHOOKS, (change.workspace_id,)).fetchall()
        subscribers = [webhook_id for webhook_id, events in webhooks if _subscribes(tables, events, change.event_type)]
        for webhook_id in subscribers:
            _insert(tables, delivery_of(change, webhook_id))(connection)
        change.made = len(subscribers)

    return job


def _subscribes(tables: Tables, events: bytes | None, event_type: str) -> bool:
    try:
        event_types = opened_json(tables.seal, events) if events is not None else None
        return not event_types or event_type in event_types
    except UNREADABLE as error:
        raise damaged("webhooks", error) from error


# -- statements


def _execute(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any], table: Table[Any], written: Written = None
) -> sqlite3.Cursor:
    """Execute a statement, and return its cursor."""
    try:
        return connection.execute(sql, parameters)
    except sqlite3.IntegrityError as error:
        raise _constraint_error(table, error, written) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise SerdeError(f"a record of {table.name}", str(error)) from error


def _constraint_error(table: Table[Any], error: sqlite3.IntegrityError, written: Written) -> StorageError:
    """Return the error for a violated constraint, from `UNIQUE constraint failed: table.column, table.column`."""
    columns = [name.strip().rpartition(".")[2] for name in str(error).partition(":")[2].split(",")]
    if error.sqlite_errorcode not in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return SerdeError(f"{table.name}.{columns[0]}", "it must not be None")
    if isinstance(written, Record):
        return DuplicateRecord(table.name, columns, [getattr(written, name) for name in columns])
    return DuplicateRecord(table.name, columns, [(written or {}).get(name, "as before") for name in columns])
