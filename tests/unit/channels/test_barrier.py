"""The channel that counts arrivals by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from statewright.channels import MISSING, Barrier
from statewright.errors import InvalidUpdateError


@pytest.mark.parametrize(
    ("current", "updates", "arrived"),
    [
        ("", ["a"], "a"),
        (MISSING, ["a"], "a"),
        ("a", [["b"]], "ab"),
        ("a", ["a"], "a"),
        ("", ["a", "b"], "ab"),
        ("", [("a", "b"), {"c"}], "abc"),
        ("a", [[]], "a"),
        ("", ["a", "b", "c", "a"], "abc"),
        ("abc", ["a"], "a"),
        ("abc", [[]], ""),
    ],
)
def test_who_has_arrived(current: Any, updates: list[Any], arrived: Iterable[str]) -> None:
    before = current if current is MISSING else frozenset(current)
    assert Barrier("abc").apply(before, updates) == frozenset(arrived)


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ("ana", r"'ana' is not expected at this barrier. Did you mean 'anna'\? Expected: anna, bert"),
        (["anna", "carl"], "'carl' is not expected"),
        ("", "'' is not expected"),
    ],
)
def test_a_name_that_nobody_expects_is_refused(update: Any, said: str) -> None:
    with pytest.raises(InvalidUpdateError, match=said):
        Barrier({"anna", "bert"}).apply(frozenset(), [update])


def test_a_name_is_one_name_and_not_its_letters() -> None:
    assert Barrier(["ab", "a", "b"]).apply(MISSING, ["ab"]) == {"ab"}


def test_nobody_has_arrived_at_first() -> None:
    assert Barrier("ab").start() == frozenset()


def test_the_names_may_come_from_anything_that_can_be_iterated() -> None:
    assert Barrier(name for name in ("a", "b")).names == {"a", "b"}
