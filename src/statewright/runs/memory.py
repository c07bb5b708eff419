"""A ledger in memory, for tests and for services whose runs need not survive them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from operator import attrgetter, eq, ge, gt, le, lt, ne
from typing import Any, Final, cast

from statewright.errors import DuplicateRecord, RecordConflict, RecordPresent
from statewright.ids import draw_run_id
from statewright.page import cut_page
from statewright.runs.change import (
    Absent,
    Advance,
    Among,
    Announce,
    Change,
    Condition,
    Delete,
    Forget,
    Insert,
    Plus,
    RunEvent,
    Spend,
    Update,
    UpdateAll,
    Where,
    delivery_of,
    where,
)
from statewright.runs.ledger import Group, Order
from statewright.runs.records import OF_RUNS, DailySpending, Record, Run, Webhook, Workspace
from statewright.runs.records.record import R, columns_of
from statewright.runs.status import ENDED, RunStatus

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
Table = dict[str, Any]


class InMemoryLedger:
    """Stores records in dicts. Thread-safe. Goes with an `InMemorySaver`."""

    def __init__(self) -> None:
        self._tables: dict[type[Record], Table] = defaultdict(dict)
        self._logs: dict[str, list[RunEvent]] = defaultdict(list)
        self._lock = threading.RLock()

    # -- writing

    def write(self, changes: Sequence[Change]) -> None:
        with self._lock:
            draft = _Draft(self._tables)
            for change in changes:
                draft.make(change)
            draft.keep(self._logs)

    def job(self, changes: Sequence[Change]) -> Callable[[], None]:
        return lambda: self.write(changes)

    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        with self._lock:
            runs: Table = self._tables[Run]
            due = [run for run in runs.values() if run.due_at is not None and run.due_at <= now and run.claim is None]
            written = {identity: place for place, identity in enumerate(runs)}  # a change leaves a run where it stands
            taken: list[Run] = []
            for run in sorted(due, key=attrgetter("due_at", "id")):
                if len(taken) < limit and self._may_begin(run, written):
                    changes = {"claim": draw_run_id(), "worker_id": worker_id, "due_at": None}
                    taken.append(replace(run, **changes, version=run.version + 1))
                    runs[run.id] = taken[-1]
            return [_copied(run) for run in taken]

    def _may_begin(self, run: Run, written: Mapping[str, int]) -> bool:
        others = [one for one in self._tables[Run].values() if one.id != run.id]
        at_work = [one for one in others if one.claim is not None]
        in_line = [one for one in others if one.status not in ENDED]
        ahead = [one for one in in_line if _rank(one, written) < _rank(run, written)]
        if any(_on_one_thread(one, run) or _in_one_queue(one, run) for one in ahead):
            return False
        if run.concurrency_key is not None and run.concurrency_limit is not None:
            same = (run.workspace_id, run.concurrency_key)
            if sum((one.workspace_id, one.concurrency_key) == same for one in at_work) >= run.concurrency_limit:
                return False
        workspace = self._tables[Workspace].get(run.workspace_id)
        most = workspace.max_running if workspace is not None else None
        return most is None or sum(one.workspace_id == run.workspace_id for one in at_work) < most

    # -- reading

    def get(self, kind: type[R], id: str) -> R | None:  # noqa: A002  # what it is called everywhere
        with self._lock:
            found = self._tables[kind].get(id)
            return _copied(found) if found is not None else None

    def find(
        self,
        kind: type[R],
        where: Where = (),
        *,
        order: Order | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[R]:
        with self._lock:
            found = sorted(_Draft(self._tables).fitting(kind, where), key=attrgetter("id"))
            if order is not None:
                found.sort(key=_place(order.column), reverse=order.descending)
            return [_copied(one) for one in found[cut_page(limit, offset)]]

    def count(self, kind: type[R], where: Where = ()) -> int:
        with self._lock:
            return len(_Draft(self._tables).fitting(kind, where))

    def groups(self, kind: type[R], by: Sequence[str], *, where: Where = (), sums: Sequence[str] = ()) -> list[Group]:
        found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
        for record in self.find(kind, where):
            found[tuple(getattr(record, column) for column in by)].append(record)
        return [
            Group(key, len(some), tuple(float(sum(getattr(one, column) or 0 for one in some)) for column in sums))
            for key, some in sorted(found.items(), key=lambda one: [(part is not None, part) for part in one[0]])
        ]

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        with self._lock:
            log = self._logs[run_id][cut_page(limit, after)] if run_id in self._logs else []
            return [one._replace(payload=deepcopy(one.payload)) for one in log]


class _Draft:
    """The tables with uncommitted changes."""

    def __init__(self, tables: dict[type[Record], Table]) -> None:
        self._tables = tables
        self._changed: dict[type[Record], dict[str, Any]] = defaultdict(dict)
        """By table the records that are new or changed, and None for those that go."""
        self._advanced: list[Advance] = []
        self._forgotten: list[str] = []

    def keep(self, logs: dict[str, list[RunEvent]]) -> None:
        """Commit the changes."""
        for kind, changed in self._changed.items():
            table = self._tables[kind]
            for identity, record in changed.items():
                if record is None:
                    table.pop(identity, None)
                else:
                    table[identity] = record
        for run_id in self._forgotten:
            logs.pop(run_id, None)
        for advance in self._advanced:
            logs[advance.run_id].extend(advance.written)

    def make(self, change: Change) -> None:
        match change:
            case Insert(record):
                self._insert(record)
            case Spend():
                self._spend(change)
            case Update(kind, identity, values, expect):
                self._update(kind, identity, values, expect)
            case UpdateAll(kind, conditions, values):
                for record in self.fitting(kind, conditions):
                    self._change(record, values)
            case Delete(kind, conditions):
                for record in self.fitting(kind, conditions):
                    self._changed[kind][record.id] = None
            case Absent(kind, conditions):
                if self.fitting(kind, conditions):
                    raise RecordPresent(kind.TABLE, conditions)
            case Advance():
                self._advance(change)
            case Announce():
                self._announce(change)
            case Forget(run_id):
                self._forget(run_id)

    # -- reading

    def fitting(self, kind: type[R], conditions: Where) -> list[R]:
        """Return the matching records of a table."""
        table = {**self._tables.get(kind, {}), **self._changed.get(kind, {})}
        meant = [self._resolved(one) for one in conditions]
        return [one for one in table.values() if one is not None and all(_fits(one, each) for each in meant)]

    def _resolved(self, condition: Condition) -> Condition:
        """Return a condition whose value is at hand."""
        among = condition.value
        if not isinstance(among, Among):
            return condition
        return condition._replace(value={getattr(one, among.column) for one in self.fitting(among.record, among.where)})

    def _kept(self, kind: type[Record], identity: str) -> Any:
        changed = self._changed[kind]
        return changed[identity] if identity in changed else self._tables.get(kind, {}).get(identity)

    def _one(self, kind: type[Record], identity: str, expect: Where) -> Any:
        record = self._kept(kind, identity)
        if record is None or not all(_fits(record, self._resolved(one)) for one in expect):
            raise RecordConflict(kind.TABLE, identity, expect)
        return record

    # -- changing

    def _insert(self, record: Record) -> None:
        kind = type(record)
        if self._kept(kind, record.id) is not None:
            raise DuplicateRecord(kind.TABLE, ("id",), (record.id,))
        self._check_unique(record, kind.UNIQUE)
        self._changed[kind][record.id] = _copied(record)

    def _spend(self, change: Spend) -> None:
        spent = change.spent
        before: DailySpending | None = self._kept(DailySpending, spent.id)
        change.after = replace(spent) if before is None else before.plus(spent)
        self._changed[DailySpending][spent.id] = replace(change.after)

    def _check_unique(self, record: Record, groups: Sequence[tuple[str, ...]]) -> None:
        """Raise DuplicateRecord if another record has the same values."""
        kind = type(record)
        for columns in groups:
            values = tuple(getattr(record, column) for column in columns)
            same = where(**dict(zip(columns, values, strict=True)))
            if None not in values and self.fitting(kind, [*same, Condition("id", "!=", record.id)]):
                raise DuplicateRecord(kind.TABLE, columns, values)

    def _update(self, kind: type[Record], identity: str, values: Mapping[str, Any], expect: Where) -> None:
        self._change(self._one(kind, identity, expect), values)

    def _change(self, record: Any, values: Mapping[str, Any]) -> Any:
        found = {
            name: getattr(record, name) + value.amount if isinstance(value, Plus) else deepcopy(value)
            for name, value in values.items()
        }
        if isinstance(record, Run):
            found["version"] = record.version + 1
        after = replace(record, **found)
        self._check_unique(after, [columns for columns in after.UNIQUE if not found.keys().isdisjoint(columns)])
        self._changed[cast("type[Record]", type(record))][record.id] = after
        return after

    def _advance(self, change: Advance) -> None:
        run: Run = self._one(Run, change.run_id, change.expect)
        number = run.last_event
        change.written = [
            RunEvent(change.run_id, number + place, one.type, deepcopy(one.payload), one.step_id, change.at)
            for place, one in enumerate(change.events, 1)
        ]
        self._change(run, {**change.values, "updated_at": change.at, "last_event": number + len(change.events)})
        self._advanced.append(change)

    def _announce(self, change: Announce) -> None:
        change.made = 0
        for webhook in self.fitting(Webhook, where(workspace_id=change.workspace_id, active=True)):
            if not webhook.events or change.event_type in webhook.events:
                self._insert(delivery_of(change, webhook.id))
                change.made += 1

    def _forget(self, run_id: str) -> None:
        self._changed[Run][run_id] = None
        for kind in OF_RUNS:
            for record in self.fitting(kind, where(run_id=run_id)):
                self._changed[kind][record.id] = None
        self._forgotten.append(run_id)
        self._advanced = [one for one in self._advanced if one.run_id != run_id]


def _rank(run: Run, written: Mapping[str, int]) -> tuple[bool, bool, int]:
    """Return the position of a run in a queue: claimed runs come first, then begun ones, then others as written."""
    return run.claim is None, run.status is RunStatus.PENDING, written[run.id]


def _on_one_thread(one: Run, other: Run) -> bool:
    return (one.workspace_id, one.thread_id) == (other.workspace_id, other.thread_id)


def _in_one_queue(one: Run, other: Run) -> bool:
    return one.queue is not None and (one.workspace_id, one.queue) == (other.workspace_id, other.queue)


def _copied(record: R) -> R:
    """Copy a record, with deep copies of its JSON values."""
    json = [column.name for column in columns_of(type(record)) if column.kind == "json"]
    return replace(record, **{name: deepcopy(getattr(record, name)) for name in json})


def _fits(record: Record, condition: Condition) -> bool:
    found, value = getattr(record, condition.column), condition.value
    if condition.operator == "in":
        return found in value
    if condition.operator not in ("=", "!=") and (found is None or value is None):
        return False
    return _COMPARED[condition.operator](found, value)


def _place(column: str) -> Callable[[Any], tuple[bool, Any]]:
    """Return a sort key in which None comes first, as in databases."""

    def place(record: Any) -> tuple[bool, Any]:
        value = getattr(record, column)
        return value is not None, value

    return place
