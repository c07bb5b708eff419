"""What every ledger must do: derive from the suite, say how to make yours, and let pytest collect it.

class TestMyLedger(LedgerConformance):
    def make_ledger(self):
        return MyLedger()

    def make_saver(self, ledger):
        return MySaver(ledger.database)
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from statewright.checkpoint import BranchKey, Checkpointer, Pending
from statewright.errors import (
    CheckpointConflict,
    DuplicateRecord,
    RecordConflict,
    RecordPresent,
    SerdeError,
    StatewrightError,
)
from statewright.ids import TaskId
from statewright.runs import (
    ENDED,
    RECORDS,
    Absent,
    Advance,
    Among,
    Announce,
    Approval,
    Change,
    Column,
    Condition,
    DailySpending,
    Delete,
    Delivery,
    Forget,
    Insert,
    Ledger,
    ModelCall,
    NewEvent,
    Order,
    Plus,
    Record,
    Run,
    RunEvent,
    RunLabel,
    RunStatus,
    Schedule,
    Signal,
    Spend,
    StepLog,
    StepRun,
    Update,
    UpdateAll,
    Wait,
    Webhook,
    Workspace,
    columns_of,
    where,
)
from statewright.runs.records.record import R
from statewright.testing.checkpointer_conformance import answer, commit_after

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
BIG: list[Any] = [2**53 + 1, -(2**63), 2**64, 10**40, 0.1, 1e300, 5e-324, -0.0, 1 / 3]
NESTED: dict[str, Any] = {
    "": None,
    "text": 'tschüß 🦉 \x00 \x1f "quoted" \\ \u2028 </script>',
    "numbers": [0, -1, *BIG],
    "yes": True,
    "no": False,
    "empty": [{}, [], "", [[]], {"": {}}],
    "deep": {"er": {"list": [[], [{}], [1, [2, {"x": None}]]]}},
    "with.dot": 1,
    "$odd": "%_*?'",
}


def run(identity: str = "r1", **values: Any) -> Run:
    """A run, made now, with a thread of its own."""
    given: dict[str, Any] = {"workspace_id": "w1", "thread_id": f"thread of {identity}", "updated_at": NOW, **values}
    return Run(id=identity, graph=given.pop("graph", "g"), created_at=given.pop("created_at", NOW), **given)


def label(identity: str, value: str = "v", **values: Any) -> RunLabel:
    return RunLabel(id=identity, **{"run_id": "r1", "name": "n", "value": value, **values})


def spending(workspace_id: str = "w1", at: datetime = NOW, **sums: Any) -> Spend:
    """What adds to what a workspace has spent on a day."""
    return Spend(replace(DailySpending.of(workspace_id, at), **sums))


def filled(kind: type[R], identity: str) -> R:
    """A record of a class, with something in every field."""
    values = {column.name: _sample(column) for column in columns_of(kind)}
    return kind(**{**values, "id": identity})


def bare(kind: type[R], identity: str) -> R:
    """A record of a class, with None where there may be nothing."""
    values: dict[str, Any] = {one.name: None if one.optional else _sample(one) for one in columns_of(kind)}
    return kind(**{**values, "id": identity})


def _sample(column: Column) -> Any:
    samples: dict[str, Any] = {"text": f"a {column.name}", "integer": 7, "real": 0.25, "flag": True, "json": NESTED}
    samples |= {"instant": NOW, "sealed": f"a {column.name}"}
    return next(iter(cast(Any, column.type))) if column.kind == "status" else samples[column.kind]


E = TypeVar("E", bound=Exception)


def refused(kind: type[E], function: Callable[[], object]) -> E:
    """The exception that a call raises; fails if it raises none. So the suite needs no test framework."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def at_once(count: int, function: Callable[[int], object]) -> list[BaseException]:
    """What was raised where so many threads called a function with their numbers at one moment."""
    together, raised = threading.Barrier(count), list[BaseException]()

    def call(number: int) -> None:
        together.wait()
        try:
            function(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


class _Suite:
    """What the tests of the suite work with."""

    def make_ledger(self) -> Ledger:
        """A new, empty ledger."""
        raise NotImplementedError

    def make_saver(self, ledger: Ledger) -> Checkpointer:
        """A saver whose commits the jobs of a ledger may be part of."""
        raise NotImplementedError

    def ledger_of(self, *records: Record) -> Ledger:
        """A ledger that holds some records."""
        ledger = self.make_ledger()
        write(ledger, *map(Insert, records))
        return ledger


def write(ledger: Ledger, *changes: Change) -> None:
    answer(ledger.write(changes))


def got(ledger: Ledger, kind: type[R], identity: str) -> R:
    found = answer(ledger.get(kind, identity))
    assert found is not None
    return found


def ids(ledger: Ledger, kind: type[Record], *conditions: Condition, **options: Any) -> list[str]:
    return [one.id for one in answer(ledger.find(kind, conditions, **options))]


class _Records(_Suite):
    """What is written is there, whole or not at all."""

    def test_nothing_is_there_at_first(self) -> None:
        ledger = self.make_ledger()
        for kind in RECORDS:
            assert answer(ledger.get(kind, "1")) is None
            assert list(answer(ledger.find(kind))) == []
            assert answer(ledger.count(kind)) == 0
        assert list(answer(ledger.events("r1"))) == []
        assert list(answer(ledger.claim("w", NOW, 10))) == []

    def test_records_of_every_class_come_back_as_they_were(self) -> None:
        for kind in RECORDS:
            one, other = filled(kind, "1"), bare(kind, "2")
            for column in columns_of(kind):
                if column.kind in ("text", "sealed") and column.name != "id" and not column.optional:
                    setattr(other, column.name, "")
            ledger = self.ledger_of(one, other)
            assert got(ledger, kind, "1") == one
            assert list(answer(ledger.find(kind))) == [one, other]
            for found in answer(ledger.find(kind)):
                for column in columns_of(kind):
                    value = getattr(found, column.name)
                    assert value is None or column.kind == "json" or isinstance(value, column.type)

    def test_json_comes_back_as_it_was(self) -> None:
        deep: Any = "bottom"
        for _ in range(200):
            deep = [deep]
        values: list[Any] = [None, {}, [], "", 0, False, 0.0, "null", BIG, NESTED, [NESTED, [NESTED]], deep]
        ledger = self.ledger_of(*(run(f"r{place:02}", output=value) for place, value in enumerate(values)))
        found = [one.output for one in answer(ledger.find(Run))]
        assert found == values
        assert [type(one) for one in found] == [type(one) for one in values]
        write(ledger, *(Update(Run, f"r{place:02}", {"input": value}) for place, value in enumerate(values)))
        assert [one.input for one in answer(ledger.find(Run))] == values

    def test_a_long_input_comes_back_until_it_is_another_one_or_its_run_is_gone(self) -> None:
        long = {"text": "x" * 100_000}
        ledger = self.ledger_of(run("r1", input=long, due_at=NOW), run("r2", input=long), run("r3", input=long))
        assert got(ledger, Run, "r1").input == long
        write(ledger, Advance("r1", NOW, {"current_step": "s"}))
        [taken] = answer(ledger.claim("w", NOW, 1))
        assert (taken.id, taken.input) == ("r1", long)
        write(ledger, Update(Run, "r2", {"input": None}), Advance("r3", NOW, {"input": {"n": 1}}))
        assert [one.input for one in answer(ledger.find(Run))] == [long, None, {"n": 1}]
        write(ledger, Forget("r1"), Insert(run("r1")))
        assert got(ledger, Run, "r1").input is None

    def test_numbers_that_are_none_survive_or_are_refused(self) -> None:
        ledger = self.make_ledger()
        for place, value in enumerate((math.inf, -math.inf, math.nan)):
            with suppress(SerdeError):
                write(ledger, Insert(run(f"r{place}", output=[value])))
                assert repr(got(ledger, Run, f"r{place}").output) == repr([value])

    def test_records_belong_to_whoever_has_them(self) -> None:
        given = run(output={"list": [1]})
        ledger = self.ledger_of(given)
        given.graph = "changed"
        first = got(ledger, Run, "r1")
        first.status = RunStatus.FAILED
        (again,) = answer(ledger.find(Run))
        assert (again.graph, again.status) == ("g", RunStatus.PENDING)

    def test_json_belongs_to_whoever_has_it(self) -> None:
        given, update, payload = {"list": [1]}, {"list": [1]}, {"list": [1]}
        ledger = self.ledger_of(run(output=given))
        write(ledger, Update(Run, "r1", {"input": update}), Advance("r1", NOW, events=[NewEvent("A", payload)]))
        for one in (given, update, payload):
            one["list"].append(2)
        for found in (got(ledger, Run, "r1"), *answer(ledger.find(Run))):
            assert (found.output, found.input) == ({"list": [1]}, {"list": [1]})
            found.output["list"].append(3)
            found.input["list"].append(3)
        again, (event,) = got(ledger, Run, "r1"), answer(ledger.events("r1"))
        assert (again.output, again.input, event.payload) == ({"list": [1]},) * 3

    def test_an_id_is_taken_once(self) -> None:
        ledger = self.ledger_of(run(graph="first"))
        error = refused(DuplicateRecord, lambda: write(ledger, Insert(run(graph="second"))))
        assert error.columns == ("id",)
        assert got(ledger, Run, "r1").graph == "first"
        write(ledger, Insert(filled(StepRun, "r1")))

    def test_what_tells_records_apart_is_taken_once(self) -> None:
        for kind, columns in _unique():
            ledger = self.ledger_of(filled(kind, "1"))
            error = refused(DuplicateRecord, lambda: write(ledger, Insert(filled(kind, "2"))))  # noqa: B023
            assert error.columns == columns
            assert ids(ledger, kind) == ["1"]
            for number, column in enumerate(columns):
                write(ledger, Insert(replace(filled(kind, f"other {number}"), **{column: "another"})))

    def test_what_is_none_tells_records_apart(self) -> None:
        for kind, columns in _unique():
            for name in (one.name for one in columns_of(kind) if one.name in columns and one.optional):
                ledger = self.ledger_of(*(replace(filled(kind, str(n)), **{name: None}) for n in range(3)))
                assert answer(ledger.count(kind)) == 3

    def test_an_update_makes_no_two_records_the_same(self) -> None:
        ledger = self.ledger_of(*(Workspace(id=slug, slug=slug, created_at=NOW) for slug in ("a", "b")))
        refused(DuplicateRecord, lambda: write(ledger, Update(Workspace, "b", {"slug": "a"})))
        assert got(ledger, Workspace, "b").slug == "b"
        write(ledger, Update(Workspace, "b", {"slug": "b", "name": "same"}), Update(Workspace, "b", {"slug": "c"}))
        assert got(ledger, Workspace, "b").slug == "c"

    def test_an_update_changes_what_it_names(self) -> None:
        for kind in RECORDS:
            before, after = replace(filled(kind, "1"), **dict.fromkeys(_optional(kind))), filled(kind, "1")
            ledger = self.ledger_of(before, replace(bare(kind, "2"), **_apart(kind)))
            write(ledger, Update(kind, "1", {name: getattr(after, name) for name in _optional(kind)}))
            found = got(ledger, kind, "1")
            assert replace(found, **_version(kind, after)) == after
            assert got(ledger, kind, "2") == replace(bare(kind, "2"), **_apart(kind))
            write(ledger, Update(kind, "1", dict.fromkeys(_optional(kind))))
            assert replace(got(ledger, kind, "1"), **_version(kind, before)) == before

    def test_what_is_not_there_cannot_be_changed(self) -> None:
        ledger = self.ledger_of(run())
        refused(RecordConflict, lambda: write(ledger, Update(Run, "r2", {"graph": "x"})))
        refused(RecordConflict, lambda: write(ledger, Advance("r2", NOW)))
        assert ids(ledger, Run) == ["r1"]

    def test_an_update_expects_something(self) -> None:
        ledger = self.ledger_of(run(claim="mine"))
        right = [*where(claim="mine", version=1), Condition("due_at", "=", None), Condition("status", "in", ENDED)]
        refused(RecordConflict, lambda: write(ledger, Update(Run, "r1", {"graph": "x"}, right)))
        refused(RecordConflict, lambda: write(ledger, Update(Run, "r1", {"graph": "x"}, where(claim="other"))))
        assert got(ledger, Run, "r1") == run(claim="mine")
        write(ledger, Update(Run, "r1", {"graph": "x", "claim": None}, right[:3]))
        assert (got(ledger, Run, "r1").graph, got(ledger, Run, "r1").claim) == ("x", None)

    def test_changes_may_need_that_there_is_no_record(self) -> None:
        ledger = self.ledger_of(run(thread_id="t"))
        taken = Absent(Run, [*where(thread_id="t"), Condition("graph", "in", ["g", run().graph])])
        error = refused(RecordPresent, lambda: write(ledger, taken, Insert(run("r2"))))
        assert "thread_id = 't'" in str(error)
        assert ids(ledger, Run) == ["r1"]
        write(ledger, Absent(Run, where(thread_id="other")), Insert(run("r2")))
        refused(
            RecordPresent, lambda: write(ledger, Insert(run("r3", thread_id="u")), Absent(Run, where(thread_id="u")))
        )
        assert ids(ledger, Run) == ["r1", "r2"]

    def test_an_update_may_add_to_what_is_there(self) -> None:
        ledger = self.ledger_of(run(total_cost=0.5), Webhook(id="h", workspace_id="w1", url="u", created_at=NOW))
        write(ledger, Update(Run, "r1", {"total_cost": Plus(0.25)}), Update(Webhook, "h", {"failures": Plus(1)}))
        write(ledger, Advance("r1", NOW, {"total_cost": Plus(-0.125)}), UpdateAll(Webhook, (), {"failures": Plus(2)}))
        assert got(ledger, Run, "r1").total_cost == 0.625
        assert got(ledger, Webhook, "h").failures == 3

    def test_what_is_spent_adds_up_by_workspace_and_day(self) -> None:
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
        found = [(one.id, one.requests) for one in answer(ledger.find(DailySpending))]
        assert found == [("w1/2026-01-01", 3), ("w1/2026-01-02", 9), ("w2/2026-01-01", 1)]
        assert got(ledger, DailySpending, "w1/2026-01-01") == second.after

    def test_what_is_spent_twice_in_one_transaction_counts_twice(self) -> None:
        ledger, changes = self.make_ledger(), [spending(requests=1, cost=0.5), spending(requests=2)]
        write(ledger, *changes)
        sums = [(one.after.requests, one.after.cost) for one in changes if one.after is not None]
        assert sums == [(1, 0.5), (3, 0.5)]

    def test_what_a_run_has_spent_is_kept_when_it_is_forgotten(self) -> None:
        ledger = self.ledger_of(run())
        write(ledger, spending(requests=1), Forget("r1"))
        assert got(ledger, DailySpending, "w1/2026-01-01").requests == 1

    def test_all_that_fit_are_updated(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)))
        write(ledger, UpdateAll(RunLabel, where(value="1"), {"name": "odd"}), UpdateAll(RunLabel, where(id="9"), {}))
        assert [one.name for one in answer(ledger.find(RunLabel))] == ["n", "odd", "n", "odd", "n"]

    def test_the_version_of_a_run_grows_with_every_change(self) -> None:
        schedule = Schedule(id="s", workspace_id="w1", name="n", graph="g", cron="* * * * *", created_at=NOW)
        ledger = self.ledger_of(run("r1"), run("r2"), schedule)
        write(ledger, Update(Run, "r1", {}), Update(Run, "r1", {"version": 9}), Update(Schedule, "s", {"cron": "0"}))
        write(ledger, UpdateAll(Run, where(id="r1"), {"graph": "x"}), Advance("r1", NOW))
        assert [got(ledger, Run, one).version for one in ("r1", "r2")] == [5, 1]
        assert got(ledger, Schedule, "s").version == 1

    def test_those_that_fit_are_deleted(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)), filled(StepRun, "1"))
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
        assert list(answer(ledger.find(RunLabel))) == [label("1", "newer"), label("2", "newer", name="last")]

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
            refused(RecordConflict, lambda: write(ledger, *changes, last))  # noqa: B023
            found = [*answer(ledger.find(Run)), *answer(ledger.find(RunLabel)), *answer(ledger.find(Webhook))]
            assert tuple(found) == records
            assert answer(ledger.count(Delivery)) == len(answer(ledger.events("r1"))) == 0
            assert answer(ledger.count(DailySpending)) == 0

    def test_nothing_to_be_written_is_nothing(self) -> None:
        ledger = self.ledger_of(run())
        write(ledger)
        assert list(answer(ledger.find(Run))) == [run()]

    def test_several_threads_may_write_at_once(self) -> None:
        ledger = self.ledger_of(run())

        def change(number: int) -> None:
            for n in range(10):
                write(ledger, Advance("r1", NOW, {"total_cost": Plus(1)}, [NewEvent("A", {"n": n})] * 2))
                write(ledger, Insert(label(f"{number} {n}")))
                write(ledger, spending(requests=1, cost=0.5))
                assert got(ledger, RunLabel, f"{number} {n}").name == "n"

        assert at_once(4, change) == []
        found = got(ledger, Run, "r1")
        assert (found.total_cost, found.version, found.last_event, answer(ledger.count(RunLabel))) == (40, 41, 80, 40)
        assert [one.seq for one in answer(ledger.events("r1"))] == list(range(1, 81))
        spent = got(ledger, DailySpending, "w1/2026-01-01")
        assert (spent.requests, spent.cost) == (40, 20.0)

    def test_of_many_that_expect_the_same_one_wins(self) -> None:
        ledger, won = self.ledger_of(run()), list[int]()

        def change(number: int) -> None:
            write(ledger, Insert(label(str(number))), Advance("r1", NOW, {}, [NewEvent("A", {})], where(version=1)))
            won.append(number)

        lost = at_once(8, change)
        assert [type(one) for one in lost] == [RecordConflict] * 7
        assert ids(ledger, RunLabel) == [str(number) for number in won]
        assert len(answer(ledger.events("r1"))) == 1


