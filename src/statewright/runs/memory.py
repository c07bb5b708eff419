"""A ledger in memory, for tests and for services whose runs need not survive the process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter, eq, ge, gt, le, lt, ne
from typing import Any, Final, cast

from statewright.errors import DuplicateRecord, RecordConflict, RecordPresent, SerdeError
from statewright.ids import new_run_id
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
from statewright.runs.ledger import Bucket, ExcludedVersion, Group, NextDue, Order, QueueSize
from statewright.runs.records import OF_RUNS, DailySpending, Queue, Record, Run, Webhook, Workspace
from statewright.runs.records.record import R, checked_text, columns_of
from statewright.runs.status import ENDED, RunStatus
from statewright.text import ascii_lower

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
Table = dict[str, Any]
"""The records of one class, by id."""


class InMemoryLedger:
    """Stores records in dicts. Thread-safe. For use with an `InMemorySaver`."""

    def __init__(self) -> None:
        self._tables: dict[type[Record], Table] = defaultdict(dict)
        self._logs: dict[str, list[RunEvent]] = defaultdict(list)
        self._lock = threading.RLock()

    # -- writing

    def write(self, changes: Sequence[Change]) -> None:
        with self._lock:
            transaction = _Transaction(self._tables)
            for change in changes:
                transaction.apply(change)
            transaction.commit(self._logs)

    def job(self, changes: Sequence[Change]) -> Callable[[], None]:
        return lambda: self.write(changes)

    def claim(
        self,
        worker_id: str,
        now: datetime,
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        excluded_versions: Sequence[ExcludedVersion] = (),
    ) -> list[Run]:
        with self._lock:
            runs: Table = self._tables[Run]
            positions = {run_id: index for index, run_id in enumerate(runs)}  # the order of inserting, as dicts keep it
            due = [run for run in self._unclaimed(queues, excluded_versions) if run.due_at <= now]
            claimed: list[Run] = []
            for run in sorted(due, key=attrgetter("priority", "due_at", "id")):
                if len(claimed) < limit and self._may_claim(run, positions) and self._take_from_queue(run, now):
                    changes = {"claim": new_run_id(), "worker_id": worker_id, "due_at": None}
                    claimed.append(replace(run, **changes, version=run.version + 1))
                    runs[run.id] = claimed[-1]
            return [_copy(run) for run in claimed]

    def next_due(
        self, *, queues: Sequence[str] | None = None, excluded_versions: Sequence[ExcludedVersion] = ()
    ) -> NextDue:
        with self._lock:
            positions = {run_id: index for index, run_id in enumerate(self._tables[Run])}
            runs = self._unclaimed(queues, excluded_versions)
            free = [run.due_at for run in runs if self._may_claim(run, positions)]
            return NextDue(min(free, default=None), has_blocked=len(free) < len(runs))

    def queue_sizes(self, now: datetime) -> list[QueueSize]:
        with self._lock:
            runs_by_queue: dict[str, list[Any]] = defaultdict(list)
            for run in self._tables[Run].values():
                if run.status not in ENDED:
                    runs_by_queue[run.queue].append(run)
            return [_size_of(queue, runs, now) for queue, runs in sorted(runs_by_queue.items())]

    def _unclaimed(self, queues: Sequence[str] | None, excluded_versions: Sequence[ExcludedVersion]) -> list[Any]:
        """Return the unclaimed runs that a worker may claim when they are due."""
        return [
            run
            for run in self._tables[Run].values()
            if run.due_at is not None
            and run.claim is None
            and (queues is None or run.queue in queues)
            and not any(version.matches(run.queue, run.definition_id or "") for version in excluded_versions)
        ]

    def _may_claim(self, run: Run, positions: Mapping[str, int]) -> bool:
        """Return whether the limits of a run, and the runs before it, permit to claim it; see `Ledger.claim`."""
        others = [other for other in self._tables[Run].values() if other.id != run.id]
        claimed = [other for other in others if other.claim is not None]
        unended = [other for other in others if other.status not in ENDED]
        earlier = [other for other in unended if _rank(other, positions) < _rank(run, positions)]
        if any(_share_thread(other, run) or _share_sequence(other, run) for other in earlier):
            return False
        if run.concurrency_key is not None and run.concurrency_limit is not None:
            group = (run.workspace_id, run.concurrency_key)
            if sum((other.workspace_id, other.concurrency_key) == group for other in claimed) >= run.concurrency_limit:
                return False
        workspace = self._tables[Workspace].get(run.workspace_id)
        limit = workspace.max_running if workspace is not None else None
        return limit is None or sum(other.workspace_id == run.workspace_id for other in claimed) < limit

    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        """Take a token of a run's queue if it needs one. Return whether the limits of the queue permit to claim it."""
        queue = self._tables[Queue].get(run.queue)
        if queue is None:
            return True
        if queue.max_running is not None:
            claimed = sum(other.queue == run.queue and other.claim is not None for other in self._tables[Run].values())
            if claimed >= queue.max_running:
                return False
        if queue.starts_per_minute is None or run.begun:
            return True
        if queue.tokens_at(now) < 1:
            return False
        self._tables[Queue][queue.id] = queue.after_start(now)
        return True

    # -- reading

    def get(self, kind: type[R], id: str) -> R | None:  # noqa: A002  # the name of the column
        with self._lock:
            record = self._tables[kind].get(id)
            return _copy(record) if record is not None else None

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
            records = sorted(_Transaction(self._tables).find_matching(kind, where), key=attrgetter("id"))
            if order is not None:
                records.sort(key=_sort_key(order.column), reverse=order.descending)
            return [_copy(record) for record in records[cut_page(limit, offset)]]

    def count(self, kind: type[R], where: Where = ()) -> int:
        with self._lock:
            return len(_Transaction(self._tables).find_matching(kind, where))

    def groups(
        self,
        kind: type[R],
        by: Sequence[str],
        *,
        where: Where = (),
        sums: Sequence[str] = (),
        bucket: Bucket | None = None,
    ) -> list[Group]:
        groups: dict[tuple[Any, ...], list[R]] = defaultdict(list)
        for record in self.find(kind, where):
            key = tuple(getattr(record, column) for column in by)
            if bucket is not None:
                at = getattr(record, bucket.column)
                if at is None:
                    continue
                key = ((at - bucket.start) // timedelta(microseconds=bucket.microseconds), *key)
            groups[key].append(record)
        return [
            Group(key, len(records), tuple(_total(records, column) for column in sums))
            for key, records in sorted(
                groups.items(), key=lambda group: [(part is not None, part) for part in group[0]]
            )
        ]

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        with self._lock:
            log = self._logs[run_id][cut_page(limit, after)] if run_id in self._logs else []
            return [event._replace(payload=deepcopy(event.payload)) for event in log]


class _Transaction:
    """Uncommitted changes to the tables. It reads the tables as if the changes were committed."""

    def __init__(self, tables: dict[type[Record], Table]) -> None:
        self._tables = tables
        self._changed: dict[type[Record], dict[str, Any]] = defaultdict(dict)
        """For each class, the new and the changed records by id, and None for each deleted record."""
        self._advances: list[Advance] = []
        self._forgotten_run_ids: list[str] = []

    def commit(self, logs: dict[str, list[RunEvent]]) -> None:
        """Write the changes to the tables and the logs."""
        for cls, changed in self._changed.items():
            table = self._tables[cls]
            for record_id, record in changed.items():
                if record is None:
                    table.pop(record_id, None)
                else:
                    table[record_id] = record
        for run_id in self._forgotten_run_ids:
            logs.pop(run_id, None)
        for advance in self._advances:
            logs[advance.run_id].extend(advance.written_events)

    def apply(self, change: Change) -> None:
        match change:
            case Insert(record):
                self._insert(record)
            case Spend():
                self._spend(change)
            case Update(cls, record_id, values, expect):
                self._change(self._get_expected(cls, record_id, expect), values)
            case UpdateAll(cls, conditions, values):
                for record in self.find_matching(cls, conditions):
                    self._change(record, values)
            case Delete(cls, conditions):
                for record in self.find_matching(cls, conditions):
                    self._changed[cls][record.id] = None
            case Absent(cls, conditions):
                if self.find_matching(cls, conditions):
                    raise RecordPresent(cls.TABLE, conditions)
            case Advance():
                self._advance(change)
            case Announce():
                self._announce(change)
            case Forget(run_id):
                self._forget(run_id)

    # -- reading

    def find_matching(self, cls: type[R], conditions: Where) -> list[R]:
        """Return the records of a class that match all conditions."""
        table = {**self._tables.get(cls, {}), **self._changed.get(cls, {})}
        resolved = [self._resolve(condition) for condition in conditions]
        return [
            record
            for record in table.values()
            if record is not None and all(_meets(record, condition) for condition in resolved)
        ]

    def _resolve(self, condition: Condition) -> Condition:
        """Return a condition with the values that an `Among` stands for."""
        among = condition.value
        if condition.operator == "any":
            return condition._replace(value=[[self._resolve(inner) for inner in where] for where in among])
        if not isinstance(among, Among):
            return condition
        records = self.find_matching(among.record, among.where)
        return condition._replace(value={getattr(record, among.column) for record in records})

    def _find_current(self, cls: type[Record], record_id: str) -> Any:
        changed = self._changed[cls]
        return changed[record_id] if record_id in changed else self._tables.get(cls, {}).get(record_id)

    def _get_expected(self, cls: type[Record], record_id: str, expect: Where) -> Any:
        """Return a record. Raises RecordConflict if it does not exist or does not meet the conditions in `expect`."""
        record = self._find_current(cls, record_id)
        if record is None or not all(_meets(record, self._resolve(condition)) for condition in expect):
            raise RecordConflict(cls.TABLE, record_id, expect)
        return record

    # -- changing

    def _insert(self, record: Record) -> None:
        cls = type(record)
        _check_text_columns(record)
        if self._find_current(cls, record.id) is not None:
            raise DuplicateRecord(cls.TABLE, ("id",), (record.id,))
        self._check_unique(record, cls.UNIQUE)
        self._changed[cls][record.id] = _copy(record)

    def _spend(self, change: Spend) -> None:
        spent = change.spent
        before: DailySpending | None = self._find_current(DailySpending, spent.id)
        change.after = replace(spent) if before is None else before.plus(spent)
        self._changed[DailySpending][spent.id] = replace(change.after)

    def _check_unique(self, record: Record, groups: Sequence[tuple[str, ...]]) -> None:
        """Raise DuplicateRecord if another record has the same values in one of the groups of columns."""
        cls = type(record)
        for columns in groups:
            values = tuple(getattr(record, column) for column in columns)
            same = where(**dict(zip(columns, values, strict=True)))
            if None not in values and self.find_matching(cls, [*same, Condition("id", "!=", record.id)]):
                raise DuplicateRecord(cls.TABLE, columns, values)

    def _return_token(self, before: Run, after: Run) -> None:
        """Return the token of a start that did not take place to its queue."""
        queue: Queue | None = self._find_current(Queue, before.queue)
        is_released = before.claim is not None and after.claim is None
        if queue is not None and is_released and not after.begun and after.status is RunStatus.PENDING:
            self._changed[Queue][queue.id] = replace(queue, tokens=queue.tokens + 1)

    def _change(self, record: Any, values: Mapping[str, Any]) -> None:
        new_values = {
            name: getattr(record, name) + value.amount if isinstance(value, Plus) else deepcopy(value)
            for name, value in values.items()
        }
        if isinstance(record, Run):
            new_values["version"] = record.version + 1
        after = replace(record, **new_values)
        if isinstance(record, Run):
            self._return_token(record, after)
        _check_text_columns(after)
        self._check_unique(after, [columns for columns in after.UNIQUE if not new_values.keys().isdisjoint(columns)])
        self._changed[cast("type[Record]", type(record))][record.id] = after

    def _advance(self, change: Advance) -> None:
        run: Run = self._get_expected(Run, change.run_id, change.expect)
        change.written_events = [
            RunEvent(change.run_id, seq, event.type, deepcopy(event.payload), event.step_id, change.at)
            for seq, event in enumerate(change.events, run.last_event + 1)
        ]
        last_event = run.last_event + len(change.events)
        self._change(run, {**change.values, "updated_at": change.at, "last_event": last_event})
        self._advances.append(change)

    def _announce(self, change: Announce) -> None:
        change.delivery_count = 0
        for webhook in self.find_matching(Webhook, where(workspace_id=change.workspace_id, active=True)):
            if not webhook.events or change.event_type in webhook.events:
                self._insert(delivery_of(change, webhook.id))
                change.delivery_count += 1

    def _forget(self, run_id: str) -> None:
        self._changed[Run][run_id] = None
        for cls in OF_RUNS:
            for record in self.find_matching(cls, where(run_id=run_id)):
                self._changed[cls][record.id] = None
        self._forgotten_run_ids.append(run_id)
        self._advances = [advance for advance in self._advances if advance.run_id != run_id]


def _rank(run: Run, positions: Mapping[str, int]) -> tuple[bool, bool, int]:
    """Return the rank of a run in a queue. Claimed runs come first, then begun runs, then others as inserted."""
    return run.claim is None, run.status is RunStatus.PENDING, positions[run.id]


def _share_thread(first: Run, second: Run) -> bool:
    return (first.workspace_id, first.thread_id) == (second.workspace_id, second.thread_id)


def _share_sequence(first: Run, second: Run) -> bool:
    return first.sequence is not None and (first.workspace_id, first.sequence) == (second.workspace_id, second.sequence)


def _total(records: Sequence[Record], column: str) -> float:
    return float(sum(getattr(record, column) or 0 for record in records))


def _check_text_columns(record: Record) -> None:
    """Raise SerdeError for text that not every ledger can store."""
    for column in columns_of(type(record)):
        text = getattr(record, column.name)
        if column.kind == "text" and text is not None:
            try:
                checked_text(text)
            except ValueError as error:
                raise SerdeError(f"{record.TABLE}.{column.name}", str(error)) from error


def _copy(record: R) -> R:
    """Return a copy of a record, with deep copies of its JSON values."""
    json = [column.name for column in columns_of(type(record)) if column.kind in ("json", "names")]
    return replace(record, **{name: deepcopy(getattr(record, name)) for name in json})


def _meets(record: Record, condition: Condition) -> bool:
    actual, expected = getattr(record, condition.column), condition.value
    if condition.operator == "any":
        return any(all(_meets(record, inner) for inner in where) for where in expected)
    if condition.operator == "in":
        return actual in expected
    if condition.operator == "contains":
        return actual is not None and "\0" not in expected and ascii_lower(expected) in ascii_lower(actual)
    if condition.operator not in ("=", "!=") and (actual is None or expected is None):
        return False
    return _COMPARISONS[condition.operator](actual, expected)


def _sort_key(column: str) -> Callable[[Any], tuple[bool, Any]]:
    """Return a sort key in which None comes first, as in databases."""

    def key(record: Any) -> tuple[bool, Any]:
        value = getattr(record, column)
        return value is not None, value

    return key


def _size_of(queue: str, runs: Sequence[Run], now: datetime) -> QueueSize:
    """Return the size of a queue with these unfinished runs."""
    due = [run.due_at for run in runs if run.claim is None and run.due_at is not None and run.due_at <= now]
    return QueueSize(queue, len(due), min(due, default=None), sum(run.claim is not None for run in runs))
