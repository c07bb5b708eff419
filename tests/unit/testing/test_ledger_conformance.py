"""The suite for ledgers: each of its tests finds ledgers that break a promise, in the way in which one might."""

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
    Change,
    Condition,
    DailySpending,
    Delete,
    Delivery,
    Forget,
    Group,
    InMemoryLedger,
    Insert,
    Order,
    Plus,
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

Make = Callable[[], Any]


class Suite(LedgerConformance):
    """The suite for what a function makes."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def make_ledger(self) -> Any:
        return self._make()

    def make_saver(self, ledger: Any) -> Any:
        return getattr(ledger, "saver", InMemorySaver)()


def is_broken(make: Make, promise: str) -> bool:
    try:
        getattr(Suite(make), promise)()
    except (AssertionError, KeyError, TypeError, AttributeError, StatewrightError):
        return True
    return False


class Rewrites(InMemoryLedger):
    """Makes other changes than it is told."""

    def other(self, change: Change) -> Sequence[Change]:
        return [change]

    def write(self, changes: Sequence[Change]) -> None:
        super().write([other for change in changes for other in self.other(change)])


class Refinds(InMemoryLedger):
    """Finds something else than it is asked for."""

    def other_where(self, kind: Any, where: Any) -> Any:
        return where

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        return super().find(kind, self.other_where(kind, where), **options)


# -- records


class NeverEmpty(InMemoryLedger):
    def count(self, kind: Any, where: Any = ()) -> int:
        return max(1, super().count(kind, where))


class ForgetsFields(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Wait):
            return [Insert(replace(change.record, schema=None))]
        return [change]


class CutsInputs(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Run) and len(str(change.record.input)) > 1000:
            return [Insert(replace(change.record, input={}))]
        return [change]


class KeepsNoBigNumbers(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert) and isinstance(change.record, Run):
            return [Insert(replace(change.record, output=_with_floats(change.record.output)))]
        return [change]


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(one) for one in value]
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value


class TakesNanForNone(InMemoryLedger):
    def get(self, kind: Any, id: str) -> Any:  # noqa: A002
        found = super().get(kind, id)
        if isinstance(found, Run) and isinstance(found.output, list):
            found.output = [None if math.isnan(one) else one for one in found.output]
        return found


class KeepsWhatItIsGiven(InMemoryLedger):
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
        found = super().get(kind, id)
        if isinstance(found, Run):
            found.output = self._shared.setdefault(id, found.output)
        return found


class Replaces(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Insert):
            return [Delete(type(change.record), where(id=change.record.id)), change]
        return [change]


class TakesNamesTwice(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        with suppress(DuplicateRecord):
            super().write(changes)


class TakesNoneForAValue(InMemoryLedger):
    """As a unique index does where None is the empty text."""

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Insert):
                for columns in change.record.UNIQUE:
                    same = {name: getattr(change.record, name) for name in columns}
                    if self.count(type(change.record), where(**same)):
                        raise DuplicateRecord(change.record.TABLE, columns, list(same.values()))
            super().write([change])


class UpdatesEverything(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [UpdateAll(change.kind, (), change.values)] if isinstance(change, Update) else [change]


class NeverSetsNone(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Update):
            values = {name: one for name, one in change.values.items() if one is not None}
            return [replace(change, values=values)]
        return [change]


class UpdatesNobodyQuietly(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        try:
            super().write(changes)
        except RecordConflict as error:
            if "does not exist." not in str(error):
                raise


class ExpectsNothing(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [replace(change, expect=())] if isinstance(change, (Update, Advance)) else [change]


class NeedsNoAbsence(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [] if isinstance(change, Absent) else [change]


class AddsTwice(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Update) and any(isinstance(one, Plus) for one in change.values.values()):
            return [change, change]
        return [change]


class SpendsForEverybody(Rewrites):
    """Knows no workspaces in what is spent."""

    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Spend):
            return [Spend(replace(change.spent, id=change.spent.day, workspace_id=""))]
        return [change]


class SpendsOnce(InMemoryLedger):
    """Counts what is spent on a day once in each transaction."""

    def write(self, changes: Sequence[Change]) -> None:
        spent = {change.spent.id: change for change in changes if isinstance(change, Spend)}
        super().write(
            [change for change in changes if not isinstance(change, Spend) or spent[change.spent.id] is change]
        )


class ForgetsWhatWasSpent(Rewrites):
    """Forgets what was spent with a run."""

    def other(self, change: Change) -> Sequence[Change]:
        return [change, Delete(DailySpending, ())] if isinstance(change, Forget) else [change]


class UpdatesTheFirst(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, UpdateAll):
            return [Update(change.kind, one.id, change.values) for one in self.find(change.kind, change.where)[:1]]
        return [change]


class CountsNoVersions(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        before = {run.id: run.version for run in self.find(Run)}
        super().write(changes)
        for run in self._tables[Run].values():
            run.version = before.get(run.id, run.version)


class DeletesEverything(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [Delete(change.kind, ())] if isinstance(change, Delete) else [change]


class InsertsFirst(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(sorted(changes, key=lambda change: not isinstance(change, Insert)))


class WritesOneByOne(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            super().write([change])


class NeedsChanges(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        if not changes:
            self._tables[Run].clear()
        super().write(changes)


class ReadsBeforeItLocks(InMemoryLedger):
    """Of several that add at the same time, some add to what was there before the others."""

    def write(self, changes: Sequence[Change]) -> None:
        if any(isinstance(one, Advance) for one in changes) and len(changes) == 1:
            before = deepcopy(dict(self._tables[Run]))
            threading.Event().wait(0.002)
            self._tables[Run] = before
        super().write(changes)


class ChecksBeforeItLocks(InMemoryLedger):
    """Of several that expect the same at the same time, all see the same."""

    def __init__(self) -> None:
        super().__init__()
        self._looked = threading.Barrier(8, timeout=600)

    def write(self, changes: Sequence[Change]) -> None:
        if any(isinstance(one, Advance) for one in changes):
            self._looked.wait()
            changes = [replace(one, expect=()) if isinstance(one, Advance) else one for one in changes]
        super().write(changes)


# -- questions


class ComparesNone(Refinds):
    """Takes None for the smallest value, as sorting does."""

    def find(self, kind: Any, where: Any = (), **options: Any) -> Any:
        least = [one for one in where if one.operator in ("<", "<=") and one.value is not None]
        found = super().find(kind, where, **options)
        for one in least:
            found = super().find(kind, [Condition(one.column, "=", None)]) + found
        return found


class IgnoresTime(Refinds):
    def other_where(self, kind: Any, where: Any) -> Any:
        return [one for one in where if not isinstance(one.value, datetime)]


class SeesNoCase(Refinds):
    def other_where(self, kind: Any, where: Any) -> Any:
        for one in where:
            if one.column == "value" and isinstance(one.value, str):
                same = [label.value for label in self.find(RunLabel) if label.value.lower() == one.value.lower()]
                return [Condition("value", "in", same)]
        return where


class LooksAtTheFirst(Refinds):
    def other_where(self, kind: Any, where: Any) -> Any:
        return where[:1]


class KnowsNoNoneInLists(Refinds):
    def other_where(self, kind: Any, where: Any) -> Any:
        return [
            one._replace(value=[value for value in one.value if value is not None])
            if one.operator == "in" and not isinstance(one.value, Among)
            else one
            for one in where
        ]


class FindsAmongAll(Refinds):
    def other_where(self, kind: Any, where: Any) -> Any:
        return [
            one._replace(value=replace(one.value, where=())) if isinstance(one.value, Among) else one for one in where
        ]


class NoneComesLast(InMemoryLedger):
    def find(self, kind: Any, where: Any = (), *, order: Any = None, **options: Any) -> Any:
        found = super().find(kind, where, order=order, **options)
        return sorted(found, key=lambda one: getattr(one, order.column) is None) if order is not None else found


class SkipsAfterTheLimit(InMemoryLedger):
    def find(self, kind: Any, where: Any = (), *, limit: Any = None, offset: int = 0, **options: Any) -> Any:
        return super().find(kind, where, **options)[:limit][offset:]


class CountsAll(InMemoryLedger):
    def count(self, kind: Any, where: Any = ()) -> int:
        return super().count(kind)


class GroupsTexts(InMemoryLedger):
    def groups(self, kind: Any, by: Any, **options: Any) -> Any:
        found = super().groups(kind, by, **options)
        return [one._replace(key=tuple(None if part is None else str(part) for part in one.key)) for one in found]


class SumsNone(InMemoryLedger):
    def groups(self, kind: Any, by: Any, *, where: Any = (), sums: Any = ()) -> Any:
        found: list[Group] = []
        for one in super().groups(kind, by, where=where):
            members = super().find(kind, [*where, *(Condition(n, "=", k) for n, k in zip(by, one.key, strict=True))])
            found.append(one._replace(sums=tuple(sum(getattr(each, name) for each in members) for name in sums)))
        return found


# -- logs


class NumbersAnew(InMemoryLedger):
    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        found = super().events(run_id, after=after, limit=limit)
        return [one._replace(seq=place) for place, one in enumerate(found, 1)]


class TellsWholeBatches(InMemoryLedger):
    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        found = super().events(run_id)
        at = [one.at for one in found if one.seq > after][:1]
        return [one for one in found if one.seq > after or one.at in at][:limit]


class ForgetsPayloads(InMemoryLedger):
    def events(self, run_id: str, **options: Any) -> list[RunEvent]:
        return [one._replace(payload={}) for one in super().events(run_id, **options)]


class LeavesTheTime(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Advance):
            return [change, UpdateAll(Run, where(id=change.run_id), {"updated_at": change.at - timedelta(seconds=1)})]
        return [change]


class LogsWhatItRefuses(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        try:
            super().write(changes)
        except RecordConflict:
            super().write([replace(one, expect=(), values={}) for one in changes if isinstance(one, Advance)])
            raise


class NumbersByTransaction(InMemoryLedger):
    """Counts on from where the run stood when the transaction began."""

    def write(self, changes: Sequence[Change]) -> None:
        before = {run.id: run.last_event for run in self.find(Run)}
        super().write(changes)
        for change in changes:
            if isinstance(change, Advance):
                first = before.get(change.run_id, 0) + 1
                change.written_events = [one._replace(seq=first + n) for n, one in enumerate(change.written_events)]


class TellsEverybody(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        if isinstance(change, Announce):
            return [UpdateAll(Webhook, where(workspace_id=change.workspace_id), {"events": []}), change]
        return [change]


class AnnouncesLast(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(sorted(changes, key=lambda change: isinstance(change, Announce)))


class ForgetsOnlyTheRun(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [Delete(Run, where(id=change.run_id))] if isinstance(change, Forget) else [change]


class ForgetsDeliveries(Rewrites):
    def other(self, change: Change) -> Sequence[Change]:
        return [change, Delete(Delivery, where(run_id=change.run_id))] if isinstance(change, Forget) else [change]


class ForgetsLast(InMemoryLedger):
    def write(self, changes: Sequence[Change]) -> None:
        super().write(changes)
        for change in changes:
            if isinstance(change, Forget):
                self._logs.pop(change.run_id, None)


# -- claims


class Claims(InMemoryLedger):
    """Shares out runs as they would be if something were different."""

    def different(self, run: Run) -> Run:
        return run

    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        runs = self._tables[Run]
        kept, changed = dict(runs), {one.id: self.different(one) for one in runs.values()}
        self._tables[Run] = dict(changed)
        taken = super().claim(worker_id, now, limit)
        self._tables[Run] = kept
        for one in taken:
            before = kept[one.id]
            kept[one.id] = replace(
                before, claim=one.claim, worker_id=worker_id, due_at=None, version=before.version + 1
            )
        return [replace(kept[one.id]) for one in taken]


class TakesByIds(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        for run in self._tables[Run].values():
            run.due_at = now if run.due_at is not None and run.due_at <= now else run.due_at
        return super().claim(worker_id, now, limit)


class TakesWithOneClaim(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        taken = super().claim(worker_id, now, limit)
        for one in taken:
            self._tables[Run][one.id].claim = one.claim = worker_id
        return taken


class TakesOneMore(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        return super().claim(worker_id, now, limit + 1)


class KnowsNoThreads(Claims):
    def different(self, run: Run) -> Run:
        return replace(run, thread_id=run.id)


class KnowsNoQueues(Claims):
    def different(self, run: Run) -> Run:
        return replace(run, queue=None)


class OrdersByIds(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        self._tables[Run] = dict(sorted(self._tables[Run].items()))
        return super().claim(worker_id, now, limit)


class ForgetsWhoHasBegun(Claims):
    def different(self, run: Run) -> Run:
        return run if run.status in ENDED else replace(run, status=RunStatus.PENDING)


class ForgetsWhoIsAtWork(Claims):
    def different(self, run: Run) -> Run:
        return run if run.claim is None else replace(run, claim=None, due_at=None)


class LetsAllGoOn(Claims):
    """Keeps off those who have not begun, and nobody else."""

    def different(self, run: Run) -> Run:
        return run if run.status is RunStatus.PENDING else replace(run, thread_id=run.id, queue=None)


class KnowsNoKeys(Claims):
    def different(self, run: Run) -> Run:
        return replace(run, concurrency_key=None)


class OneForAllWorkspaces(Claims):
    def different(self, run: Run) -> Run:
        return replace(run, workspace_id="one")


class KnowsNoLimits(InMemoryLedger):
    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        kept, self._tables[Workspace] = self._tables[Workspace], {}
        taken = super().claim(worker_id, now, limit)
        self._tables[Workspace] = kept
        return taken


class LooksAtAFew(InMemoryLedger):
    """Looks only at the first that are due, whether there is room for them or not."""

    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        due = [one for one in self.find(Run, order=Order("due_at")) if one.due_at is not None and one.due_at <= now]
        rest = {one.id for one in due[limit + 20 :]}
        kept = self._tables[Run]
        self._tables[Run] = {name: one for name, one in kept.items() if name not in rest}
        taken = super().claim(worker_id, now, limit)
        self._tables[Run] = {**kept, **self._tables[Run]}
        return taken


class LooksBeforeItTakes(InMemoryLedger):
    """Two workers that look at the same time see the same."""

    def claim(self, worker_id: str, now: datetime, limit: int) -> list[Run]:
        seen = self.find(Run, [Condition("due_at", "<=", now), *where(claim=None)], limit=limit)
        threading.Event().wait(0.01)
        super().write([UpdateAll(Run, where(id=one.id), {"claim": worker_id, "due_at": None}) for one in seen])
        return [one for one in self.find(Run) if one.id in {each.id for each in seen}]


# -- commits


class AlsoNothing(InMemorySaver):
    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        return super().commit(commit)

    def save_results(self, *given: Any, also: Any = (), **options: Any) -> None:
        super().save_results(*given, **options)


class AlsoFirst(InMemorySaver):
    """Does what comes along whether the commit is right or not."""

    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        for one in also:
            one()
        return super().commit(commit)

    def save_results(self, *given: Any, also: Any = (), **options: Any) -> None:
        for one in also:
            one()
        super().save_results(*given, **options)


class AlsoLast(InMemorySaver):
    """Saves what comes along to be refused."""

    def commit(self, commit: Commit, *, also: Any = ()) -> Any:
        identity = super().commit(commit)
        for one in also:
            one()
        return identity

    def save_results(self, *given: Any, also: Any = (), **options: Any) -> None:
        super().save_results(*given, **options)
        for one in also:
            one()


class DeletesFirst(InMemorySaver):
    """Deletes a thread though what comes along is refused."""

    def delete_thread(self, thread_id: str, *, also: Any = ()) -> None:
        super().delete_thread(thread_id)
        for one in also:
            one()


class DeletesOnlyWhatIsThere(InMemorySaver):
    """Does nothing at all where there is no thread."""

    def delete_thread(self, thread_id: str, *, also: Any = ()) -> None:
        if self.load(thread_id) is not None:
            super().delete_thread(thread_id, also=also)


class BesideNothing(InMemoryLedger):
    saver = AlsoNothing


class BesideFirst(InMemoryLedger):
    saver = AlsoFirst


class BesideLast(InMemoryLedger):
    saver = AlsoLast


class BesideDeletion(InMemoryLedger):
    saver = DeletesFirst


class BesideThreadsOnly(InMemoryLedger):
    saver = DeletesOnlyWhatIsThere


BROKEN: dict[Make, str] = {
    NeverEmpty: "test_a_new_ledger_is_empty",
    ForgetsFields: "test_records_of_every_class_are_read_as_they_were_written",
    KeepsNoBigNumbers: "test_json_is_read_as_it_was_written",
    CutsInputs: "test_a_long_input_is_kept_until_it_is_replaced_or_its_run_is_deleted",
    TakesNanForNone: "test_nan_and_infinity_are_stored_or_refused",
    KeepsWhatItIsGiven: "test_records_are_copies",
    SharesJson: "test_json_values_are_copies",
    Replaces: "test_ids_are_unique",
    TakesNamesTwice: "test_unique_columns_are_unique",
    TakesNoneForAValue: "test_none_is_not_a_duplicate_in_a_unique_column",
    UpdatesEverything: "test_an_update_changes_the_named_columns_only",
    UpdatesNobodyQuietly: "test_a_missing_record_cannot_be_changed",
    ExpectsNothing: "test_an_update_is_refused_unless_its_conditions_hold",
    NeedsNoAbsence: "test_changes_may_require_the_absence_of_records",
    AddsTwice: "test_an_update_may_add_to_a_number",
    SpendsForEverybody: "test_spending_adds_up_by_workspace_and_day",
    SpendsOnce: "test_spending_twice_in_one_transaction_counts_twice",
    ForgetsWhatWasSpent: "test_spending_is_kept_when_the_run_is_deleted",
    UpdatesTheFirst: "test_all_matching_records_are_updated",
    CountsNoVersions: "test_the_version_of_a_run_grows_with_every_change",
    DeletesEverything: "test_all_matching_records_are_deleted",
    InsertsFirst: "test_changes_are_made_in_their_order",
    WritesOneByOne: "test_if_one_change_fails_none_is_made",
    NeedsChanges: "test_an_empty_transaction_changes_nothing",
    ReadsBeforeItLocks: "test_writes_may_be_concurrent",
    ChecksBeforeItLocks: "test_one_of_several_competing_writes_wins",
    ComparesNone: "test_every_comparison_selects_the_matching_records",
    IgnoresTime: "test_records_can_be_selected_by_every_kind_of_column",
    SeesNoCase: "test_texts_are_compared_character_by_character",
    LooksAtTheFirst: "test_conditions_are_combined_with_and",
    KnowsNoNoneInLists: "test_records_can_be_selected_by_one_of_several_values",
    FindsAmongAll: "test_records_can_be_selected_by_values_of_other_records",
    NoneComesLast: "test_records_are_sorted_by_a_column_and_by_their_ids",
    SkipsAfterTheLimit: "test_results_are_limited_and_offset",
    CountsAll: "test_records_are_counted",
    GroupsTexts: "test_records_are_grouped_and_their_columns_summed",
    SumsNone: "test_none_adds_nothing_to_a_sum",
    NumbersAnew: "test_events_are_read_in_pages",
    TellsWholeBatches: "test_events_are_read_in_pages",
    ForgetsPayloads: "test_events_are_read_as_they_were_written",
    LeavesTheTime: "test_an_advance_changes_the_run",
    LogsWhatItRefuses: "test_a_worker_that_lost_its_claim_adds_no_events",
    NumbersByTransaction: "test_one_transaction_may_advance_several_times",
    TellsEverybody: "test_subscribed_webhooks_get_a_delivery",
    AnnouncesLast: "test_a_webhook_receives_events_from_its_own_transaction_on",
    ForgetsOnlyTheRun: "test_a_run_is_deleted_with_its_records",
    ForgetsDeliveries: "test_a_run_is_deleted_with_its_records",
    ForgetsLast: "test_a_run_may_be_deleted_and_recreated_in_one_transaction",
    TakesByIds: "test_due_runs_are_claimed_in_the_order_of_their_due_times",
    TakesWithOneClaim: "test_a_claimed_run_names_its_worker",
    TakesOneMore: "test_no_more_runs_are_claimed_than_the_limit",
    KnowsNoThreads: "test_runs_of_a_thread_are_claimed_one_after_another",
    KnowsNoQueues: "test_runs_of_a_queue_are_claimed_one_after_another",
    OrdersByIds: "test_runs_of_a_thread_or_queue_start_in_the_order_in_which_they_were_written",
    ForgetsWhoHasBegun: "test_a_started_run_comes_before_a_pending_one",
    ForgetsWhoIsAtWork: "test_a_claimed_run_blocks_its_thread_and_queue",
    LetsAllGoOn: "test_one_of_several_started_runs_is_claimed",
    KnowsNoKeys: "test_claims_respect_the_concurrency_limit_of_a_key",
    OneForAllWorkspaces: "test_claims_respect_the_concurrency_limit_of_a_key",
    KnowsNoLimits: "test_claims_respect_the_running_limit_of_a_workspace",
    LooksAtAFew: "test_blocked_runs_do_not_delay_others",
    LooksBeforeItTakes: "test_a_run_is_claimed_by_one_worker",
    BesideNothing: "test_a_job_is_committed_with_a_checkpoint",
    BesideFirst: "test_a_job_is_not_committed_without_its_checkpoint",
    BesideLast: "test_a_checkpoint_is_not_committed_without_its_job",
    BesideDeletion: "test_a_job_is_atomic_with_a_deletion",
    BesideThreadsOnly: "test_a_job_is_committed_even_if_the_deleted_thread_does_not_exist",
}
ALSO: dict[Make, str] = {
    OneForAllWorkspaces: "test_runs_of_a_queue_are_claimed_one_after_another",
    NeverSetsNone: "test_an_update_changes_the_named_columns_only",
    TakesNamesTwice: "test_an_update_must_not_violate_a_unique_column",
    ForgetsPayloads: "test_events_are_numbered_without_gaps",
    BesideLast: "test_a_job_is_atomic_with_saved_results",
}
"""Broken ledgers whose other promises are above."""
CASES = [*BROKEN.items(), *ALSO.items()]


@pytest.mark.parametrize(("ledger", "promise"), CASES, ids=[kind.__name__ for kind, _ in CASES])
def test_a_ledger_that_breaks_a_promise_fails_the_test_of_that_promise(ledger: Make, promise: str) -> None:
    assert is_broken(ledger, promise)


def test_every_test_of_the_suite_finds_a_broken_ledger() -> None:
    tests = {name for name in dir(LedgerConformance) if name.startswith("test_")}
    assert tests == {promise for _, promise in CASES}


def test_a_ledger_has_to_be_made_by_those_who_derive_the_suite() -> None:
    with pytest.raises(NotImplementedError):
        LedgerConformance().make_ledger()
    with pytest.raises(NotImplementedError):
        LedgerConformance().make_saver(InMemoryLedger())


def test_what_a_broken_ledger_leaves_alone_is_not_broken() -> None:
    for broken, promise in ((ForgetsFields, "test_ids_are_unique"), (KnowsNoKeys, "test_records_are_counted")):
        assert not is_broken(broken, promise)
