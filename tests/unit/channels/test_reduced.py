"""`Reduced`: the channel of a field with a reducer, which folds updates one by one."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, Overwrite, Reduced


def digits(old: int, new: int) -> int:
    return old * 10 + new


@pytest.mark.parametrize(
    ("current", "updates", "new"),
    [
        (1, [2, 3], 123),
        (1, [3, 2], 132),
        (0, [2], 2),
        (MISSING, [2, 3], 23),
        (MISSING, [5], 5),
        (MISSING, [0], 0),
    ],
)
def test_a_reducer_folds_updates_in_task_order(current: Any, updates: list[Any], new: int) -> None:
    assert Reduced(digits).apply(current, updates) == new


@pytest.mark.parametrize(
    ("updates", "new"),
    [
        ([5, Overwrite(7), 9], 7),
        ([Overwrite(None)], None),
        ([Overwrite(0), 9], 0),
        ([{"__overwrite__": 4}], 4),
        ([{"__overwrite__": None}, 5], None),
        ([{"type": "__overwrite__", "value": 4}], 4),
    ],
)
def test_an_overwrite_bypasses_the_reducer_and_wins_over_other_updates(updates: list[Any], new: Any) -> None:
    assert Reduced(operator.add).apply(1, updates) == new


@pytest.mark.parametrize("updates", [[Overwrite(1), Overwrite(2)], [Overwrite(1), 5, {"__overwrite__": 1}]])
def test_two_overwrites_conflict(updates: list[Any]) -> None:
    with pytest.raises(Conflict, match="one Overwrite"):
        Reduced(operator.add).apply(0, updates)


def test_the_reducer_is_called_with_none() -> None:
    seen: list[tuple[Any, Any]] = []

    def record(old: Any, new: Any) -> Any:
        seen.append((old, new))
        return new

    assert Reduced(record).apply(None, [None, 1]) == 1
    assert seen == [(None, None), (None, 1)]


def test_an_error_of_the_reducer_is_raised() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Reduced(operator.add).apply(1, ["text"])


def test_without_a_start_there_is_no_value_before_the_first_update() -> None:
    assert Reduced(max).start() is MISSING


def test_every_start_value_is_a_new_object() -> None:
    channel = Reduced(operator.or_, start=dict)
    assert channel.start() == {}
    assert channel.start() is not channel.start()


def test_the_delta_is_the_folded_value() -> None:
    assert Reduced(digits).delta([2, 3], 123) == 123
