"""Changes are values: they say what is to be done, and nothing is done by making them."""

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


def test_conditions_are_equal_to_values() -> None:
    assert where(status="pending", claim=None) == [Condition("status", "=", "pending"), Condition("claim", "=", None)]
    assert where() == []


def test_there_are_nine_kinds_of_changes() -> None:
    assert set(get_args(Change)) == {Insert, Spend, Update, UpdateAll, Delete, Absent, Advance, Announce, Forget}


def test_changes_say_what_they_do_by_position() -> None:
    label = RunLabel(id="l", run_id="r", name="n", value="v")
    changes: list[Any] = [
        Insert(label),
        Update(Run, "r", {"graph": "g"}, where(version=1)),
        UpdateAll(Run, where(graph="g"), {"graph": "h"}),
        Delete(RunLabel, where(run_id="r")),
        Forget("r"),
    ]
    found = []
    for change in changes:
        match change:
            case Insert(record):
                found.append(record.id)
            case Update(kind, identity, values, expect):
                found.append((kind, identity, dict(values), list(expect)))
            case UpdateAll(kind, fitting, values):
                found.append((kind, list(fitting), dict(values)))
            case Delete(kind, fitting):
                found.append((kind, list(fitting)))
            case Forget(run_id):
                found.append(run_id)
    assert found == [
        "l",
        (Run, "r", {"graph": "g"}, where(version=1)),
        (Run, where(graph="g"), {"graph": "h"}),
        (RunLabel, where(run_id="r")),
        "r",
    ]


def test_an_advance_has_nothing_written_at_first() -> None:
    one, other = Advance("r", NOW), Advance("r", NOW)
    one.written_events.append(RunEvent("r", 1, "A", {}, None, NOW))
    assert (other.written_events, other.values, other.events, other.expect) == ([], {}, (), ())


def test_small_values_are_equal_where_their_parts_are() -> None:
    assert Plus(1) == Plus(1)
    assert Among(Run, "id", ()) == Among(Run, "id", ())
    assert NewEvent("A", {"n": 1}) == ("A", {"n": 1}, None)
    assert Announce("w", "a", {}, NOW).run_id is None
