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
from statewright.storage.sqlite.ledger.conditions import conditions
from statewright.storage.sqlite.ledger.tables import UNREADABLE, Table, Tables, closed_json, damaged, opened_json
from statewright.storage.sqlite.statements import statements

Job = Callable[[sqlite3.Connection], Any]
Told = Record | Mapping[str, Any] | None
"""The data of a statement: a record, or values of columns."""
_SQL: Final = statements("ledger_changes")
_INSERT_EVENTS: Final = _SQL["insert_events"]
_DELETE_EVENTS: Final = _SQL["delete_events"]
_WEBHOOKS: Final = _SQL["webhooks"]
LONG_INPUT: Final = 1000
"""Bytes from which on the input of a run lies apart from its row."""
_INSERT_INPUT: Final = _SQL["insert_input"]
_DELETE_INPUT: Final = _SQL["delete_input"]
_OF_THE_LEDGER: Final = ("version", "last_event", "updated_at")
"""The columns that only the ledger sets when a run advances."""


def job_of(tables: Tables, changes: Sequence[Change]) -> Job:
    """Return the job that makes changes in order. It raises RecordConflict, and needs a rollback then."""
    jobs = [*_looks_ahead(tables, changes), *(_job(tables, one) for one in changes)]

    def job(connection: sqlite3.Connection) -> None:
        for one in jobs:
            one(connection)

    return job


def _job(tables: Tables, change: Change) -> Job:
    match change:
        case Advance():
            return _advance(tables, change)
        case Insert(record):
            return _insert(tables, record)
        case Spend():
            return _spend(tables, change)
        case Update(kind, identity, values, expect):
            return _update(tables, kind, identity, values, expect)
        case UpdateAll(kind, fitting, values):
            return _update_all(tables, kind, fitting, values)
        case Delete(kind, fitting):
            return _delete(tables, kind, fitting)
        case Absent(kind, fitting):
            return _absent(tables, kind, fitting)
        case Announce():
            return _announce(tables, change)
        case Forget(run_id):
            jobs = [_delete(tables, kind, where(run_id=run_id)) for kind in OF_RUNS]
            return _all([*jobs, _delete(tables, Run, where(id=run_id))])


def _all(jobs: Sequence[Job]) -> Job:
    def job(connection: sqlite3.Connection) -> None:
        for one in jobs:
            one(connection)

    return job


# -- guards


def _looks_ahead(tables: Tables, changes: Sequence[Change]) -> list[Job]:
    """Jobs that look for what the first changes expect, if one of them would be refused after others have written.

    A transaction that fails after it has written costs all who share it. What follows on another kind of change may
    depend on it, and is not looked at: so the same change is refused as without looking.
    """
    looks: list[Job] = []
    touched: set[tuple[type[Record], str]] = set()
    is_needed = False
    for change in changes:
        if not isinstance(change, (Update, Advance)) or any(isinstance(one.value, Among) for one in change.expect):
            break
        kind, identity = (change.kind, change.id) if isinstance(change, Update) else (Run, change.run_id)
        if (kind, identity) in touched:
            break
        is_needed = is_needed or bool(touched and change.expect)
        touched.add((kind, identity))
        looks.append(partial(_look, tables, kind, identity, change.expect))
    return looks if is_needed else []


def _look(tables: Tables, kind: type[Record], identity: str, expect: Where, connection: sqlite3.Connection) -> None:
    table = tables[kind]
    fitting, marks = conditions(tables, kind, [Condition("id", "=", identity), *expect])
    sql = f'SELECT 1 FROM "{table.name}" WHERE {fitting}'
    if _executed(connection, sql, marks, table).fetchone() is None:
        raise RecordConflict(table.name, identity, expect)


