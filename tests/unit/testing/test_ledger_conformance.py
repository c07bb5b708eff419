"""The conformance suite of ledgers: each of its tests detects a ledger that breaks its promise."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.checkpoint import Commit
from statewright.errors import DuplicateRecord, RecordConflict, StatewrightError
from statewright.runs import (
    ENDED,
    Absent,
    Advance,
    Among,
    Announce,
    Bucket,
    Change,
    Condition,
    DailySpending,
    Delete,
    Delivery,
    Forget,
    Group,
    InMemoryLedger,
    Insert,
    NextDue,
    Order,
    Plus,
    Queue,
    QueueSize,
    Run,
    RunEvent,
    RunLabel,
    RunStatus,
    Spend,
    Update,
    UpdateAll,
    Wait,
    Webhook,
    Workspace,
    where,
)
from statewright.testing import LedgerConformance

Factory = Callable[[], Any]


class Suite(LedgerConformance):
    """The suite for the ledgers of a factory."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory

    def make_ledger(self) -> Any:
        return self._factory()

    def make_saver(self, ledger: Any) -> Any:
        return getattr(ledger, "saver", InMemorySaver)()


def is_broken(factory: Factory, promise: str) -> bool:
    try:
        getattr(Suite(factory), promise)()
    except (AssertionError, KeyError, TypeError, AttributeError, StatewrightError):
        return True
    return False


class AltersChanges(InMemoryLedger):
    """Writes altered changes."""

    def altered(self, change: Change) -> Sequence[Change]:
        return [change]

    def write(self, changes: Sequence[Change]) -> None:
        super().write([altered for change in changes for altered in self.altered(change)])


class AltersQueries(InMemoryLedger):
    """Searches with altered conditions."""

    def altered_where(self, kind: Any, where: Any) -> Any:
        return where

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        return super().find(kind, self.altered_where(kind, where), **options)


# -- records


class NeverEmpty(InMemoryLedger):
    def count(self, kind: Any, where: Any = ()) -> int:
        return max(1, super().count(kind, where))


class LosesFields(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Wait):
            return [Insert(replace(change.record, schema=None))]
        return [change]


class LosesLongInputs(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Run) and len(str(change.record.input)) > 1000:
            return [Insert(replace(change.record, input={}))]
        return [change]


class RoundsBigIntegers(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Run):
            return [Insert(replace(change.record, output=_with_floats(change.record.output)))]
        return [change]


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value


class ReadsNanAsNone(InMemoryLedger):
    def get(self, kind: Any, id: str) -> Any:  # noqa: A002
        record = super().get(kind, id)
        if isinstance(record, Run) and isinstance(record.output, list):
            record.output = [None if math.isnan(number) else number for number in record.output]
        return record


