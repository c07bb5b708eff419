"""Tests of queries: conditions, order, limits, counts and groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from statewright.errors import SerdeError
from statewright.futures import resolve
from statewright.runs import (
    RECORDS,
    Among,
    Bucket,
    Condition,
    Delete,
    Insert,
    Order,
    Run,
    RunLabel,
    RunStatus,
    Update,
    UpdateAll,
    any_of,
    columns_of,
    where,
)
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.ledger.samples import (
    NOW,
    SOON,
    LedgerSuite,
    distinct_values,
    full_record,
    get_record,
    ids,
    label,
    minimal_record,
    run,
    write,
)
from statewright.text import ascii_lower


class QueryTests(LedgerSuite):
    """Queries return the records that match, and no others."""

    def test_every_comparison_selects_the_matching_records(self) -> None:
        times = [None, *(NOW + timedelta(microseconds=n) for n in range(3))]
        ledger = self.ledger_of(*(run(f"r{index}", due_at=at) for index, at in enumerate(times)))
        matching_second = {"=": [2], "!=": [0, 1, 3], "<": [1], "<=": [1, 2], ">": [3], ">=": [2, 3]}
        matching_none = {"=": [0], "!=": [1, 2, 3]}
        for operator, indexes in matching_second.items():
            matches = ids(ledger, Run, Condition("due_at", cast(Any, operator), times[2]))
            assert matches == [f"r{index}" for index in indexes]
            matches = ids(ledger, Run, Condition("due_at", cast(Any, operator), None))
            assert matches == [f"r{index}" for index in matching_none.get(operator, [])]

    def test_records_can_be_selected_by_every_kind_of_column(self) -> None:
        for record_type in RECORDS:
            ledger = self.ledger_of(
                full_record(record_type, "1"), replace(minimal_record(record_type, "2"), **distinct_values(record_type))
            )
            for column in columns_of(record_type):
                value = getattr(full_record(record_type, "1"), column.name)
                if column.kind not in ("json", "names", "sealed"):
                    matches = ids(ledger, record_type, Condition(column.name, "=", value))
                    is_shared = getattr(get_record(ledger, record_type, "2"), column.name) == value
                    assert matches == (["1", "2"] if is_shared else ["1"])

    def test_texts_are_compared_character_by_character(self) -> None:
        texts = ["", " ", "%", "A", "_", "a", "a ", "ab", "ä", "🦉", "'; --"]
        ledger = self.ledger_of(*(label(str(index), text) for index, text in enumerate(texts)))
        for index, text in enumerate(texts):
            assert ids(ledger, RunLabel, *where(value=text)) == [str(index)]
            assert ids(ledger, RunLabel, Condition("value", "in", [text])) == [str(index)]
        matches = resolve(ledger.find(RunLabel, order=Order("value")))
        assert [record.value for record in matches] == sorted(texts)

    def test_text_with_a_null_character_is_refused(self) -> None:
        ledger = self.ledger_of(label("1", "a"))
        raises(SerdeError, lambda: write(ledger, Insert(label("2", "a\x00"))))
        raises(SerdeError, lambda: write(ledger, Update(RunLabel, "1", {"value": "a\x00"})))
        assert [record.value for record in resolve(ledger.find(RunLabel))] == ["a"]

    def test_conditions_are_combined_with_and(self) -> None:
        ledger = self.ledger_of(label("1", "a"), label("2", "a", name="m"), label("3", "b"))
        assert ids(ledger, RunLabel, *where(value="a", name="n")) == ["1"]
        assert ids(ledger, RunLabel, *where(value="a"), Condition("value", "!=", "a")) == []

    def test_records_can_be_selected_by_one_of_several_values(self) -> None:
        ledger = self.ledger_of(*(run(f"r{n:04}", parent_id=str(n) if n else None) for n in range(3000)))
        assert ids(ledger, Run, Condition("parent_id", "in", ["7", "2", "7", "none"])) == ["r0002", "r0007"]
        assert ids(ledger, Run, Condition("parent_id", "in", [])) == []
        assert ids(ledger, Run, Condition("parent_id", "in", [None, "1"])) == ["r0000", "r0001"]
        assert ids(ledger, Run, Condition("parent_id", "in", [None])) == ["r0000"]
        assert ids(ledger, Run, Condition("status", "in", {RunStatus.FAILED})) == []
        many = [str(n) for n in range(2, 3000)]
        assert resolve(ledger.count(Run, [Condition("parent_id", "in", many)])) == 2998

    def test_records_can_be_selected_by_values_of_other_records(self) -> None:
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
        assert ids(ledger, Run, Condition("parent_id", "in", Among(Run, "parent_id", where(id="r0")))) == [
            "r0",
            "r1",
        ]
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

    def test_results_are_limited_and_offset(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(6)))
        assert ids(ledger, RunLabel, limit=2) == ["0", "1"]
        assert ids(ledger, RunLabel, limit=2, offset=5) == ["5"]
        assert ids(ledger, RunLabel, offset=4) == ["4", "5"]
        assert (
            ids(ledger, RunLabel, limit=0) == ids(ledger, RunLabel, offset=9) == ids(ledger, RunLabel, limit=-1) == []
        )
        assert ids(ledger, RunLabel, limit=2, offset=-3) == ["0", "1"]
        assert ids(ledger, RunLabel, offset=-3) == ids(ledger, RunLabel)
        matches = ids(ledger, RunLabel, *where(value="1"), order=Order("id", descending=True), limit=1, offset=1)
        assert matches == ["3"]

    def test_records_are_counted(self) -> None:
        ledger = self.ledger_of(*(label(str(n), str(n % 2)) for n in range(5)))
        assert resolve(ledger.count(RunLabel)) == 5
        assert resolve(ledger.count(RunLabel, where(value="1"))) == 2

    def test_records_are_grouped_and_their_columns_summed(self) -> None:
        steps = [None, "a", "a", "b", None]
        ledger = self.ledger_of(
            *(run(f"r{n}", current_step=step, total_cost=n / 2, last_event=n) for n, step in enumerate(steps)),
            run("x", graph="other", status=RunStatus.FAILED, begun=True, due_at=NOW),
        )
        sums = ["total_cost", "last_event"]
        groups = resolve(ledger.groups(Run, ["current_step"], where=where(graph="g"), sums=sums))
        assert list(groups) == [((None,), 2, (2.0, 4.0)), (("a",), 2, (1.5, 3.0)), (("b",), 1, (1.5, 3.0))]
        groups = resolve(ledger.groups(Run, ["status", "begun", "due_at"], where=[Condition("graph", "!=", "g")]))
        assert list(groups) == [((RunStatus.FAILED, True, NOW), 1, ())]
        assert isinstance(groups[0].key[0], RunStatus)
        assert list(resolve(ledger.groups(Run, [], sums=["last_event"]))) == [((), 6, (10.0,))]
        assert list(resolve(ledger.groups(Run, [], where=where(id="none")))) == []

    def test_records_are_grouped_by_periods(self) -> None:
        times = (-61.0, -60.0, -0.000001, 0.0, 59.999999, 60.0, 3600.0)
        runs = [
            run(f"r{index}", due_at=NOW + timedelta(seconds=seconds), graph="a" if index % 2 else "b", total_cost=1.5)
            for index, seconds in enumerate(times)
        ]
        ledger = self.ledger_of(*runs, run("without a time", due_at=None))
        groups = resolve(ledger.groups(Run, (), bucket=Bucket("due_at", NOW, 60)))
        assert [(group.key, group.size) for group in groups] == [
            ((-2,), 1),
            ((-1,), 2),
            ((0,), 2),
            ((1,), 1),
            ((60,), 1),
        ]
        groups = resolve(
            ledger.groups(
                Run, ["graph"], bucket=Bucket("due_at", NOW, 3600), where=where(graph="a"), sums=["total_cost"]
            )
        )
        assert [tuple(group) for group in groups] == [((-1, "a"), 1, (1.5,)), ((0, "a"), 2, (3.0,))]

    def test_texts_can_be_selected_by_a_part(self) -> None:
        texts = ["", "Abc", "xABcx", "a%c", "a_c", "a\\c", "äbc", "ÄBC", "%"]
        ledger = self.ledger_of(*(label(str(index), text) for index, text in enumerate(texts)))
        for part in ("", "abc", "ABC", "%", "_", "\\", "bc", "ä", "nowhere", "a\x00"):
            expected = [
                str(index)
                for index, text in enumerate(texts)
                if "\x00" not in part and ascii_lower(part) in ascii_lower(text)
            ]
            assert ids(ledger, RunLabel, Condition("value", "contains", part)) == expected
        without = self.ledger_of(run("r1", sequence="a"), run("r2", sequence=None))
        assert ids(without, Run, Condition("sequence", "contains", "")) == ["r1"]

    def test_records_can_be_selected_by_alternatives(self) -> None:
        labels = [label("1", "x"), label("2", "y")]
        labels[0].run_id, labels[1].run_id = "r1", "r2"
        ledger = self.ledger_of(run("r1", graph="a"), run("r2", graph="a"), run("r3", graph="b"), *labels)
        labelled = [Condition("id", "in", Among(RunLabel, "run_id", where(value="x")))]
        assert ids(ledger, Run, any_of(labelled, where(graph="b"))) == ["r1", "r3"]
        assert ids(ledger, Run, any_of(labelled, where(graph="b")), *where(id="r3")) == ["r3"]
        assert ids(ledger, Run, any_of([*labelled, *where(graph="b")], [any_of(where(id="r2"))])) == ["r2"]
        assert ids(ledger, Run, any_of()) == []
        assert ids(ledger, Run, any_of([])) == ["r1", "r2", "r3"]

    def test_none_adds_nothing_to_a_sum(self) -> None:
        ledger = self.ledger_of(run("r1", concurrency_limit=2), run("r2"), run("r3", graph="x"))
        groups = resolve(ledger.groups(Run, ["graph"], sums=["concurrency_limit"]))
        assert list(groups) == [(("g",), 2, (2.0,)), (("x",), 1, (0.0,))]