def _absent(tables: Tables, kind: type[Record], fitting: Where) -> Job:
    table = tables[kind]
    text, marks = conditions(tables, kind, fitting)
    sql = f'SELECT 1 FROM "{table.name}" WHERE {text} LIMIT 1'

    def job(connection: sqlite3.Connection) -> None:
        if _executed(connection, sql, marks, table).fetchone() is not None:
            raise RecordPresent(table.name, fitting)

    return job


# -- records


def _insert(tables: Tables, record: Record) -> Job:
    table = tables[type(record)]
    row = table.row(record)
    large = _large_input(table, record, row)

    def job(connection: sqlite3.Connection) -> None:
        _executed(connection, table.insert, row, table, record)
        if large is not None:
            connection.execute(_INSERT_INPUT, (record.id, large))

    return job


def _spend(tables: Tables, change: Spend) -> Job:
    table, spent = tables[DailySpending], change.spent
    row = table.row(spent)
    sums = ", ".join(f'"{name}" = "{name}" + excluded."{name}"' for name in spent.SUMS)
    sql = f'{table.insert} ON CONFLICT ("id") DO UPDATE SET {sums} {table.returning}'

    def job(connection: sqlite3.Connection) -> None:
        change.after = table.record(_executed(connection, sql, row, table, spent).fetchone())

    return job


def _large_input(table: Table[Any], record: Record, row: list[Any]) -> bytes | None:
    """Remove the input of a new run from its row, and return it, if it is large enough for a row of its own."""
    place = table.names.index("input") if isinstance(record, Run) else None
    if place is None or row[place] is None or len(row[place]) <= LONG_INPUT:
        return None
    large, row[place] = row[place], None
    return large


def _update(tables: Tables, kind: type[Record], identity: str, values: Mapping[str, Any], expect: Where) -> Job:
    table = tables[kind]
    assigned, row = _assignments(table, values)
    fitting, marks = conditions(tables, kind, [Condition("id", "=", identity), *expect])
    sql = f'UPDATE "{table.name}" SET {assigned} WHERE {fitting}'
    row += marks

    def job(connection: sqlite3.Connection) -> None:
        if _executed(connection, sql, row, table, values).rowcount != 1:
            raise RecordConflict(table.name, identity, expect)
        if kind is Run and "input" in values:
            connection.execute(_DELETE_INPUT, (identity,))

    return job


def _update_all(tables: Tables, kind: type[Record], fitting: Where, values: Mapping[str, Any]) -> Job:
    table = tables[kind]
    assigned, row = _assignments(table, values)
    text, marks = _fixed(tables, kind, fitting)
    sql = f'UPDATE "{table.name}" SET {assigned} WHERE {text}'
    row += marks
    return lambda connection: _executed(connection, sql, row, table, values)


