"""Changes of the ledger: their classes, fields and defaults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from statewright.runs import (
    Absent,
    Advance,
    Among,
    Announce,
    Change,
    Condition,
    Delete,
    Forget,
    Insert,
    NewEvent,
    Plus,
    Run,
    RunEvent,
    RunLabel,
    Spend,
    Update,
    UpdateAll,
    where,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_where_makes_conditions_of_equality() -> None:
    assert where(status="pending", claim=None) == [Condition("status", "=", "pending"), Condition("claim", "=", None)]
    assert where() == []


def test_change_is_a_union_of_nine_classes() -> None:
    assert set(get_args(Change)) == {Insert, Spend, Update, UpdateAll, Delete, Absent, Advance, Announce, Forget}


def test_changes_can_be_matched_by_position() -> None:
    label = RunLabel(id="l", run_id="r", name="n", value="v")
    changes: list[Any] = [
        Insert(label),
        Update(Run, "r", {"graph": "g"}, where(version=1)),
        UpdateAll(Run, where(graph="g"), {"graph": "h"}),
        Delete(RunLabel, where(run_id="r")),
        Forget("r"),
    ]
    fields = []
    for change in changes:
        match change:
            case Insert(record):
                fields.append(record.id)
            case Update(kind, record_id, values, expect):
                fields.append((kind, record_id, dict(values), list(expect)))
            case UpdateAll(kind, conditions, values):
                fields.append((kind, list(conditions), dict(values)))
            case Delete(kind, conditions):
                fields.append((kind, list(conditions)))
            case Forget(run_id):
                fields.append(run_id)
    assert fields == [
        "l",
        (Run, "r", {"graph": "g"}, where(version=1)),
        (Run, where(graph="g"), {"graph": "h"}),
        (RunLabel, where(run_id="r")),
        "r",
    ]


def test_an_advance_starts_without_written_events() -> None:
    first, second = Advance("r", NOW), Advance("r", NOW)
    first.written_events.append(RunEvent("r", 1, "A", {}, None, NOW))
    assert (second.written_events, second.values, second.events, second.expect) == ([], {}, (), ())


def test_parts_of_changes_are_compared_by_value() -> None:
    assert Plus(1) == Plus(1)
    assert Among(Run, "id", ()) == Among(Run, "id", ())
    assert NewEvent("A", {"n": 1}) == ("A", {"n": 1}, None)
    assert Announce("w", "a", {}, NOW).run_id is None