class _Questions(_Suite):
    """What is asked for is found, and nothing else."""

    def test_every_comparison_finds_what_fits(self) -> None:
        times = [None, *(NOW + timedelta(microseconds=n) for n in range(3))]
        ledger = self.ledger_of(*(run(f"r{place}", due_at=at) for place, at in enumerate(times)))
        expected = {"=": [2], "!=": [0, 1, 3], "<": [1], "<=": [1, 2], ">": [3], ">=": [2, 3]}
        of_none = {"=": [0], "!=": [1, 2, 3]}
        for operator, fitting in expected.items():
            found = ids(ledger, Run, Condition("due_at", cast(Any, operator), times[2]))
            assert found == [f"r{place}" for place in fitting]
            found = ids(ledger, Run, Condition("due_at", cast(Any, operator), None))
            assert found == [f"r{place}" for place in of_none.get(operator, [])]

    def test_every_kind_of_column_can_be_looked_for(self) -> None:
        for kind in RECORDS:
            ledger = self.ledger_of(filled(kind, "1"), replace(bare(kind, "2"), **_apart(kind)))
            for column in columns_of(kind):
                value = getattr(filled(kind, "1"), column.name)
                if column.kind not in ("json", "sealed"):
                    found = ids(ledger, kind, Condition(column.name, "=", value))
                    both = getattr(got(ledger, kind, "2"), column.name) == value
                    assert found == (["1", "2"] if both else ["1"])

    def test_texts_are_taken_at_their_word(self) -> None:
        texts = ["", " ", "%", "A", "_", "a", "a ", "ab", "a\x00", "ä", "🦉", "'; --"]
        ledger = self.ledger_of(*(label(str(place), text) for place, text in enumerate(texts)))
        for place, text in enumerate(texts):
            assert ids(ledger, RunLabel, *where(value=text)) == [str(place)]
            assert ids(ledger, RunLabel, Condition("value", "in", [text])) == [str(place)]
        found = answer(ledger.find(RunLabel, order=Order("value")))
        assert [one.value for one in found] == sorted(texts)

    def test_all_conditions_have_to_be_met(self) -> None:
        ledger = self.ledger_of(label("1", "a"), label("2", "a", name="m"), label("3", "b"))
        assert ids(ledger, RunLabel, *where(value="a", name="n")) == ["1"]
        assert ids(ledger, RunLabel, *where(value="a"), Condition("value", "!=", "a")) == []

    def test_one_of_several_values_is_found(self) -> None:
        ledger = self.ledger_of(*(run(f"r{n:04}", parent_id=str(n) if n else None) for n in range(3000)))
        assert ids(ledger, Run, Condition("parent_id", "in", ["7", "2", "7", "none"])) == ["r0002", "r0007"]
        assert ids(ledger, Run, Condition("parent_id", "in", [])) == []
        assert ids(ledger, Run, Condition("parent_id", "in", [None, "1"])) == ["r0000", "r0001"]
        assert ids(ledger, Run, Condition("parent_id", "in", [None])) == ["r0000"]
        assert ids(ledger, Run, Condition("status", "in", {RunStatus.FAILED})) == []
        many = [str(n) for n in range(2, 3000)]
        assert answer(ledger.count(Run, [Condition("parent_id", "in", many)])) == 2998

    def test_values_that_other_records_have_are_found(self) -> None:
        ledger = self.ledger_of(
            *(run(f"r{n}", parent_id=f"r{n - 1}" if n > 1 else None) for n in range(5)),
            label("1", "red", run_id="r1"),
            label("2", "red", run_id="r3"),
            label("3", "blue", run_id="r3"),
        )
        red = Condition("id", "in", Among(RunLabel, "run_id", where(value="red")))
        blue = Condition("id", "in", Among(RunLabel, "run_id", where(value="blue")))
        assert ids(ledger, Run, red) == ["r1", "r3"]
        assert ids(ledger, Run, red, blue) == ["r3"]
        assert ids(ledger, Run, Condition("parent_id", "in", Among(Run, "id", [blue]))) == ["r4"]
        assert ids(ledger, Run, Condition("parent_id", "in", Among(Run, "parent_id", where(id="r0")))) == ["r0", "r1"]
        assert ids(ledger, Run, Condition("id", "in", Among(RunLabel, "run_id", where(value="none")))) == []
        write(ledger, UpdateAll(Run, [red], {"graph": "red"}), Delete(RunLabel, [Condition("run_id", "in", ["r1"])]))
        assert ids(ledger, Run, *where(graph="red")) == ["r1", "r3"]
        assert ids(ledger, Run, red) == ["r3"]

    def test_records_are_sorted_by_a_column_and_by_their_ids(self) -> None:
        times = {"a": SOON, "b": None, "c": NOW, "d": SOON, "e": None}
        ledger = self.ledger_of(*(run(name, due_at=at) for name, at in reversed(times.items())))
        assert ids(ledger, Run) == list("abcde")
        assert ids(ledger, Run, order=Order("due_at")) == list("becad")
        assert ids(ledger, Run, order=Order("due_at", descending=True)) == list("adcbe")
        assert ids(ledger, Run, order=Order("id", descending=True)) == list("edcba")

    def test_a_part_of_what_is_found_is_returned(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(6)))
        assert ids(ledger, RunLabel, limit=2) == ["0", "1"]
        assert ids(ledger, RunLabel, limit=2, offset=5) == ["5"]
        assert ids(ledger, RunLabel, offset=4) == ["4", "5"]
        assert (
            ids(ledger, RunLabel, limit=0) == ids(ledger, RunLabel, offset=9) == ids(ledger, RunLabel, limit=-1) == []
        )
        assert ids(ledger, RunLabel, limit=2, offset=-3) == ["0", "1"]
        assert ids(ledger, RunLabel, offset=-3) == ids(ledger, RunLabel)
        found = ids(ledger, RunLabel, *where(value="1"), order=Order("id", descending=True), limit=1, offset=1)
        assert found == ["3"]

    def test_records_are_counted(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)))
        assert answer(ledger.count(RunLabel)) == 5
        assert answer(ledger.count(RunLabel, where(value="1"))) == 2

    def test_records_are_grouped_and_their_columns_summed(self) -> None:
        steps = [None, "a", "a", "b", None]
        ledger = self.ledger_of(
            *(run(f"r{n}", current_step=step, total_cost=n / 2, last_event=n) for n, step in enumerate(steps)),
            run("x", graph="other", status=RunStatus.FAILED, begun=True, due_at=NOW),
        )
        found = answer(ledger.groups(Run, ["current_step"], where=where(graph="g"), sums=["total_cost", "last_event"]))
        assert list(found) == [((None,), 2, (2.0, 4.0)), (("a",), 2, (1.5, 3.0)), (("b",), 1, (1.5, 3.0))]
        found = answer(ledger.groups(Run, ["status", "begun", "due_at"], where=[Condition("graph", "!=", "g")]))
        assert list(found) == [((RunStatus.FAILED, True, NOW), 1, ())]
        assert isinstance(found[0].key[0], RunStatus)
        assert list(answer(ledger.groups(Run, [], sums=["last_event"]))) == [((), 6, (10.0,))]
        assert list(answer(ledger.groups(Run, [], where=where(id="none")))) == []

    def test_what_has_no_number_adds_nothing_to_a_sum(self) -> None:
        ledger = self.ledger_of(run("r1", concurrency_limit=2), run("r2"), run("r3", graph="x"))
        found = answer(ledger.groups(Run, ["graph"], sums=["concurrency_limit"]))
        assert list(found) == [(("g",), 2, (2.0,)), (("x",), 1, (0.0,))]


