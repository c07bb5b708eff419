"""Changes to records as jobs of a transaction.

Everything is encoded when the job is created, on the calling thread; the transaction only executes statements. A job
may be called again after a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, Final

from statewright.errors import RecordConflict, RecordPresent, SerdeError
from statewright.runs import (
    OF_RUNS,
    Absent,
    Advance,
    Among,
    Announce,
    Change,
    DailySpending,
    Delete,
    Delivery,
    Forget,
    Insert,
    Plus,
    Queue,
    Record,
    Run,
    RunEvent,
    Scope,
    Spend,
    Update,
    UpdateAll,
    Where,
    Workspace,
    delivery_of,
    scope_of,
    where,
)
from statewright.storage.database import LIMITS_LOCK, Connection, Job, Match, Statement, run_lock, thread_lock
from statewright.storage.ledger.conditions import Sql, conditions
from statewright.storage.ledger.tables import Table, Tables, encrypted_json

LONG_INPUT: Final = 1000
"""Bytes above which the input of a run has a row of its own."""
_LIMITS: Final = ("max_running", "starts_per_minute")
"""The columns of queues and workspaces that limit how many runs are claimed."""
_SET_BY_LEDGER: Final = ("version", "last_event", "updated_at")
"""The columns that only the ledger sets when a run advances."""


def job_of(tables: Tables, changes: Sequence[Change]) -> Job[Any]:
    """Return the job that makes changes in order. It raises RecordConflict, and needs a rollback then."""
    checks = [] if tables.executes_late else _checks_ahead(tables, changes)
    return _all(
        [_locking(scope_of(changes)), *_limit_locks(changes), *checks, *(_job(tables, change) for change in changes)]
    )


def _locking(scope: Scope) -> Job[Any]:
    names = [*map(run_lock, scope.runs), *starmap(thread_lock, scope.threads)]
    return lambda connection: connection.lock(*names)


def _limit_locks(changes: Sequence[Change]) -> list[Job[Any]]:
    """Return the job that keeps limits from being set while a run is started as if there were none, and vice versa.

    A claim does not see a run that is being started, and would not count it for a limit that was set since. Claims
    themselves exclude each other, so they count all runs, whenever a limit is set.
    """
    if any(_sets_limit(change) for change in changes):
        return [lambda connection: connection.lock(LIMITS_LOCK)]
    if any(isinstance(change, Insert) and _is_claimed(change.record) for change in changes):
        return [lambda connection: connection.lock(LIMITS_LOCK, shared=True)]
    return []


def _sets_limit(change: Change) -> bool:
    match change:
        case Insert(Queue() | Workspace() as record):
            return any(getattr(record, name) is not None for name in _LIMITS)
        case Update(kind, _, values, _) | UpdateAll(kind, _, values):
            return kind in (Queue, Workspace) and not values.keys().isdisjoint(_LIMITS)
        case _:
            return False


def _is_claimed(record: Record) -> bool:
    return isinstance(record, Run) and record.claim is not None


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


def _sending(*statements: Statement) -> Job[Any]:
    """Return a job that sends statements."""

    def job(connection: Connection) -> None:
        for statement in statements:
            connection.send(statement)

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
        checks.append(_check(tables, kind, record_id, change.expect))
    return checks if is_needed else []


def _check(tables: Tables, kind: type[Record], record_id: str, expect: Where) -> Job[Any]:
    table = tables[kind]
    condition, parameters = _conditions_on_one(tables, kind, record_id, expect)
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition}'
    return _sending(table.statement(sql, parameters, **_one(table, record_id, expect)))


def _one(table: Table[Any], record_id: str, expect: Where) -> dict[str, Any]:
    """Return the options of a statement that raises RecordConflict unless it changes or selects one row."""
    return {"match": Match.ONE, "mismatch": lambda: RecordConflict(table.name, record_id, expect)}


def _conditions_on_one(tables: Tables, kind: type[Record], record_id: str, expect: Where) -> Sql:
    """Return the conditions that select a record by its id, if it meets expectations.

    `IS TRUE` keeps planners from searching the record by its expected values. A partial index of them, such as that of
    the claimed runs, looks best while it is empty, and is read completely by each statement once it is not.
    """
    condition, values = conditions(tables, kind, where(id=record_id))
    if not expect:
        return condition, values
    expected, more = conditions(tables, kind, expect)
    return f"{condition} AND ({expected}) IS TRUE", [*values, *more]


def _reads_other_records(where: Where) -> bool:
    return any(isinstance(condition.value, Among) for condition in where)


def _absent(tables: Tables, kind: type[Record], where: Where) -> Job[Any]:
    table = tables[kind]
    condition, parameters = conditions(tables, kind, where)
    sql = f'SELECT 1 FROM "{table.name}" WHERE {condition} LIMIT 1'
    mismatch = partial(RecordPresent, table.name, where)
    return _sending(table.statement(sql, parameters, match=Match.NONE, mismatch=mismatch))


# -- records


def _insert(tables: Tables, record: Record) -> Job[Any]:
    table = tables[type(record)]
    row = table.row(record)
    large = _large_input(table, record, row)
    insert = table.statement(table.insert, row, record)
    if large is None:
        return _sending(insert)
    return _sending(insert, Statement(tables.sql["insert_input"], (record.id, large)))


def _spend(tables: Tables, change: Spend) -> Job[Any]:
    table, spent = tables[DailySpending], change.spent
    row = table.row(spent)
    sums = ", ".join(f'"{name}" = "{table.name}"."{name}" + excluded."{name}"' for name in spent.SUMS)
    sql = f'{table.insert} ON CONFLICT ("id") DO UPDATE SET {sums} {table.returning}'

    def receive(rows: list[Any], _: int) -> None:
        change.after = table.record(rows[0])

    return _sending(table.statement(sql, row, spent, receive=receive))


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
    condition, more = _conditions_on_one(tables, kind, record_id, expect)
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    update = table.statement(sql, [*parameters, *more], values, **_one(table, record_id, expect))
    return _sending(update, *_without_separate_input(tables, kind, record_id, values))


def _without_separate_input(
    tables: Tables, kind: type[Record], record_id: str, values: Mapping[str, Any]
) -> list[Statement]:
    """Return the statement that deletes the separate row of an input, if the update of a run replaces its input."""
    return [Statement(tables.sql["delete_input"], (record_id,))] if kind is Run and "input" in values else []


def _update_all(tables: Tables, kind: type[Record], where: Where, values: Mapping[str, Any]) -> Job[Any]:
    table = tables[kind]
    assignments, parameters = _assignments(table, values)
    condition, more = _stable_conditions(tables, kind, where)
    sql = f'UPDATE "{table.name}" SET {assignments} WHERE {condition}'
    return _sending(table.statement(sql, [*parameters, *more], values))


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
    texts = [f"DELETE {selection}"]
    if kind is Run:
        runs = f"SELECT number AS run {selection}"
        texts = [
            tables.sql["delete_events"].replace(":runs", runs),
            f"DELETE FROM run_inputs WHERE run IN (SELECT id {selection})",
            *texts,
        ]
    return _sending(*(table.statement(text, parameters) for text in texts))


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
    condition, more = _conditions_on_one(tables, Run, change.run_id, change.expect)
    at = table.encoded("updated_at", change.at)
    sql = (
        f'UPDATE "{table.name}" SET {assignments}, "updated_at" = ?, "last_event" = "last_event" + ? '
        f"WHERE {condition} RETURNING last_event"
    )
    parameters += [at, count, *more]
    events = [Statement(tables.sql["insert_events"], (at, _body(tables, change), change.run_id))] if count else []

    def receive(rows: list[Any], _: int) -> None:
        change.written_events = _numbered(change, rows[0][0] - count + 1)

    update = table.statement(sql, parameters, values, **_one(table, change.run_id, change.expect), receive=receive)
    return _sending(update, *_without_separate_input(tables, Run, change.run_id, values), *events)


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
    """Return the job that inserts a delivery for each subscriber, in one statement."""
    table = tables[Delivery]
    delivery = delivery_of(change, "")
    row = dict(zip(table.names, table.row(delivery), strict=True))
    selected = {"id": "? || webhooks.id", "webhook_id": "webhooks.id"}
    columns = ", ".join(f'"{name}"' for name in table.names)
    values = ", ".join(selected.get(name, "?") for name in table.names)
    sql = f'INSERT INTO "{table.name}" ({columns}) SELECT {values} {tables.sql["subscribers"]}'
    parameters = [value for name, value in row.items() if name != "webhook_id"]

    def receive(_: list[Any], count: int) -> None:
        change.delivery_count = count

    subscriber = (change.workspace_id, change.event_type)
    return _sending(table.statement(sql, [*parameters, *subscriber], delivery, receive=receive))
