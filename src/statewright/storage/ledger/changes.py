"""Changes to records as jobs of a transaction.

Everything is encoded when the job is created, on the calling thread; the transaction only executes statements. A job
may be called again after a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from statewright.errors import RecordConflict, RecordPresent, SerdeError
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
from statewright.storage.damage import reading
from statewright.storage.database import Connection, Job
from statewright.storage.ledger.conditions import Sql, conditions
from statewright.storage.ledger.tables import Table, Tables, decrypted_json, encrypted_json

LONG_INPUT: Final = 1000
"""Bytes above which the input of a run has a row of its own."""
_SET_BY_LEDGER: Final = ("version", "last_event", "updated_at")
"""The columns that only the ledger sets when a run advances."""


def job_of(tables: Tables, changes: Sequence[Change]) -> Job[Any]:
    """Return the job that makes changes in order. It raises RecordConflict, and needs a rollback then."""
    return _all([*_checks_ahead(tables, changes), *(_job(tables, change) for change in changes)])


def _job(tables: Tables, change: Change) -> Job[Any]:
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


def _all(jobs: Sequence[Job[Any]]) -> Job[Any]:
    def job(connection: Connection) -> None:
        for part in jobs:
            part(connection)

    return job


# -- guards


def _checks_ahead(tables: Tables, changes: Sequence[Change]) -> list[Job[Any]]:
    """Return jobs that check the expectations of the first changes before any of them is made.

    A job that fails after it has written rolls back the whole group of jobs in its transaction, which then are repeated
    one by one. Checks are needed only if a change with expectations follows another one. They end before a change that
    may depend on an earlier one, so that the same change is refused as without them.
    """
    checks: list[Job[Any]] = []
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


def _check(tables: Tables, kind: type[Record], record_id: str, expect: Where, connection: Connection) -> None:
    table = tables[kind]
    condition, parameters = conditions(tables, kind, [Condition("id", "=", record_id), *expect])
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition}'
    if table.execute(connection, sql, parameters).fetchone() is None:
        raise RecordConflict(table.name, record_id, expect)


def _reads_other_records(where: Where) -> bool:
    return any(isinstance(condition.value, Among) for condition in where)


def _absent(tables: Tables, kind: type[Record], where: Where) -> Job[Any]:
    table = tables[kind]
    condition, parameters = conditions(tables, kind, where)
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition} LIMIT 1'

    def job(connection: Connection) -> None:
        if table.execute(connection, sql, parameters).fetchone() is not None:
            raise RecordPresent(table.name, where)

    return job


# -- records


def _insert(tables: Tables, record: Record) -> Job[Any]:
    table = tables[type(record)]
    row = table.row(record)
    large = _large_input(table, record, row)

    def job(connection: Connection) -> None:
        table.execute(connection, table.insert, row, record)
        if large is not None:
            connection.execute(tables.sql["insert_input"], (record.id, large))

    return job


def _spend(tables: Tables, change: Spend) -> Job[Any]:
    table, spent = tables[DailySpending], change.spent
    row = table.row(spent)
    sums = ", ".join(f'"{name}" = "{table.name}"."{name}" + excluded."{name}"' for name in spent.SUMS)
    sql = f'{table.insert} ON CONFLICT ("id") DO UPDATE SET {sums} {table.returning}'

    def job(connection: Connection) -> None:
        change.after = table.record(table.execute(connection, sql, row, spent).fetchone())

    return job


def _large_input(table: Table[Any], record: Record, row: list[Any]) -> bytes | None:
    """Remove the input of a new run from its row, and return it, if it is large enough for a row of its own."""
    index = table.names.index("input") if isinstance(record, Run) else None
    if index is None or row[index] is None or len(row[index]) <= LONG_INPUT:
        return None
    large, row[index] = row[index], None
    return large


def _update(tables: Tables, kind: type[Record], record_id: str, values: Mapping[str, Any], expect: Where) -> Job[Any]:
    table = tables[kind]
    assignments, parameters = _assignments(table, values)
    condition, more = conditions(tables, kind, [Condition("id", "=", record_id), *expect])
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    parameters += more

    def job(connection: Connection) -> None:
        if table.execute(connection, sql, parameters, values).rowcount != 1:
            raise RecordConflict(table.name, record_id, expect)
        if kind is Run and "input" in values:
            connection.execute(tables.sql["delete_input"], (record_id,))

    return job


def _update_all(tables: Tables, kind: type[Record], where: Where, values: Mapping[str, Any]) -> Job[Any]:
    table = tables[kind]
    assignments, parameters = _assignments(table, values)
    condition, more = _stable_conditions(tables, kind, where)
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    parameters += more
    return lambda connection: table.execute(connection, sql, parameters, values)


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


def _delete(tables: Tables, kind: type[Record], where: Where) -> Job[Any]:
    """Return the job that deletes records, with the logs of runs, because their numbers may be reused."""
    table = tables[kind]
    condition, parameters = _stable_conditions(tables, kind, where)
    selection = f'FROM "{table.name}" WHERE {condition}'

    def job(connection: Connection) -> None:
        if kind is Run:
            numbers = table.execute(connection, f"SELECT number {selection}", parameters).fetchall()
            connection.executemany(tables.sql["delete_events"], [{"run": number} for (number,) in numbers])
            table.execute(connection, f"DELETE FROM run_inputs WHERE run IN (SELECT id {selection})", parameters)
        table.execute(connection, f"DELETE {selection}", parameters)

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


def _advance(tables: Tables, change: Advance) -> Job[Any]:
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

    def job(connection: Connection) -> None:
        row = table.execute(connection, sql, parameters, values).fetchone()
        if row is None:
            raise RecordConflict(table.name, change.run_id, change.expect)
        number, last = row
        if "input" in values:
            connection.execute(tables.sql["delete_input"], (change.run_id,))
        if count:
            connection.execute(tables.sql["insert_events"], (number << 32 | last, at, body))
        change.written_events = _numbered(change, last - count + 1)

    return job


def _numbered(change: Advance, first: int) -> list[RunEvent]:
    return [
        RunEvent(change.run_id, seq, event.type, event.payload, event.step_id, change.at)
        for seq, event in enumerate(change.events, first)
    ]


def _body(tables: Tables, change: Advance) -> bytes:
    try:
        return encrypted_json(tables.encryptor, [tuple(event) for event in change.events])
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"an event of run {change.run_id!r}", str(error)) from error


def _announce(tables: Tables, change: Announce) -> Job[Any]:
    _insert(tables, delivery_of(change, ""))  # to raise SerdeError for bad data even if there are no subscribers

    def job(connection: Connection) -> None:
        webhooks = connection.execute(tables.sql["webhooks"], (change.workspace_id,)).fetchall()
        subscribers = [webhook_id for webhook_id, events in webhooks if _subscribes(tables, events, change.event_type)]
        for webhook_id in subscribers:
            _insert(tables, delivery_of(change, webhook_id))(connection)
        change.delivery_count = len(subscribers)

    return job


def _subscribes(tables: Tables, events: bytes | None, event_type: str) -> bool:
    with reading("a record of webhooks"):
        event_types = decrypted_json(tables.encryptor, events) if events is not None else None
        return not event_types or event_type in event_types
