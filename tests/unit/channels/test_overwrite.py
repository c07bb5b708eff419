"""`Overwrite` as a value, and how it is found among updates."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, Overwrite
from statewright.channels.channel import find_overwrite


@pytest.mark.parametrize("value", [1, 0, None, False, "", [], {}, [1, 2], Overwrite(1)])
@pytest.mark.parametrize("form", ["object", "short", "long"])
def test_any_value_can_be_set_in_any_form(value: Any, form: str) -> None:
    forms: dict[str, Any] = {
        "object": Overwrite(value),
        "short": {"__overwrite__": value},
        "long": {"type": "__overwrite__", "value": value},
    }
    assert find_overwrite([forms[form]]) is value
    assert find_overwrite(["before", {"a": 1}, forms[form], {"a": 1}, "after"]) is value


@pytest.mark.parametrize(
    "update",
    [
        1,
        None,
        [],
        {},
        Overwrite,
        "__overwrite__",
        ["__overwrite__", 1],
        {"a": 1},
        {"__overwrite__": 1, "a": 2},
        {"type": "__overwrite__"},
        {"type": "overwrite", "value": 1},
        {"type": "__overwrite__", "other": 1},
        {"type": "__overwrite__", "value": 1, "a": 2},
        {"value": 1},
        [Overwrite(1)],
    ],
)
def test_what_only_looks_like_one_is_an_update_like_any_other(update: Any) -> None:
    assert find_overwrite([update]) is MISSING


def test_no_updates_set_nothing() -> None:
    assert find_overwrite([]) is MISSING


@pytest.mark.parametrize(
    "updates",
    [
        [Overwrite(1), Overwrite(2)],
        [Overwrite(1), Overwrite(1)],
        [Overwrite(None), "between", {"__overwrite__": None}],
        [{"__overwrite__": 1}, {"type": "__overwrite__", "value": 1}],
    ],
)
def test_two_of_them_conflict_whatever_their_form_and_value(updates: list[Any]) -> None:
    with pytest.raises(Conflict, match="only one Overwrite per superstep"):
        find_overwrite(updates)


def test_two_of_one_value_are_equal() -> None:
    assert Overwrite([1]) == Overwrite([1])
    assert Overwrite([1]) != Overwrite([2])
    assert Overwrite(1) != 1


def test_one_of_an_unhashable_value_can_stand_in_a_set() -> None:
    one = Overwrite([1])
    assert len({one, one}) == 1


def test_it_shows_its_value() -> None:
    assert repr(Overwrite(["a"])) == "Overwrite(['a'])"
