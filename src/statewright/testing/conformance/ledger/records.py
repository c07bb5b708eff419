"""Tests of records, which must be read as they were written, and of transactions, which must be atomic."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from statewright.errors import DuplicateRecord, RecordConflict, RecordPresent, SerdeError
from statewright.futures import resolve
from statewright.runs import (
    ENDED,
    RECORDS,
    Absent,
    Advance,
    Announce,
    Change,
    Condition,
    DailySpending,
    Delete,
    Delivery,
    Forget,
    Insert,
    NewEvent,
    Plus,
    Run,
    RunLabel,
    RunStatus,
    Schedule,
    StepRun,
    Update,
    UpdateAll,
    Webhook,
    Workspace,
    columns_of,
    where,
)
from statewright.testing.conformance.assertions import raises, run_concurrently
from statewright.testing.conformance.ledger.samples import (
    NESTED,
    NOW,
    NUMBERS,
    LedgerSuite,
    distinct_values,
    full_record,
    get_record,
    ids,
    label,
    minimal_record,
    optional_columns,
    run,
    spending,
    unique_columns,
    version_of,
    write,
)


class RecordTests(LedgerSuite):
    """The changes of a transaction are made in order, and either all of them are made or none."""

    def test_a_new_ledger_is_empty(self) -> None:
        ledger = self.make_ledger()
        for record_type in RECORDS:
            assert resolve(ledger.get(record_type, "1")) is None
            assert list(resolve(ledger.find(record_type))) == []
            assert resolve(ledger.count(record_type)) == 0
        assert list(resolve(ledger.events("r1"))) == []
        assert list(resolve(ledger.claim("w", NOW, 10))) == []

    def test_records_of_every_class_are_read_as_they_were_written(self) -> None:
        for record_type in RECORDS:
            full, empty = full_record(record_type, "1"), minimal_record(record_type, "2")
            for column in columns_of(record_type):
                if column.kind in ("text", "sealed") and column.name != "id" and not column.optional:
                    setattr(empty, column.name, "")
            ledger = self.ledger_of(full, empty)
            assert get_record(ledger, record_type, "1") == full
            assert list(resolve(ledger.find(record_type))) == [full, empty]
            for record in resolve(ledger.find(record_type)):
                for column in columns_of(record_type):
                    value = getattr(record, column.name)
                    assert value is None or column.kind in ("json", "names") or isinstance(value, column.type)

    def test_json_is_read_as_it_was_written(self) -> None:
        deep: Any = "bottom"
        for _ in range(200):
            deep = [deep]
        values: list[Any] = [None, {}, [], "", 0, False, 0.0, "null", NUMBERS, NESTED, [NESTED, [NESTED]], deep]
        ledger = self.ledger_of(*(run(f"r{index:02}", output=value) for index, value in enumerate(values)))
        outputs = [record.output for record in resolve(ledger.find(Run))]
        assert outputs == values
        assert [type(value) for value in outputs] == [type(value) for value in values]
        write(ledger, *(Update(Run, f"r{index:02}", {"input": value}) for index, value in enumerate(values)))
        assert [record.input for record in resolve(ledger.find(Run))] == values

    def test_a_long_input_is_kept_until_it_is_replaced_or_its_run_is_deleted(self) -> None:
        long = {"text": "x" * 100_000}
        ledger = self.ledger_of(run("r1", input=long, due_at=NOW), run("r2", input=long), run("r3", input=long))
        assert get_record(ledger, Run, "r1").input == long
        write(ledger, Advance("r1", NOW, {"current_step": "s"}))
        [claimed] = resolve(ledger.claim("w", NOW, 1))
        assert (claimed.id, claimed.input) == ("r1", long)
        write(ledger, Update(Run, "r2", {"input": None}), Advance("r3", NOW, {"input": {"n": 1}}))
        assert [record.input for record in resolve(ledger.find(Run))] == [long, None, {"n": 1}]
        write(ledger, Forget("r1"), Insert(run("r1")))
        assert get_record(ledger, Run, "r1").input is None

    def test_nan_and_infinity_are_stored_or_refused(self) -> None:
        ledger = self.make_ledger()
        for index, value in enumerate((math.inf, -math.inf, math.nan)):
            with suppress(SerdeError):
                write(ledger, Insert(run(f"r{index}", output=[value])))
                assert repr(get_record(ledger, Run, f"r{index}").output) == repr([value])

    def test_records_are_copies(self) -> None:
        record = run(output={"list": [1]})
        ledger = self.ledger_of(record)
        record.graph = "changed"
        first = get_record(ledger, Run, "r1")
        first.status = RunStatus.FAILED
        (again,) = resolve(ledger.find(Run))
        assert (again.graph, again.status) == ("g", RunStatus.PENDING)

    def test_json_values_are_copies(self) -> None:
        output, update, payload = {"list": [1]}, {"list": [1]}, {"list": [1]}
        ledger = self.ledger_of(run(output=output))
        write(ledger, Update(Run, "r1", {"input": update}), Advance("r1", NOW, events=[NewEvent("A", payload)]))
        for value in (output, update, payload):
            value["list"].append(2)
        for record in (get_record(ledger, Run, "r1"), *resolve(ledger.find(Run))):
            assert (record.output, record.input) == ({"list": [1]}, {"list": [1]})
            record.output["list"].append(3)
            record.input["list"].append(3)
        again, (event,) = get_record(ledger, Run, "r1"), resolve(ledger.events("r1"))
        assert (again.output, again.input, event.payload) == ({"list": [1]},) * 3

    def test_ids_are_unique(self) -> None:
        ledger = self.ledger_of(run(graph="first"))
        error = raises(DuplicateRecord, lambda: write(ledger, Insert(run(graph="second"))))
        assert error.columns == ("id",)
        assert get_record(ledger, Run, "r1").graph == "first"
        write(ledger, Insert(full_record(StepRun, "r1")))

    def test_unique_columns_are_unique(self) -> None:
        for record_type, columns in unique_columns():
            ledger = self.ledger_of(full_record(record_type, "1"))
            error = raises(DuplicateRecord, lambda: write(ledger, Insert(full_record(record_type, "2"))))  # noqa: B023
            assert error.columns == columns
            assert ids(ledger, record_type) == ["1"]
            for number, column in enumerate(columns):
                write(ledger, Insert(replace(full_record(record_type, f"other {number}"), **{column: "another"})))

    def test_none_is_not_a_duplicate_in_a_unique_column(self) -> None:
        for record_type, columns in unique_columns():
            for name in (
                column.name for column in columns_of(record_type) if column.name in columns and column.optional
            ):
                ledger = self.ledger_of(*(replace(full_record(record_type, str(n)), **{name: None}) for n in range(3)))
                assert resolve(ledger.count(record_type)) == 3

    def test_an_update_must_not_violate_a_unique_column(self) -> None:
        ledger = self.ledger_of(*(Workspace(id=slug, slug=slug, created_at=NOW) for slug in ("a", "b")))
        raises(DuplicateRecord, lambda: write(ledger, Update(Workspace, "b", {"slug": "a"})))
        assert get_record(ledger, Workspace, "b").slug == "b"
        write(ledger, Update(Workspace, "b", {"slug": "b", "name": "same"}), Update(Workspace, "b", {"slug": "c"}))
        assert get_record(ledger, Workspace, "b").slug == "c"

    def test_an_update_changes_the_named_columns_only(self) -> None:
        for record_type in RECORDS:
            before, after = (
                replace(full_record(record_type, "1"), **dict.fromkeys(optional_columns(record_type))),
                full_record(record_type, "1"),
            )
            ledger = self.ledger_of(before, replace(minimal_record(record_type, "2"), **distinct_values(record_type)))
            write(
                ledger, Update(record_type, "1", {name: getattr(after, name) for name in optional_columns(record_type)})
            )
            updated = get_record(ledger, record_type, "1")
            assert replace(updated, **version_of(record_type, after)) == after
            assert get_record(ledger, record_type, "2") == replace(
                minimal_record(record_type, "2"), **distinct_values(record_type)
            )
            write(ledger, Update(record_type, "1", dict.fromkeys(optional_columns(record_type))))
            assert replace(get_record(ledger, record_type, "1"), **version_of(record_type, before)) == before

    def test_a_missing_record_cannot_be_changed(self) -> None:
        ledger = self.ledger_of(run())
        raises(RecordConflict, lambda: write(ledger, Update(Run, "r2", {"graph": "x"})))
        raises(RecordConflict, lambda: write(ledger, Advance("r2", NOW)))
        assert ids(ledger, Run) == ["r1"]

    def test_an_update_is_refused_unless_its_conditions_hold(self) -> None:
        ledger = self.ledger_of(run(claim="mine"))
        not_ended = Condition("status", "in", ENDED)
        valid = [*where(claim="mine", version=1), Condition("due_at", "=", None)]
        raises(RecordConflict, lambda: write(ledger, Update(Run, "r1", {"graph": "x"}, [*valid, not_ended])))
        raises(RecordConflict, lambda: write(ledger, Update(Run, "r1", {"graph": "x"}, where(claim="other"))))
        assert get_record(ledger, Run, "r1") == run(claim="mine")
        write(ledger, Update(Run, "r1", {"graph": "x", "claim": None}, valid))
        assert (get_record(ledger, Run, "r1").graph, get_record(ledger, Run, "r1").claim) == ("x", None)

    def test_changes_may_require_the_absence_of_records(self) -> None:
        ledger = self.ledger_of(run(thread_id="t"))
        absent = Absent(Run, [*where(thread_id="t"), Condition("graph", "in", ["g", run().graph])])
        error = raises(RecordPresent, lambda: write(ledger, absent, Insert(run("r2"))))
        assert "thread_id = 't'" in str(error)
        assert ids(ledger, Run) == ["r1"]
        write(ledger, Absent(Run, where(thread_id="other")), Insert(run("r2")))
        raises(
            RecordPresent, lambda: write(ledger, Insert(run("r3", thread_id="u")), Absent(Run, where(thread_id="u")))
        )
        assert ids(ledger, Run) == ["r1", "r2"]

    def test_an_update_may_add_to_a_number(self) -> None:
        ledger = self.ledger_of(run(total_cost=0.5), Webhook(id="h", workspace_id="w1", url="u", created_at=NOW))
        write(ledger, Update(Run, "r1", {"total_cost": Plus(0.25)}), Update(Webhook, "h", {"failures": Plus(1)}))
        write(ledger, Advance("r1", NOW, {"total_cost": Plus(-0.125)}), UpdateAll(Webhook, (), {"failures": Plus(2)}))
        assert get_record(ledger, Run, "r1").total_cost == 0.625
        assert get_record(ledger, Webhook, "h").failures == 3

    def test_spending_adds_up_by_workspace_and_day(self) -> None:
        ledger, tomorrow = self.make_ledger(), NOW + timedelta(days=1)
        first = spending(requests=1, input_tokens=10, output_tokens=5, cost=0.25)
        write(ledger, first)
        second, other = spending(requests=2, output_tokens=7, cost=0.5), spending("w2", requests=1)
        write(ledger, second, other, spending(at=tomorrow, requests=9))
        assert first.after == first.spent
        assert second.after == replace(
            DailySpending.of("w1", NOW), requests=3, input_tokens=10, output_tokens=12, cost=0.75
        )
        assert other.after == other.spent
        sums = [(record.id, record.requests) for record in resolve(ledger.find(DailySpending))]
        assert sums == [("w1/2026-01-01", 3), ("w1/2026-01-02", 9), ("w2/2026-01-01", 1)]
        assert get_record(ledger, DailySpending, "w1/2026-01-01") == second.after

    def test_spending_twice_in_one_transaction_counts_twice(self) -> None:
        ledger, changes = self.make_ledger(), [spending(requests=1, cost=0.5), spending(requests=2)]
        write(ledger, *changes)
        sums = [(record.after.requests, record.after.cost) for record in changes if record.after is not None]
        assert sums == [(1, 0.5), (3, 0.5)]

    def test_spending_is_kept_when_the_run_is_deleted(self) -> None:
        ledger = self.ledger_of(run())
        write(ledger, spending(requests=1), Forget("r1"))
        assert get_record(ledger, DailySpending, "w1/2026-01-01").requests == 1

    def test_all_matching_records_are_updated(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)))
        write(ledger, UpdateAll(RunLabel, where(value="1"), {"name": "odd"}), UpdateAll(RunLabel, where(id="9"), {}))
        assert [record.name for record in resolve(ledger.find(RunLabel))] == ["n", "odd", "n", "odd", "n"]

    def test_the_version_of_a_run_grows_with_every_change(self) -> None:
        schedule = Schedule(id="s", workspace_id="w1", name="n", graph="g", cron="* * * * *", created_at=NOW)
        ledger = self.ledger_of(run("r1"), run("r2"), schedule)
        write(ledger, Update(Run, "r1", {}), Update(Run, "r1", {"version": 9}), Update(Schedule, "s", {"cron": "0"}))
        write(ledger, UpdateAll(Run, where(id="r1"), {"graph": "x"}), Advance("r1", NOW))
        assert [get_record(ledger, Run, run_id).version for run_id in ("r1", "r2")] == [5, 1]
        assert get_record(ledger, Schedule, "s").version == 1

    def test_all_matching_records_are_deleted(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)), full_record(StepRun, "1"))
        write(ledger, Delete(RunLabel, where(value="1")), Delete(RunLabel, where(id="9")))
        assert ids(ledger, RunLabel) == ["0", "2", "4"]
        assert ids(ledger, StepRun) == ["1"]

    def test_changes_are_made_in_their_order(self) -> None:
        ledger = self.ledger_of(label("1", "old"))
        write(
            ledger,
            Delete(RunLabel, where(id="1")),
            Insert(label("1", "new")),
            Insert(label("2", "new")),
            UpdateAll(RunLabel, where(value="new"), {"value": "newer"}),
            Update(RunLabel, "2", {"name": "last"}, where(value="newer")),
            Delete(RunLabel, where(id="2", name="n")),
        )
        assert list(resolve(ledger.find(RunLabel))) == [label("1", "newer"), label("2", "newer", name="last")]

    def test_if_one_change_fails_none_is_made(self) -> None:
        records = (run("r1"), run("r2"), label("1"), Webhook(id="h", workspace_id="w1", url="u", created_at=NOW))
        failing: list[Change] = [
            Update(Run, "r9", {}),
            Update(Run, "r1", {}, where(claim="x")),
            Insert(run("r2")),
            Advance("r1", NOW, {}, [NewEvent("B", {})], where(version=9)),
        ]
        for last in failing:
            ledger = self.ledger_of(*records)
            changes: list[Change] = [
                Insert(run("r3")),
                Update(RunLabel, "1", {"value": "x"}),
                UpdateAll(Run, (), {"graph": "x"}),
                Advance("r1", NOW, {"begun": True}, [NewEvent("A", {})]),
                Announce("w1", "a", {}, NOW),
                Delete(RunLabel, ()),
                Forget("r2"),
                Insert(run("r2")),
                spending(requests=1),
            ]
            raises(RecordConflict, lambda: write(ledger, *changes, last))  # noqa: B023
            present = [*resolve(ledger.find(Run)), *resolve(ledger.find(RunLabel)), *resolve(ledger.find(Webhook))]
            assert tuple(present) == records
            assert resolve(ledger.count(Delivery)) == len(resolve(ledger.events("r1"))) == 0
            assert resolve(ledger.count(DailySpending)) == 0

    def test_an_empty_transaction_changes_nothing(self) -> None:
        ledger = self.ledger_of(run())
        write(ledger)
        assert list(resolve(ledger.find(Run))) == [run()]

    def test_writes_may_be_concurrent(self) -> None:
        ledger = self.ledger_of(run())

        def change(number: int) -> None:
            for n in range(10):
                write(ledger, Advance("r1", NOW, {"total_cost": Plus(1)}, [NewEvent("A", {"n": n})] * 2))
                write(ledger, Insert(label(f"{number} {n}")))
                write(ledger, spending(requests=1, cost=0.5))
                assert get_record(ledger, RunLabel, f"{number} {n}").name == "n"

        assert run_concurrently(4, change) == []
        record = get_record(ledger, Run, "r1")
        assert (record.total_cost, record.version, record.last_event) == (40, 41, 80)
        assert resolve(ledger.count(RunLabel)) == 40
        assert [event.seq for event in resolve(ledger.events("r1"))] == list(range(1, 81))
        spent = get_record(ledger, DailySpending, "w1/2026-01-01")
        assert (spent.requests, spent.cost) == (40, 20.0)

    def test_one_of_several_competing_writes_wins(self) -> None:
        ledger, winners = self.ledger_of(run()), list[int]()

        def change(number: int) -> None:
            write(ledger, Insert(label(str(number))), Advance("r1", NOW, {}, [NewEvent("A", {})], where(version=1)))
            winners.append(number)

        errors = run_concurrently(8, change)
        assert [type(error) for error in errors] == [RecordConflict] * 7
        assert ids(ledger, RunLabel) == [str(number) for number in winners]
        assert len(resolve(ledger.events("r1"))) == 1
