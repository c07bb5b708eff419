"""`LastValue`: the channel of a plain field, with one writer per superstep."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, LastValue, Overwrite


@pytest.mark.parametrize("current", [MISSING, None, 1, [1]])
@pytest.mark.parametrize("update", [2, 0, False, "", None, [], {"a": 1}])
def test_the_update_replaces_any_value(current: Any, update: Any) -> None:
    assert LastValue().apply(current, [update]) is update


@pytest.mark.parametrize("value", [2, None, [], Overwrite(1)])
def test_an_overwrite_is_unpacked_once(value: Any) -> None:
    assert LastValue().apply(1, [Overwrite(value)]) is value


@pytest.mark.parametrize("updates", [[1, 2], [1, 1], [None, None], [1, Overwrite(2)], [Overwrite(1), Overwrite(2)]])
def test_two_writers_conflict_even_if_they_agree(updates: list[Any]) -> None:
    with pytest.raises(Conflict, match="keeps one value"):
        LastValue().apply(MISSING, updates)


def test_there_is_no_value_before_the_first_update() -> None:
    assert LastValue().start() is MISSING


def test_the_delta_is_the_new_value() -> None:
    assert LastValue().delta([2], 2) == 2