class StoresTheCallersObject(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(changes)
        for change in changes:
            if isinstance(change, Insert):
                self._tables[type(change.record)][change.record.id] = change.record


class SharesJson(InMemoryLedger):
    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[str, Any] = {}

    def get(self, kind: Any, id: str) -> Any:  # noqa: A002
        record = super().get(kind, id)
        if isinstance(record, Run):
            record.output = self._shared.setdefault(id, record.output)
        return record


class DropsNullCharacters(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, RunLabel):
            return [Insert(replace(change.record, value=change.record.value.replace("\0", "")))]
        return [change]


class OverwritesOnInsert(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert):
            return [Delete(type(change.record), where(id=change.record.id)), change]
        return [change]


class IgnoresDuplicates(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        with suppress(DuplicateRecord):
            super().write(changes)


class TreatsNoneAsAValue(InMemoryLedger):
    """As a unique index does if None is stored as the empty text."""

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Insert):
                for columns in change.record.UNIQUE:
                    same = {name: getattr(change.record, name) for name in columns}
                    if self.count(type(change.record), where(**same)):
                        raise DuplicateRecord(change.record.TABLE, columns, list(same.values()))
            super().write([change])


class UpdatesEverything(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [UpdateAll(change.kind, (), change.values)] if isinstance(change, Update) else [change]


class NeverSetsNone(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Update):
            values = {name: value for name, value in change.values.items() if value is not None}
            return [replace(change, values=values)]
        return [change]


class IgnoresMissingRecords(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        try:
            super().write(changes)
        except RecordConflict as error:
            if "does not exist." not in str(error):
                raise


class IgnoresExpectations(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [replace(change, expect=())] if isinstance(change, (Update, Advance)) else [change]


class IgnoresAbsent(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [] if isinstance(change, Absent) else [change]


class AddsTwice(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Update) and any(isinstance(value, Plus) for value in change.values.values()):
            return [change, change]
        return [change]


class MixesSpendingOfWorkspaces(AltersChanges):
    """Adds up spending without regard to workspaces."""

    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Spend):
            return [Spend(replace(change.spent, id=change.spent.day, workspace_id=""))]
        return [change]


class CountsSpendingOnce(InMemoryLedger):
    """Counts the spending of a day only once per transaction."""

    def write(self, changes: Sequence[Change]) -> None:
        spent = {change.spent.id: change for change in changes if isinstance(change, Spend)}
        super().write(
            [change for change in changes if not isinstance(change, Spend) or spent[change.spent.id] is change]
        )


class DeletesSpendingWithRuns(AltersChanges):
    """Deletes the spending of a run together with the run."""

    def altered(self, change: Change) -> Sequence[Change]:
        return [change, Delete(DailySpending, ())] if isinstance(change, Forget) else [change]


class UpdatesOnlyTheFirst(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, UpdateAll):
            return [Update(change.kind, first.id, change.values) for first in self.find(change.kind, change.where)[:1]]
        return [change]


class NeverIncrementsVersions(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        before = {run.id: run.version for run in self.find(Run)}
        super().write(changes)
        for run in self._tables[Run].values():
            run.version = before.get(run.id, run.version)


class DeletesEverything(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [Delete(change.kind, ())] if isinstance(change, Delete) else [change]


class InsertsFirst(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(sorted(changes, key=lambda change: not isinstance(change, Insert)))


class WritesOneByOne(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            super().write([change])


class DeletesRunsOnAnEmptyWrite(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        if not changes:
            self._tables[Run].clear()
        super().write(changes)


class ReadsBeforeLocking(InMemoryLedger):
    """Concurrent additions can start from a value that others have already changed."""

    def write(self, changes: Sequence[Change]) -> None:
        if any(isinstance(change, Advance) for change in changes) and len(changes) == 1:
            before = deepcopy(dict(self._tables[Run]))
            threading.Event().wait(0.002)
            self._tables[Run] = before
        super().write(changes)


class ChecksBeforeLocking(InMemoryLedger):
    """Concurrent writes with the same expectation all find it fulfilled."""

    def __init__(self) -> None:
        super().__init__()
        self._checked = threading.Barrier(8, timeout=600)

    def write(self, changes: Sequence[Change]) -> None:
        if any(isinstance(change, Advance) for change in changes):
            self._checked.wait()
            changes = [replace(change, expect=()) if isinstance(change, Advance) else change for change in changes]
        super().write(changes)


# -- queries


class ComparesNone(AltersQueries):
    """Treats None as the smallest value, as sorting does."""

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        comparisons = [
            condition for condition in where if condition.operator in ("<", "<=") and condition.value is not None
        ]
        records = super().find(kind, where, **options)
        for condition in comparisons:
            records = super().find(kind, [Condition(condition.column, "=", None)]) + records
        return records


class IgnoresTimes(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        return [condition for condition in where if not isinstance(condition.value, datetime)]


class IgnoresCase(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        for condition in where:
            if condition.column == "value" and isinstance(condition.value, str):
                text = condition.value.lower()
                equal = [label.value for label in self.find(RunLabel) if label.value.lower() == text]
                return [Condition("value", "in", equal)]
        return where


class ChecksOnlyTheFirstCondition(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        return where[:1]


class IgnoresNoneInLists(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        return [
            condition._replace(value=[value for value in condition.value if value is not None])
            if condition.operator == "in" and not isinstance(condition.value, Among)
            else condition
            for condition in where
        ]


class IgnoresConditionsOfAmong(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        return [
            condition._replace(value=replace(condition.value, where=()))
            if isinstance(condition.value, Among)
            else condition
            for condition in where
        ]


class SortsNoneLast(InMemoryLedger):
    def find(self, kind: Any, where: Any = (), *, order: Any = None, **options: Any) -> Any:
        records = super().find(kind, where, order=order, **options)
        return (
            sorted(records, key=lambda record: getattr(record, order.column) is None) if order is not None else records
        )


class AppliesTheOffsetAfterTheLimit(InMemoryLedger):
    def find(self, kind: Any, where: Any = (), *, limit: Any = None, offset: int = 0, **options: Any) -> Any:
        return super().find(kind, where, **options)[:limit][offset:]


class CountsAll(InMemoryLedger):
    def count(self, kind: Any, where: Any = ()) -> int:
        return super().count(kind)


class GroupsByText(InMemoryLedger):
    def groups(self, kind: Any, by: Any, **options: Any) -> Any:
        groups = super().groups(kind, by, **options)
        return [
            group._replace(key=tuple(None if part is None else str(part) for part in group.key)) for group in groups
        ]


class SumsNone(InMemoryLedger):
    def groups(self, kind: Any, by: Any, *, where: Any = (), sums: Any = ()) -> Any:
        groups: list[Group] = []
        for group in super().groups(kind, by, where=where):
            members = super().find(kind, [*where, *(Condition(n, "=", k) for n, k in zip(by, group.key, strict=True))])
            groups.append(group._replace(sums=tuple(sum(getattr(member, name) for member in members) for name in sums)))
        return groups


# -- logs


class RenumbersEachPage(InMemoryLedger):
    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events = super().events(run_id, after=after, limit=limit)
        return [event._replace(seq=number) for number, event in enumerate(events, 1)]


class ReturnsWholeBatches(InMemoryLedger):
    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events = super().events(run_id)
        at = [event.at for event in events if event.seq > after][:1]
        return [event for event in events if event.seq > after or event.at in at][:limit]


class LosesPayloads(InMemoryLedger):
    def events(self, run_id: str, **options: Any) -> list[RunEvent]:
        return [event._replace(payload={}) for event in super().events(run_id, **options)]


class NeverSetsTheUpdateTime(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Advance):
            return [change, UpdateAll(Run, where(id=change.run_id), {"updated_at": change.at - timedelta(seconds=1)})]
        return [change]


class LogsRejectedEvents(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        try:
            super().write(changes)
        except RecordConflict:
            super().write([replace(change, expect=(), values={}) for change in changes if isinstance(change, Advance)])
            raise


class NumbersByTransaction(InMemoryLedger):
    """Numbers events from the state at the beginning of the transaction."""

    def write(self, changes: Sequence[Change]) -> None:
        before = {run.id: run.last_event for run in self.find(Run)}
        super().write(changes)
        for change in changes:
            if isinstance(change, Advance):
                first = before.get(change.run_id, 0) + 1
                change.written_events = [event._replace(seq=first + n) for n, event in enumerate(change.written_events)]


class NotifiesEveryWebhook(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Announce):
            return [UpdateAll(Webhook, where(workspace_id=change.workspace_id), {"events": []}), change]
        return [change]


class AnnouncesLast(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(sorted(changes, key=lambda change: isinstance(change, Announce)))


class DeletesOnlyTheRun(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [Delete(Run, where(id=change.run_id))] if isinstance(change, Forget) else [change]


class DeletesDeliveriesToo(AltersChanges):
    def altered(self, change: Change) -> Sequence[Change]:
        return [change, Delete(Delivery, where(run_id=change.run_id))] if isinstance(change, Forget) else [change]


class DeletesLogsLast(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(changes)
        for change in changes:
            if isinstance(change, Forget):
                self._logs.pop(change.run_id, None)


# -- claims


class AltersClaims(InMemoryLedger):
    """Claims runs as if they were altered."""

    def altered(self, run: Run) -> Run:
        return run

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        runs = self._tables[Run]
        kept, changed = dict(runs), {run.id: self.altered(run) for run in runs.values()}
        self._tables[Run] = dict(changed)
        claimed = super().claim(worker_id, now, limit, **served)
        self._tables[Run] = kept
        for run in claimed:
            before = kept[run.id]
            kept[run.id] = replace(
                before, claim=run.claim, worker_id=worker_id, due_at=None, version=before.version + 1
            )
        return [replace(kept[run.id]) for run in claimed]


class IgnoresDueTimes(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        for run in self._tables[Run].values():
            run.due_at = now if run.due_at is not None and run.due_at <= now else run.due_at
        return super().claim(worker_id, now, limit, **served)


class ReusesClaims(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        claimed = super().claim(worker_id, now, limit, **served)
        for run in claimed:
            self._tables[Run][run.id].claim = run.claim = worker_id
        return claimed


class ClaimsOneMore(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        return super().claim(worker_id, now, limit + 1, **served)


class IgnoresThreads(AltersClaims):
    def altered(self, run: Run) -> Run:
        return replace(run, thread_id=run.id)


class IgnoresSequences(AltersClaims):
    def altered(self, run: Run) -> Run:
        return replace(run, sequence=None)


class ClaimsInOrderOfIds(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        self._tables[Run] = dict(sorted(self._tables[Run].items()))
        return super().claim(worker_id, now, limit, **served)


class TreatsStartedRunsAsPending(AltersClaims):
    def altered(self, run: Run) -> Run:
        return run if run.status in ENDED else replace(run, status=RunStatus.PENDING)


class IgnoresClaimedRuns(AltersClaims):
    def altered(self, run: Run) -> Run:
        return run if run.claim is None else replace(run, claim=None, due_at=None)


class BlocksOnlyPendingRuns(AltersClaims):
    def altered(self, run: Run) -> Run:
        return run if run.status is RunStatus.PENDING else replace(run, thread_id=run.id, sequence=None)


class IgnoresConcurrencyKeys(AltersClaims):
    def altered(self, run: Run) -> Run:
        return replace(run, concurrency_key=None)


class MixesWorkspaces(AltersClaims):
    def altered(self, run: Run) -> Run:
        return replace(run, workspace_id="one")


class IgnoresRunningLimits(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        kept, self._tables[Workspace] = self._tables[Workspace], {}
        claimed = super().claim(worker_id, now, limit, **served)
        self._tables[Workspace] = kept
        return claimed


class ScansTooFewRuns(InMemoryLedger):
    """Looks only at the first due runs, even if they are blocked."""

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        due = [run for run in self.find(Run, order=Order("due_at")) if run.due_at is not None and run.due_at <= now]
        rest = {run.id for run in due[limit + 20 :]}
        kept = self._tables[Run]
        self._tables[Run] = {name: run for name, run in kept.items() if name not in rest}
        claimed = super().claim(worker_id, now, limit, **served)
        self._tables[Run] = {**kept, **self._tables[Run]}
        return claimed


class RoundsPeriods(InMemoryLedger):
    """Assigns records to the nearest period."""

    def groups(self, kind: Any, by: Any, *, bucket: Bucket | None = None, **options: Any) -> Any:
        if bucket is not None:
            bucket = bucket._replace(start=bucket.start - timedelta(seconds=bucket.seconds / 2))
        return super().groups(kind, by, bucket=bucket, **options)


class ComparesTextsByCase(InMemoryLedger):
    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        parts = [(condition.column, condition.value) for condition in where if condition.operator == "contains"]
        records = super().find(kind, where, **options)
        return [record for record in records if all(part in getattr(record, column) for column, part in parts)]


class IgnoresAlternatives(AltersQueries):
    def altered_where(self, kind: Any, where: Any) -> Any:
        return [condition for condition in where if condition.operator != "any"]


class IgnoresPriorities(AltersClaims):
    def altered(self, run: Run) -> Run:
        return replace(run, priority=0)


class ServesEveryRun(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        return super().claim(worker_id, now, limit)


class IgnoresQueueLimits(InMemoryLedger):
    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        return True


class IgnoresRates(InMemoryLedger):
    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        return super()._take_from_queue(replace(run, begun=True), now)


class KeepsEveryToken(InMemoryLedger):
    """Permits all starts of a long pause at once."""

    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        queue = self._tables[Queue].get(run.queue)
        if queue is not None and queue.tokens_at(now) >= 1 and now - queue.filled_at > timedelta(seconds=5):
            return True
        return super()._take_from_queue(run, now)


class FillsNewQueues(InMemoryLedger):
    """Permits all starts of a second at once if a queue is new."""

    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        queue = self._tables[Queue].get(run.queue)
        if queue is not None and queue.filled_at is None:
            self._tables[Queue][queue.id] = replace(queue, filled_at=now - timedelta(seconds=1))
        return super()._take_from_queue(run, now)


class CountsTimeTwice(InMemoryLedger):
    """Adds tokens again for a time that an earlier claim has seen."""

    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        is_taken = super()._take_from_queue(run, now)
        queue = self._tables[Queue].get(run.queue)
        if queue is not None:
            self._tables[Queue][queue.id] = replace(queue, filled_at=now)
        return is_taken


class WaitsForTheClock(InMemoryLedger):
    """Starts nothing until the clock has the time again that it had before it was set back."""

    def _take_from_queue(self, run: Run, now: datetime) -> bool:
        queue = self._tables[Queue].get(run.queue)
        is_ahead = queue is not None and queue.filled_at is not None and queue.filled_at > now
        return not is_ahead and super()._take_from_queue(run, now)


class LosesTokens(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        before = dict(self._tables[Queue])
        super().write(changes)
        self._tables[Queue].update(before)


class FindsEveryDueTime(InMemoryLedger):
    def next_due(self, **served: Any) -> NextDue:
        return super().next_due()


class NeverReportsBlockedRuns(InMemoryLedger):
    def next_due(self, **served: Any) -> NextDue:
        return super().next_due(**served)._replace(has_blocked=False)


class OverlooksWaitingRuns(InMemoryLedger):
    def queue_sizes(self, now: datetime) -> list[QueueSize]:
        return [size for size in super().queue_sizes(now) if size.due or size.claimed]


class CountsOnlyFreeRuns(InMemoryLedger):
    def queue_sizes(self, now: datetime) -> list[QueueSize]:
        return [
            size._replace(due=min(size.due, sum(run.queue == size.queue for run in self._free(now))))
            for size in super().queue_sizes(now)
        ]

    def _free(self, now: datetime) -> list[Run]:
        positions = {run_id: index for index, run_id in enumerate(self._tables[Run])}
        return [run for run in self._unclaimed(None, ()) if run.due_at <= now and self._may_claim(run, positions)]


class BlocksForEver(InMemoryLedger):
    """Never claims a run that once had to wait."""

    def __init__(self) -> None:
        super().__init__()
        self._blocked: set[str] = set()

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        claimed = super().claim(worker_id, now, limit, **served)
        self._blocked.update(run.id for run in self._tables[Run].values() if run.due_at and run.claim is None)
        return claimed

    def _may_claim(self, run: Run, positions: Any) -> bool:
        return run.id not in self._blocked and super()._may_claim(run, positions)


class ClaimsWaitingRunsLast(InMemoryLedger):
    """Considers runs that once had to wait only if it finds too few others."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[str] = set()

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        claimed = super().claim(worker_id, now, limit, **served)
        if len(claimed) < limit:
            self._waiting.clear()
            claimed += super().claim(worker_id, now, limit - len(claimed), **served)
        return claimed

    def _may_claim(self, run: Run, positions: Any) -> bool:
        if run.id not in self._waiting and super()._may_claim(run, positions):
            return True
        self._waiting.add(run.id)
        return False


class ReservesPlaces(InMemoryLedger):
    """Keeps the place below a limit for a run that was cancelled."""

    def _may_claim(self, run: Run, positions: Any) -> bool:
        cancelled = any(other.status is RunStatus.CANCELLED for other in self._tables[Run].values())
        return not cancelled and super()._may_claim(run, positions)


class SelectsBeforeLocking(InMemoryLedger):
    """Two workers that claim at the same time can claim the same runs."""

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> list[Run]:
        selected = self.find(Run, [Condition("due_at", "<=", now), *where(claim=None)], limit=limit)
        threading.Event().wait(0.01)
        super().write([UpdateAll(Run, where(id=run.id), {"claim": worker_id, "due_at": None}) for run in selected])
        return [run for run in self.find(Run) if run.id in {claimed.id for claimed in selected}]


# -- commits


class SkipsJobs(InMemorySaver):
    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        return super().commit(commit)

    def save_results(self, *args: Any, also: Any = (), **options: Any) -> None:
        super().save_results(*args, **options)


class RunsJobsFirst(InMemorySaver):
    """Runs the jobs even if the commit is rejected."""

    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        for job in also:
            job()
        return super().commit(commit)

    def save_results(self, *args: Any, also: Any = (), **options: Any) -> None:
        for job in also:
            job()
        super().save_results(*args, **options)


class RunsJobsLast(InMemorySaver):
    """Saves the commit even if a job is rejected."""

    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        checkpoint_id = super().commit(commit)
        for job in also:
            job()
        return checkpoint_id

    def save_results(self, *args: Any, also: Any = (), **options: Any) -> None:
        super().save_results(*args, **options)
        for job in also:
            job()


class DeletesBeforeJobs(InMemorySaver):
    """Deletes a thread even if a job is rejected."""

    def delete_thread(self, thread_id: str, *, also: Any = ()) -> None:
        super().delete_thread(thread_id)
        for job in also:
            job()


class SkipsJobsOfMissingThreads(InMemorySaver):
    def delete_thread(self, thread_id: str, *, also: Any = ()) -> None:
        if self.load(thread_id) is not None:
            super().delete_thread(thread_id, also=also)


class LedgerThatSkipsJobs(InMemoryLedger):
    saver = SkipsJobs


class LedgerThatRunsJobsFirst(InMemoryLedger):
    saver = RunsJobsFirst


class LedgerThatRunsJobsLast(InMemoryLedger):
    saver = RunsJobsLast


class LedgerThatDeletesBeforeJobs(InMemoryLedger):
    saver = DeletesBeforeJobs


class LedgerThatSkipsJobsOfMissingThreads(InMemoryLedger):
    saver = SkipsJobsOfMissingThreads


BROKEN_LEDGERS: dict[Factory, str] = {
    NeverEmpty: "test_a_new_ledger_is_empty",
    LosesFields: "test_records_of_every_class_are_read_as_they_were_written",
    RoundsBigIntegers: "test_json_is_read_as_it_was_written",
    LosesLongInputs: "test_a_long_input_is_kept_until_it_is_replaced_or_its_run_is_deleted",
    ReadsNanAsNone: "test_nan_and_infinity_are_stored_or_refused",
    StoresTheCallersObject: "test_records_are_copies",
    SharesJson: "test_json_values_are_copies",
    OverwritesOnInsert: "test_ids_are_unique",
    IgnoresDuplicates: "test_unique_columns_are_unique",
    TreatsNoneAsAValue: "test_none_is_not_a_duplicate_in_a_unique_column",
    UpdatesEverything: "test_an_update_changes_the_named_columns_only",
    IgnoresMissingRecords: "test_a_missing_record_cannot_be_changed",
    IgnoresExpectations: "test_an_update_is_refused_unless_its_conditions_hold",
    IgnoresAbsent: "test_changes_may_require_the_absence_of_records",
    AddsTwice: "test_an_update_may_add_to_a_number",
    MixesSpendingOfWorkspaces: "test_spending_adds_up_by_workspace_and_day",
    CountsSpendingOnce: "test_spending_twice_in_one_transaction_counts_twice",
    DeletesSpendingWithRuns: "test_spending_is_kept_when_the_run_is_deleted",
    UpdatesOnlyTheFirst: "test_all_matching_records_are_updated",
    NeverIncrementsVersions: "test_the_version_of_a_run_grows_with_every_change",
    DeletesEverything: "test_all_matching_records_are_deleted",
    InsertsFirst: "test_changes_are_made_in_their_order",
    WritesOneByOne: "test_if_one_change_fails_none_is_made",
    DeletesRunsOnAnEmptyWrite: "test_an_empty_transaction_changes_nothing",
    ReadsBeforeLocking: "test_writes_may_be_concurrent",
    ChecksBeforeLocking: "test_one_of_several_competing_writes_wins",
    ComparesNone: "test_every_comparison_selects_the_matching_records",
    IgnoresTimes: "test_records_can_be_selected_by_every_kind_of_column",
    DropsNullCharacters: "test_text_with_a_null_character_is_refused",
    IgnoresCase: "test_texts_are_compared_character_by_character",
    ChecksOnlyTheFirstCondition: "test_conditions_are_combined_with_and",
    IgnoresNoneInLists: "test_records_can_be_selected_by_one_of_several_values",
    IgnoresConditionsOfAmong: "test_records_can_be_selected_by_values_of_other_records",
    SortsNoneLast: "test_records_are_sorted_by_a_column_and_by_their_ids",
    AppliesTheOffsetAfterTheLimit: "test_results_are_limited_and_offset",
    CountsAll: "test_records_are_counted",
    GroupsByText: "test_records_are_grouped_and_their_columns_summed",
    SumsNone: "test_none_adds_nothing_to_a_sum",
    RenumbersEachPage: "test_events_are_read_in_pages",
    ReturnsWholeBatches: "test_events_are_read_in_pages",
    LosesPayloads: "test_events_are_read_as_they_were_written",
    NeverSetsTheUpdateTime: "test_an_advance_changes_the_run",
    LogsRejectedEvents: "test_a_worker_that_lost_its_claim_adds_no_events",
    NumbersByTransaction: "test_one_transaction_may_advance_several_times",
    NotifiesEveryWebhook: "test_subscribed_webhooks_get_a_delivery",
    AnnouncesLast: "test_a_webhook_receives_events_from_its_own_transaction_on",
    DeletesOnlyTheRun: "test_a_run_is_deleted_with_its_records",
    DeletesDeliveriesToo: "test_a_run_is_deleted_with_its_records",
    DeletesLogsLast: "test_a_run_may_be_deleted_and_recreated_in_one_transaction",
    IgnoresDueTimes: "test_due_runs_are_claimed_in_the_order_of_their_due_times",
    ReusesClaims: "test_a_claimed_run_names_its_worker",
    ClaimsOneMore: "test_no_more_runs_are_claimed_than_the_limit",
    IgnoresThreads: "test_runs_of_a_thread_are_claimed_one_after_another",
    IgnoresSequences: "test_runs_of_a_sequence_are_claimed_one_after_another",
    ClaimsInOrderOfIds: "test_runs_of_a_thread_or_sequence_start_in_the_order_in_which_they_were_written",
    TreatsStartedRunsAsPending: "test_a_started_run_comes_before_a_pending_one",
    IgnoresClaimedRuns: "test_a_claimed_run_blocks_its_thread_and_sequence",
    BlocksOnlyPendingRuns: "test_one_of_several_started_runs_is_claimed",
    IgnoresConcurrencyKeys: "test_claims_respect_the_concurrency_limit_of_a_key",
    MixesWorkspaces: "test_claims_respect_the_concurrency_limit_of_a_key",
    IgnoresRunningLimits: "test_claims_respect_the_running_limit_of_a_workspace",
    ScansTooFewRuns: "test_blocked_runs_do_not_delay_others",
    SelectsBeforeLocking: "test_a_run_is_claimed_by_one_worker",
    RoundsPeriods: "test_records_are_grouped_by_periods",
    ComparesTextsByCase: "test_texts_can_be_selected_by_a_part",
    IgnoresAlternatives: "test_records_can_be_selected_by_alternatives",
    IgnoresPriorities: "test_runs_with_a_lower_priority_number_are_claimed_first",
    ServesEveryRun: "test_a_worker_claims_only_runs_of_its_queues_and_versions",
    IgnoresQueueLimits: "test_claims_respect_the_running_limit_of_a_queue",
    IgnoresRates: "test_no_more_runs_of_a_queue_start_than_its_rate_allows",
    KeepsEveryToken: "test_as_many_runs_start_at_once_as_the_rate_allows_in_a_second",
    FillsNewQueues: "test_a_queue_whose_rate_is_new_starts_one_run_at_first",
    CountsTimeTwice: "test_claims_with_a_time_before_that_of_earlier_ones_start_no_more_runs_than_the_rate_allows",
    WaitsForTheClock: "test_a_clock_that_is_set_back_stops_no_queue",
    LosesTokens: "test_a_start_that_did_not_take_place_gives_its_token_back",
    FindsEveryDueTime: "test_the_next_due_time_is_that_of_the_runs_that_a_worker_serves",
    NeverReportsBlockedRuns: "test_runs_that_wait_for_others_are_reported",
    BlocksForEver: "test_a_run_that_had_to_wait_is_claimed_as_soon_as_it_may",
    ClaimsWaitingRunsLast: "test_a_run_that_a_limit_permits_again_comes_before_later_ones",
    ReservesPlaces: "test_a_run_that_may_be_next_and_is_cancelled_makes_room_for_another",
    OverlooksWaitingRuns: "test_the_sizes_of_queues_count_due_and_claimed_runs_and_name_all_queues_of_unfinished_runs",
    LedgerThatSkipsJobs: "test_a_job_is_committed_with_a_checkpoint",
    LedgerThatRunsJobsFirst: "test_a_job_is_not_committed_without_its_checkpoint",
    LedgerThatRunsJobsLast: "test_a_checkpoint_is_not_committed_without_its_job",
    LedgerThatDeletesBeforeJobs: "test_a_job_is_atomic_with_a_deletion",
    LedgerThatSkipsJobsOfMissingThreads: "test_a_job_is_committed_even_if_the_deleted_thread_does_not_exist",
}
FURTHER_BROKEN_LEDGERS: dict[Factory, str] = {
    CountsOnlyFreeRuns: "test_the_sizes_of_queues_count_due_and_claimed_runs_and_name_all_queues_of_unfinished_runs",
    ClaimsWaitingRunsLast: "test_no_limit_is_passed_over_for_ever_while_other_runs_are_due",
    MixesWorkspaces: "test_runs_of_a_sequence_are_claimed_one_after_another",
    NeverSetsNone: "test_an_update_changes_the_named_columns_only",
    IgnoresDuplicates: "test_an_update_must_not_violate_a_unique_column",
    LosesPayloads: "test_events_are_numbered_without_gaps",
    LedgerThatRunsJobsLast: "test_a_job_is_atomic_with_saved_results",
}
"""Ledgers that break another promise as well, or one that is covered above."""
CASES = [*BROKEN_LEDGERS.items(), *FURTHER_BROKEN_LEDGERS.items()]


@pytest.mark.parametrize(("ledger", "promise"), CASES, ids=[kind.__name__ for kind, _ in CASES])
def test_a_ledger_that_breaks_a_promise_fails_its_test(ledger: Factory, promise: str) -> None:
    assert is_broken(ledger, promise)


def test_every_test_of_the_suite_detects_a_broken_ledger() -> None:
    tests = {name for name in dir(LedgerConformance) if name.startswith("test_")}
    assert tests == {promise for _, promise in CASES}


def test_a_subclass_of_the_suite_must_define_its_factories() -> None:
    with pytest.raises(NotImplementedError):
        LedgerConformance().make_ledger()
    with pytest.raises(NotImplementedError):
        LedgerConformance().make_saver(InMemoryLedger())


def test_a_broken_ledger_passes_the_tests_of_its_other_promises() -> None:
    for broken, promise in ((LosesFields, "test_ids_are_unique"), (IgnoresConcurrencyKeys, "test_records_are_counted")):
        assert not is_broken(broken, promise)
