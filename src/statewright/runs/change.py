"""Changes to the ledger, as values. The ledger writes several changes in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from statewright.ids import new_checkpoint_id
from statewright.runs.records import DailySpending, Delivery, Json, Record, Run

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "contains", "any"]


class Condition(NamedTuple):
    """A condition on a column. `=` and `!=` may compare with None. The other comparisons with None are never true.

    `contains` looks for a text in the text of the column, whatever the case of ASCII letters. It reads all records that
    the other conditions leave. For `any` see `any_of`.
    """

    column: str
    operator: Operator
    value: Any
    """The value to compare with; for the operator `in`, a sequence of values or an `Among`."""


@dataclass(frozen=True, slots=True)
class Among:
    """The values that a column has in the matching records of a class, for the operator `in`."""

    record: type[Record]
    column: str
    where: Sequence[Condition]


Where = Sequence[Condition]
"""Conditions that a record must all meet."""


def where(**values: Any) -> list[Condition]:
    """Return the conditions that columns have certain values."""
    return [Condition(name, "=", value) for name, value in values.items()]


def any_of(*alternatives: Where) -> Condition:
    """Return the condition that a record meets all conditions of at least one of the alternatives."""
    return Condition("id", "any", alternatives)


@dataclass(frozen=True, slots=True)
class Plus:
    """A value in an update that increments the column by an amount."""

    amount: float


class RunEvent(NamedTuple):
    """A stored event of a run."""

    run_id: str
    seq: int
    """The number of the event in the log of its run: from 1, without gaps."""
    type: str
    payload: Mapping[str, Json]
    step_id: str | None
    at: datetime


class NewEvent(NamedTuple):
    """A new event of a run. The ledger assigns its number."""

    type: str
    payload: Mapping[str, Json]
    step_id: str | None = None


@dataclass(slots=True)
class Insert:
    """Add a record. Raises DuplicateRecord if another record has the same id, or the same values in unique columns."""

    record: Record


@dataclass(slots=True)
class Spend:
    """Add to the spending of a workspace on a day. The record of the day is created if it is missing."""

    spent: DailySpending
    """The amounts to add; see `DailySpending.of`."""
    after: DailySpending | None = None
    """The new record of the day, once the change is written."""


@dataclass(slots=True)
class Update:
    """Change columns of one record. Raises RecordConflict if it does not exist, or does not meet `expect`."""

    kind: type[Record]
    id: str
    values: Mapping[str, Any]
    expect: Where = ()


@dataclass(slots=True)
class UpdateAll:
    """Change columns of all matching records, if there are any. If they are runs, their versions are incremented."""

    kind: type[Record]
    where: Where
    values: Mapping[str, Any]


@dataclass(slots=True)
class Delete:
    """Delete the matching records."""

    kind: type[Record]
    where: Where


@dataclass(slots=True)
class Absent:
    """Refuse the transaction, by raising RecordPresent, if a record matches. Changes nothing."""

    kind: type[Record]
    where: Where


@dataclass(slots=True)
class Advance:
    """Change a run, increment its version, and add events to its log.

    Raises RecordConflict if the run does not exist, or does not meet `expect`.
    """

    run_id: str
    at: datetime
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: Sequence[NewEvent] = ()
    expect: Where = ()
    written_events: list[RunEvent] = field(default_factory=list[RunEvent])
    """The events with their numbers, once the change is written."""


@dataclass(slots=True)
class Announce:
    """Insert a delivery for each active webhook of a workspace that subscribes to a type of event."""

    workspace_id: str
    event_type: str
    data: Mapping[str, Json]
    at: datetime
    run_id: str | None = None
    id: str = field(default_factory=lambda: f"dlv_{new_checkpoint_id()}")
    """The prefix of the ids of the deliveries. Each delivery appends the id of its webhook."""
    delivery_count: int = 0
    """The number of inserted deliveries, once the change is written."""


@dataclass(slots=True)
class Forget:
    """Delete a run with all records that belong to it, but not its thread, which the saver stores."""

    run_id: str


Change = Insert | Spend | Update | UpdateAll | Delete | Absent | Advance | Announce | Forget


def delivery_of(change: Announce, webhook_id: str) -> Delivery:
    """Return the delivery that an announcement inserts for one webhook."""
    created = change.at.isoformat().replace("+00:00", "Z")
    body = {"type": change.event_type, "createdAt": created, "data": dict(change.data)}
    return Delivery(
        id=f"{change.id}.{webhook_id}",
        webhook_id=webhook_id,
        workspace_id=change.workspace_id,
        run_id=change.run_id,
        event_type=change.event_type,
        body=body,
        due_at=change.at,
        created_at=change.at,
    )


class Scope(NamedTuple):
    """The runs and threads that changes concern. Writes that concern the same run or thread do not overlap in time."""

    runs: frozenset[str]
    """Ids of runs."""
    threads: frozenset[tuple[str, str]]
    """Threads, each as the id of its workspace and its own id."""


def scope_of(changes: Sequence[Change]) -> Scope:
    """Return the runs and threads that changes name, either in their records or by `=` in their conditions.

    A change that depends on the records of a run, or on the runs on a thread, has to name the run or the thread.
    """
    runs, threads = set[str](), set[tuple[str, str]]()
    for change in changes:
        match change:
            case Insert(record):
                values: Mapping[str, Any] = {name: getattr(record, name, None) for name in _SCOPE_COLUMNS}
                cls = type(record)
            case Update(cls, record_id, _, expect):
                values = {**_equalities(expect), "id": record_id}
            case UpdateAll(cls, conditions) | Delete(cls, conditions) | Absent(cls, conditions):
                values = _equalities(conditions)
            case Advance(run_id) | Forget(run_id):
                cls, values = Run, {"id": run_id}
            case Announce() | Spend():
                continue
        run_id = values.get("id") if cls is Run else values.get("run_id")
        if run_id is not None:
            runs.add(run_id)
        if cls is Run and values.get("workspace_id") is not None and values.get("thread_id") is not None:
            threads.add((values["workspace_id"], values["thread_id"]))
    return Scope(frozenset(runs), frozenset(threads))


_SCOPE_COLUMNS: Final = ("id", "run_id", "workspace_id", "thread_id")


def _equalities(conditions: Where) -> dict[str, Any]:
    return {condition.column: condition.value for condition in conditions if condition.operator == "="}