class _Logs(_Suite):
    """What happened to a run is told once, in order; and those hear of it who want to."""

    def log(self, ledger: Ledger, sizes: Sequence[int]) -> list[RunEvent]:
        """What several advances of `r1` have written, each with so many events."""
        numbers, written = itertools.count(1), list[RunEvent]()
        for place, size in enumerate(sizes):
            events = [NewEvent("A", {"n": next(numbers)}, f"step {place}" if place % 2 else None) for _ in range(size)]
            change = Advance("r1", NOW + timedelta(seconds=place), {}, events)
            write(ledger, change)
            written += change.written
        return written

    def test_events_are_numbered_without_gaps(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        written = self.log(ledger, [1, 0, 3, 2])
        assert [one.seq for one in written] == [1, 2, 3, 4, 5, 6]
        assert written[1] == RunEvent("r1", 2, "A", {"n": 2}, None, NOW + timedelta(seconds=2))
        assert written[4] == RunEvent("r1", 5, "A", {"n": 5}, "step 3", NOW + timedelta(seconds=3))
        assert list(answer(ledger.events("r1"))) == written
        assert list(answer(ledger.events("r2"))) == list(answer(ledger.events("r9"))) == []
        assert got(ledger, Run, "r1").last_event == 6

    def test_events_are_read_in_parts(self) -> None:
        ledger = self.ledger_of(run("r1"))
        written = self.log(ledger, [1, 3, 2])
        for after in range(8):
            assert list(answer(ledger.events("r1", after=after))) == written[after:]
            for limit in range(4):
                assert list(answer(ledger.events("r1", after=after, limit=limit))) == written[after : after + limit]
        assert list(answer(ledger.events("r1", limit=-1))) == []
        assert list(answer(ledger.events("r1", after=-3, limit=2))) == written[:2]

    def test_events_come_back_as_they_were(self) -> None:
        ledger = self.ledger_of(run("r1"))
        write(ledger, Advance("r1", NOW, {}, [NewEvent("A", NESTED, "s"), NewEvent("B", {})]))
        assert [(one.type, one.payload) for one in answer(ledger.events("r1"))] == [("A", NESTED), ("B", {})]

    def test_an_advance_changes_the_run(self) -> None:
        ledger = self.ledger_of(run("r1", claim="mine"))
        values = {"status": RunStatus.RUNNING, "current_step": "a", "due_at": SOON, "metadata": {"k": [1]}}
        write(ledger, Advance("r1", SOON, values, [NewEvent("A", {})] * 2, where(claim="mine")))
        expected = replace(run("r1", claim="mine"), **values, updated_at=SOON, last_event=2, version=2)
        assert got(ledger, Run, "r1") == expected

    def test_whoever_lost_the_run_adds_nothing_to_its_log(self) -> None:
        ledger = self.ledger_of(run("r1", claim="mine"))
        change = Advance("r1", SOON, {"graph": "x"}, [NewEvent("A", {})], where(claim="other"))
        error = refused(RecordConflict, lambda: write(ledger, change))
        assert (error.table, error.id) == (Run.TABLE, "r1")
        assert list(answer(ledger.events("r1"))) == []
        assert got(ledger, Run, "r1") == run("r1", claim="mine")

    def test_one_transaction_may_advance_several_times(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        changes = [Advance(one, NOW, {}, [NewEvent("A", {})] * 2) for one in ("r1", "r2", "r1")]
        write(ledger, *changes)
        assert [[one.seq for one in change.written] for change in changes] == [[1, 2], [1, 2], [3, 4]]
        assert list(answer(ledger.events("r1"))) == changes[0].written + changes[2].written

    def test_webhooks_that_want_to_hear_get_a_delivery(self) -> None:
        def hook(identity: str, workspace: str = "w1", **values: Any) -> Webhook:
            return Webhook(id=identity, workspace_id=workspace, url="u", created_at=NOW, **values)

        ledger = self.ledger_of(
            hook("all"),
            hook("some", events=["other", "run.ended"]),
            hook("else", events=["other", "run"]),
            hook("off", active=False),
            hook("away", "w2"),
        )
        write(ledger, Announce("w1", "run.ended", {"n": [1]}, SOON, "r1"), Announce("w3", "run.ended", {}, SOON))
        found = answer(ledger.find(Delivery, order=Order("webhook_id")))
        assert [one.webhook_id for one in found] == ["all", "some"]
        assert len({one.id for one in found}) == 2
        for one in found:
            assert (one.workspace_id, one.run_id, one.event_type) == ("w1", "r1", "run.ended")
            assert (one.status, one.attempts, one.due_at, one.created_at) == ("pending", 0, SOON, SOON)
            created = "2026-01-01T13:30:15.123456Z"
            assert one.body == {"id": one.id, "type": "run.ended", "createdAt": created, "data": {"n": [1]}}

    def test_a_webhook_hears_from_its_transaction_on(self) -> None:
        ledger = self.make_ledger()
        hook = Webhook(id="h", workspace_id="w1", url="u", created_at=NOW)
        announced = Announce("w1", "a", {}, NOW)
        write(ledger, announced, Insert(hook), announced, Update(Webhook, "h", {"active": False}), announced)
        assert answer(ledger.count(Delivery)) == 1

    def test_a_run_is_forgotten_with_all_that_is_its_own(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        kinds = (RunLabel, StepRun, ModelCall, StepLog, Wait, Signal, Approval, Delivery)
        for kind in kinds:
            write(ledger, *(Insert(replace(filled(kind, f"of {one}"), run_id=one)) for one in ("r1", "r2")))
        write(ledger, *(Advance(one, NOW, {}, [NewEvent("A", {})]) for one in ("r1", "r2")))
        write(ledger, Forget("r1"), Forget("nobody"))
        assert ids(ledger, Run) == ["r2"]
        assert [ids(ledger, kind) for kind in kinds] == [*([["of r2"]] * 7), ["of r1", "of r2"]]
        assert [len(answer(ledger.events(one))) for one in ("r1", "r2")] == [0, 1]
        write(ledger, Insert(run("r1")), Advance("r1", NOW, {}, [NewEvent("B", {})]))
        assert [(one.seq, one.type) for one in answer(ledger.events("r1"))] == [(1, "B")]

    def test_a_run_may_be_forgotten_and_made_anew_at_once(self) -> None:
        ledger = self.ledger_of(run("r1"))
        advances = [Advance("r1", NOW, {}, [NewEvent(one, {})]) for one in "ABC"]
        write(ledger, *advances[:2], Forget("r1"), Insert(run("r1")), advances[2])
        assert [(one.seq, one.type) for one in answer(ledger.events("r1"))] == [(1, "C")]


class _Claims(_Suite):
    """Due runs are shared out, as far as there is room."""

    def claimed(self, ledger: Ledger, limit: int = 10) -> list[str]:
        return [one.id for one in answer(ledger.claim("worker", NOW, limit))]

    def due(self, identity: str, **values: Any) -> Run:
        return run(identity, **{"due_at": NOW, **values})

    def test_what_is_due_is_taken_the_longest_due_first(self) -> None:
        ledger = self.ledger_of(
            self.due("r1"),
            self.due("r2", due_at=NOW - timedelta(seconds=2)),
            self.due("r3", due_at=NOW - timedelta(seconds=1)),
            self.due("r4", due_at=NOW + timedelta(microseconds=1)),
            self.due("r5", due_at=None),
            self.due("r6", claim="somebody's"),
        )
        assert self.claimed(ledger, 2) == ["r2", "r3"]
        assert self.claimed(ledger) == ["r1"]
        assert self.claimed(ledger) == []

    def test_what_is_taken_says_so(self) -> None:
        before = self.due("r1", status=RunStatus.WAITING, version=3, metadata=NESTED)
        ledger = self.ledger_of(before, self.due("r2"))
        taken = list(answer(ledger.claim("worker", NOW, 2)))
        assert taken == list(answer(ledger.find(Run)))
        assert replace(taken[0], claim=None) == replace(before, worker_id="worker", due_at=None, version=4)
        assert None not in {one.claim for one in taken}
        assert len({one.claim for one in taken}) == 2
        write(ledger, Advance("r1", NOW, {"claim": None, "due_at": NOW}, (), where(claim=taken[0].claim)))
        (again,) = answer(ledger.claim("other", NOW, 1))
        assert (again.id, again.worker_id, again.claim == taken[0].claim) == ("r1", "other", False)

    def test_no_more_is_taken_than_asked_for(self) -> None:
        ledger = self.ledger_of(*(self.due(f"r{n}") for n in range(5)))
        assert [len(self.claimed(ledger, limit)) for limit in (0, 2, 1, 9)] == [0, 2, 1, 2]

    def test_runs_of_a_thread_follow_each_other(self) -> None:
        ledger = self.ledger_of(
            *(self.due(f"r{n}", thread_id="t") for n in (1, 2, 3)),
            self.due("r0", thread_id="t", status=RunStatus.COMPLETED, due_at=None),
            self.due("r4"),
            self.due("r5", thread_id="t", workspace_id="w2"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_of_a_queue_follow_each_other(self) -> None:
        ledger = self.ledger_of(
            *(self.due(f"r{n}", queue="q") for n in (1, 2, 3)),
            self.due("r0", queue="q", status=RunStatus.COMPLETED, due_at=None),
            self.due("r4", queue="q", workspace_id="w2"),
            self.due("r5", queue="other"),
            self.due("r6"),
            self.due("r7"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_begin_in_the_order_in_which_they_were_written(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r2", **line))
            write(ledger, Insert(self.due("r1", **line)))
            write(ledger, Insert(self.due("r3", **line)), Update(Run, "r2", {"graph": "other"}))
            for identity in ("r2", "r1", "r3"):
                assert self.claimed(ledger) == [identity]
                write(ledger, Update(Run, identity, {"status": RunStatus.COMPLETED, "claim": None}))

    def test_who_has_begun_goes_on_before_who_has_not(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r1", **line), self.due("r2", **line))
            for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED):
                begun = {"status": status, "claim": None, "due_at": None}
                write(ledger, Update(Run, "r2", begun))
                assert self.claimed(ledger) == []
                write(ledger, Update(Run, "r2", {"due_at": NOW}))
                assert self.claimed(ledger) == ["r2"]
                assert self.claimed(ledger) == []

    def test_who_is_at_work_keeps_off_whoever_was_written_or_has_begun_before(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r1", status=RunStatus.WAITING, **line), self.due("r2", claim="c", **line))
            assert self.claimed(ledger) == []
            write(ledger, Update(Run, "r2", {"claim": None}))
            assert self.claimed(ledger) == ["r1"]

    def test_of_several_that_have_begun_one_goes_on(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(*(self.due(f"r{n}", status=RunStatus.WAITING, **line) for n in (2, 1, 3)))
            assert self.claimed(ledger) == ["r2"]
            assert self.claimed(ledger) == []
            write(ledger, Update(Run, "r2", {"status": RunStatus.COMPLETED, "claim": None}))
            assert self.claimed(ledger) == ["r1"]

    def _check_that_r2_follows_r1(self, ledger: Ledger) -> None:
        """Runs in a row, of which the first is at work: nothing but its end lets the second one begin."""
        for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.PENDING):
            write(ledger, Update(Run, "r1", {"status": status, "claim": None}))
            assert self.claimed(ledger) == []
        for status in ENDED:
            write(ledger, Update(Run, "r1", {"status": status}))
            assert self.claimed(ledger) == ["r2"]
            write(ledger, Update(Run, "r2", {"claim": None, "due_at": NOW}))

    def test_so_many_runs_with_a_key_are_at_work(self) -> None:
        key = {"concurrency_key": "k", "concurrency_limit": 2}
        ledger = self.ledger_of(
            *(self.due(f"r{n}", **key) for n in range(4)),
            self.due("r4", **{**key, "concurrency_key": "other"}),
            self.due("r5", workspace_id="w2", **key),
            self.due("r6", concurrency_key="k"),
            self.due("r7", concurrency_limit=1),
            self.due("r8", concurrency_key="k8"),
            self.due("r9", concurrency_key="k8", concurrency_limit=1),
        )
        assert self.claimed(ledger) == ["r0", "r1", "r4", "r5", "r6", "r7", "r8"]
        write(ledger, Update(Run, "r6", {"claim": None}))
        assert self.claimed(ledger) == []
        write(ledger, Update(Run, "r0", {"claim": None}), Update(Run, "r2", {"concurrency_limit": 1}))
        assert self.claimed(ledger) == ["r3"]

    def test_so_many_runs_of_a_workspace_are_at_work(self) -> None:
        ledger = self.ledger_of(
            Workspace(id="w1", slug="w1", max_running=2, created_at=NOW),
            Workspace(id="w2", slug="w2", created_at=NOW),
            *(self.due(f"r{n}", claim="c" if n == 0 else None) for n in range(4)),
            *(self.due(f"r{n}", workspace_id="w2") for n in range(4, 7)),
            self.due("r7", workspace_id="nowhere"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        write(ledger, Update(Run, "r0", {"claim": None, "due_at": None}))
        assert self.claimed(ledger) == ["r2"]
        write(ledger, Update(Workspace, "w1", {"max_running": None}))
        assert self.claimed(ledger) == ["r3"]

    def test_runs_without_room_hold_nobody_up(self) -> None:
        earlier = NOW - timedelta(days=1)
        ledger = self.ledger_of(
            Workspace(id="full", slug="full", max_running=0, created_at=NOW),
            self.due("r000", thread_id="t", due_at=None),
            *(self.due(f"r{n}", workspace_id="full", due_at=earlier) for n in range(100, 140)),
            *(self.due(f"r{n}", thread_id="t", due_at=earlier) for n in range(200, 240)),
            *(self.due(f"r{n}", concurrency_key="k", concurrency_limit=0, due_at=earlier) for n in range(300, 340)),
            self.due("r400"),
        )
        assert self.claimed(ledger, 1) == ["r400"]

    def test_no_two_workers_get_the_same_run(self) -> None:
        ledger = self.ledger_of(*(self.due(f"r{n}") for n in range(40)))
        taken: list[Run] = []

        def work(number: int) -> None:
            while found := answer(ledger.claim(str(number), NOW, 3)):
                taken.extend(found)

        assert at_once(4, work) == []
        assert sorted(one.id for one in taken) == sorted(f"r{n}" for n in range(40))
        assert sorted(answer(ledger.find(Run)), key=_id) == sorted(taken, key=_id)


class _Commits(_Suite):
    """What is part of a commit shares its fate."""

    def changes(self) -> list[Change]:
        return [Advance("r1", NOW, {"begun": True}, [NewEvent("A", {})], where(version=1)), Insert(label("1"))]

    def is_written(self, ledger: Ledger) -> bool:
        found = got(ledger, Run, "r1").begun
        assert found == bool(answer(ledger.events("r1"))) == bool(ids(ledger, RunLabel))
        return found

    def test_a_job_is_done_with_a_commit(self) -> None:
        ledger = self.ledger_of(run())
        saver, changes = self.make_saver(ledger), self.changes()
        job = ledger.job(changes)
        assert not self.is_written(ledger)
        answer(saver.commit(commit_after(None), also=[job]))
        assert self.is_written(ledger)
        assert [one.seq for one in cast(Advance, changes[0]).written] == [1]
        assert answer(saver.load("thread")) is not None

    def test_a_job_is_not_done_without_its_commit(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        answer(saver.commit(commit_after(None)))
        job = ledger.job(self.changes())
        refused(CheckpointConflict, lambda: answer(saver.commit(commit_after(None), also=[job])))
        assert not self.is_written(ledger)

    def test_a_commit_is_not_made_without_its_job(self) -> None:
        ledger = self.ledger_of(run(version=2))
        saver, first = self.make_saver(ledger), commit_after(None)
        job = ledger.job(self.changes())
        refused(RecordConflict, lambda: answer(saver.commit(first, also=[job])))
        assert answer(saver.load("thread")) is None
        answer(saver.commit(first))
        second = commit_after(first.checkpoint.id, n=1)
        refused(RecordConflict, lambda: answer(saver.commit(second, also=[job])))
        assert [one.id for one in answer(saver.history("thread"))] == [first.checkpoint.id]
        assert not self.is_written(ledger)

    def test_a_job_shares_the_fate_of_results(self) -> None:
        ledger = self.ledger_of(run())
        saver, commit, task = self.make_saver(ledger), commit_after(None), TaskId("0" * 32)
        identity, line = answer(saver.commit(commit)), BranchKey("thread")
        job, again = ledger.job(self.changes()), ledger.job(self.changes())
        with suppress(StatewrightError):
            answer(saver.save_results(line, cast(Any, "f" * 32), Pending(errors={task: "first"}), also=[job]))
        assert not self.is_written(ledger)
        answer(saver.save_results(line, identity, Pending(errors={task: "second"}), also=[job]))
        assert self.is_written(ledger)
        failing = Pending(errors={task: "third"})
        refused(RecordConflict, lambda: answer(saver.save_results(line, identity, failing, also=[again])))
        loaded = answer(saver.load("thread"))
        assert loaded is not None
        assert loaded.pending.errors == {task: "second"}

    def test_a_job_shares_the_fate_of_a_deletion(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        answer(saver.commit(commit_after(None)))
        answer(saver.delete_thread("thread", also=[ledger.job(self.changes())]))
        assert answer(saver.load("thread")) is None
        assert self.is_written(ledger)
        first = commit_after(None)
        answer(saver.commit(first))
        for changes in (self.changes(), [Absent(Run, where(id="r1"))], [Delete(RunLabel, []), *self.changes()]):
            job = ledger.job(changes)
            refused(RecordConflict, lambda job=job: answer(saver.delete_thread("thread", also=[job])))
            loaded = answer(saver.load("thread"))
            assert loaded is not None
            assert self.is_written(ledger)
        answer(saver.commit(commit_after(first.checkpoint.id, n=1)))
        assert len(answer(saver.history("thread"))) == 2

    def test_a_job_is_done_though_there_is_no_thread_to_delete(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        answer(saver.delete_thread("thread", also=[ledger.job(self.changes())]))
        assert self.is_written(ledger)
        job = ledger.job(self.changes())
        refused(RecordConflict, lambda: answer(saver.delete_thread("thread", also=[job])))


class LedgerConformance(_Records, _Questions, _Logs, _Claims, _Commits):
    """The promises of the port, one test each."""


def _id(record: Record) -> str:
    return record.id


def _unique() -> list[tuple[type[Any], tuple[str, ...]]]:
    return [(kind, columns) for kind in RECORDS for columns in kind.UNIQUE]


def _optional(kind: type[Record]) -> list[str]:
    return [column.name for column in columns_of(kind) if column.optional]


def _apart(kind: type[Record]) -> dict[str, str]:
    """Values by which a record differs from another one where no two may have the same."""
    return {column: "apart" for columns in kind.UNIQUE for column in columns}


def _version(kind: type[Record], record: Any) -> dict[str, int]:
    return {"version": record.version} if kind is Run else {}