def _assignments(table: Table[Any], values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the assignments of an UPDATE, which always increments the version of a run."""
    texts: list[str] = []
    row: list[Any] = []
    is_run = table.kind is Run
    if is_run:
        texts.append('"version" = "version" + 1')
    for name, value in values.items():
        if is_run and name == "version":
            continue
        if isinstance(value, Plus):
            table.check_column(name, searched=True)
            texts.append(f'"{name}" = "{name}" + ?')
            row.append(value.amount)
        else:
            texts.append(f'"{name}" = ?')
            row.append(table.encoded(name, value))
    return ", ".join(texts) or '"id" = "id"', row


def _delete(tables: Tables, kind: type[Record], fitting: Where) -> Job:
    """Return the job that deletes records, with the logs of runs, because their numbers may be reused."""
    table = tables[kind]
    text, marks = _fixed(tables, kind, fitting)
    condition = f'FROM "{table.name}" WHERE {text}'

    def job(connection: sqlite3.Connection) -> None:
        if kind is Run:
            numbers = _executed(connection, f"SELECT number {condition}", marks, table).fetchall()
            connection.executemany(_DELETE_EVENTS, [{"run": number} for (number,) in numbers])
            _executed(connection, f"DELETE FROM run_inputs WHERE run IN (SELECT id {condition})", marks, table)
        _executed(connection, f"DELETE {condition}", marks, table)

    return job


def _fixed(tables: Tables, kind: type[Record], fitting: Where) -> tuple[str, list[Any]]:
    """Conditions by which it is settled which records are meant before the first of them changes."""
    text, marks = conditions(tables, kind, fitting)
    if any(isinstance(one.value, Among) for one in fitting):
        text = f'"id" IN (SELECT "id" FROM "{kind.TABLE}" WHERE {text})'
    return text, marks


# -- runs and those who hear of them


def _advance(tables: Tables, change: Advance) -> Job:
    table, count = tables[Run], len(change.events)
    values = {name: value for name, value in change.values.items() if name not in _OF_THE_LEDGER}
    assigned, row = _assignments(table, values)
    fitting, marks = conditions(tables, Run, [Condition("id", "=", change.run_id), *change.expect])
    at = table.encoded("updated_at", change.at)
    sql = (
        f'UPDATE "{table.name}" SET {assigned}, "updated_at" = ?, "last_event" = "last_event" + ? WHERE {fitting} '
        f"RETURNING number, last_event"
    )
    row += [at, count, *marks]
    body = _body(tables, change) if count else b""

    def job(connection: sqlite3.Connection) -> None:
        found = _executed(connection, sql, row, table, values).fetchone()
        if found is None:
            raise RecordConflict(table.name, change.run_id, change.expect)
        number, last = found
        if "input" in values:
            connection.execute(_DELETE_INPUT, (change.run_id,))
        if count:
            connection.execute(_INSERT_EVENTS, (number << 32 | last, at, body))
        change.written = _numbered(change, last - count + 1)

    return job


def _numbered(change: Advance, first: int) -> list[RunEvent]:
    return [
        RunEvent(change.run_id, seq, one.type, one.payload, one.step_id, change.at)
        for seq, one in enumerate(change.events, first)
    ]


def _body(tables: Tables, change: Advance) -> bytes:
    try:
        return closed_json(tables.seal, [tuple(one) for one in change.events])
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"an event of run {change.run_id!r}", str(error)) from error


def _announce(tables: Tables, change: Announce) -> Job:
    _insert(tables, delivery_of(change, ""))  # what cannot be stored is refused, even if nobody wants to hear of it

    def job(connection: sqlite3.Connection) -> None:
        found = connection.execute(_WEBHOOKS, (change.workspace_id,)).fetchall()
        wanting = [identity for identity, events in found if _wants(tables, events, change.event_type)]
        for identity in wanting:
            _insert(tables, delivery_of(change, identity))(connection)
        change.made = len(wanting)

    return job


def _wants(tables: Tables, events: bytes | None, event_type: str) -> bool:
    try:
        wanted = opened_json(tables.seal, events) if events is not None else None
        return not wanted or event_type in wanted
    except UNREADABLE as error:
        raise damaged("webhooks", error) from error


# -- statements


def _executed(
    connection: sqlite3.Connection, sql: str, values: Sequence[Any], table: Table[Any], told: Told = None
) -> sqlite3.Cursor:
    """Execute a statement, and return its cursor."""
    try:
        return connection.execute(sql, values)
    except sqlite3.IntegrityError as error:
        raise _refused(table, error, told) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise SerdeError(f"a record of {table.name}", str(error)) from error


def _refused(table: Table[Any], error: sqlite3.IntegrityError, told: Told) -> StorageError:
    """Why a row is none: SQLite says `UNIQUE constraint failed: table.column, table.column`."""
    columns = [name.strip().rpartition(".")[2] for name in str(error).partition(":")[2].split(",")]
    if error.sqlite_errorcode not in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return SerdeError(f"{table.name}.{columns[0]}", "it must not be None")
    if isinstance(told, Record):
        return DuplicateRecord(table.name, columns, [getattr(told, name) for name in columns])
    return DuplicateRecord(table.name, columns, [(told or {}).get(name, "as before") for name in columns])
