"""`Overwrite`, and finding it among updates."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, Overwrite
from statewright.channels.channel import find_overwrite


@pytest.mark.parametrize("value", [1, 0, None, False, "", [], {}, [1, 2], Overwrite(1)])
@pytest.mark.parametrize("form", ["object", "short", "long"])
def test_every_form_of_overwrite_is_found_with_any_value(value: Any, form: str) -> None:
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
def test_other_updates_are_not_overwrites(update: Any) -> None:
    assert find_overwrite([update]) is MISSING


def test_no_updates_contain_no_overwrite() -> None:
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
def test_two_overwrites_conflict_in_every_form(updates: list[Any]) -> None:
    with pytest.raises(Conflict, match="only one Overwrite per superstep"):
        find_overwrite(updates)


def test_overwrites_of_equal_values_are_equal() -> None:
    assert Overwrite([1]) == Overwrite([1])
    assert Overwrite([1]) != Overwrite([2])
    assert Overwrite(1) != 1


def test_an_overwrite_of_an_unhashable_value_is_hashable() -> None:
    overwrite = Overwrite([1])
    assert len({overwrite, overwrite}) == 1


def test_the_repr_of_an_overwrite_shows_its_value() -> None:
    assert repr(Overwrite(["a"])) == "Overwrite(['a'])"
