"""Changes of the ledger, as values. Several changes are written in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from statewright.ids import draw_checkpoint_id
from statewright.runs.records import DailySpending, Delivery, Json, Record, Run

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in"]


class Condition(NamedTuple):
    """A condition on a column. `=` and `!=` match None; comparisons with None are never true."""

    column: str
    operator: Operator
    value: Any
    """For `in` a sequence, or an `Among`."""


@dataclass(frozen=True, slots=True)
class Among:
    """The values that a column has in records of another class."""

    record: type[Record]
    column: str
    where: Sequence[Condition]


Where = Sequence[Condition]


def where(**values: Any) -> list[Condition]:
    """Return the conditions that columns are equal to values."""
    return [Condition(name, "=", value) for name, value in values.items()]


@dataclass(frozen=True, slots=True)
class Plus:
    """As a value of an update: increments the column."""

    amount: float


class RunEvent(NamedTuple):
    """A stored event of a run."""

    run_id: str
    seq: int
    """Its number in the log of the run, from 1, without gaps."""
    type: str
    payload: Mapping[str, Json]
    step_id: str | None
    at: datetime


class NewEvent(NamedTuple):
    """A new event of a run; the ledger assigns its number."""

    type: str
    payload: Mapping[str, Json]
    step_id: str | None = None


@dataclass(slots=True)
class Insert:
    """Add a record. Raises DuplicateRecord if one has the same id, or the same values in unique columns."""

    record: Record


@dataclass(slots=True)
class Spend:
    """Add to the spending of a workspace on a day; the record of the day is created if it is missing."""

    spent: DailySpending
    """The amounts to add; see `DailySpending.of`."""
    after: DailySpending | None = None
    """The new record of the day, once the change is written."""


@dataclass(slots=True)
class Update:
    """Change columns of one record. Raises RecordConflict if there is none, or it does not meet `expect`."""

    kind: type[Record]
    id: str
    values: Mapping[str, Any]
    expect: Where = ()


@dataclass(slots=True)
class UpdateAll:
    """Change columns of all matching records, of which there may be none. Increments the version of runs."""

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
    """Change nothing, but raise RecordPresent if a record matches, so that the transaction is refused."""

    kind: type[Record]
    where: Where


@dataclass(slots=True)
class Advance:
    """Change a run, increment its version, and add events to its log. Raises RecordConflict like `Update`."""

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
    id: str = field(default_factory=lambda: f"dlv_{draw_checkpoint_id()}")
    """The beginning of the ids of its deliveries, each of which adds the id of its webhook."""
    delivery_count: int = 0
    """The number of inserted deliveries, once the change is written."""


@dataclass(slots=True)
class Forget:
    """Delete a run with everything that belongs to it, except its thread, which the saver owns."""

    run_id: str


Change = Insert | Spend | Update | UpdateAll | Delete | Absent | Advance | Announce | Forget


def delivery_of(change: Announce, webhook_id: str) -> Delivery:
    """Return the delivery of an announcement to one webhook."""
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
    """The runs and threads that changes concern. Writes that concern one of them happen one after another."""

    runs: frozenset[str]
    threads: frozenset[tuple[str, str]]
    """Workspaces and ids."""


def scope_of(changes: Sequence[Change]) -> Scope:
    """Return the runs and threads that changes name: in their records, or by equality in their conditions.

    A change that depends on records of a run, or on the runs of a thread, has to name the run or the thread.
    """
    runs, threads = set[str](), set[tuple[str, str]]()
    for change in changes:
        match change:
            case Insert(record):
                values: Mapping[str, Any] = {name: getattr(record, name, None) for name in _NAMING}
                kind = type(record)
            case Update(kind, record_id, _, expect):
                values = {**_equalities(expect), "id": record_id}
            case UpdateAll(kind, conditions) | Delete(kind, conditions) | Absent(kind, conditions):
                values = _equalities(conditions)
            case Advance(run_id) | Forget(run_id):
                kind, values = Run, {"id": run_id}
            case Announce() | Spend():
                continue
        run_id = values.get("id") if kind is Run else values.get("run_id")
        if run_id is not None:
            runs.add(run_id)
        if kind is Run and values.get("workspace_id") is not None and values.get("thread_id") is not None:
            threads.add((values["workspace_id"], values["thread_id"]))
    return Scope(frozenset(runs), frozenset(threads))


_NAMING: Final = ("id", "run_id", "workspace_id", "thread_id")


def _equalities(conditions: Where) -> dict[str, Any]:
    return {condition.column: condition.value for condition in conditions if condition.operator == "="}
