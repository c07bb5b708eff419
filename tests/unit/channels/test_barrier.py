"""`Barrier`: the channel that collects arrivals by name."""

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
def test_arrivals_are_collected_until_all_have_arrived(
    current: Any, updates: list[Any], arrived: Iterable[str]
) -> None:
    before = current if current is MISSING else frozenset(current)
    assert Barrier("abc").apply(before, updates) == frozenset(arrived)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("ana", r"'ana' is not expected at this barrier. Did you mean 'anna'\? Expected: anna, bert"),
        (["anna", "carl"], "'carl' is not expected"),
        ("", "'' is not expected"),
    ],
)
def test_an_unexpected_name_is_refused(update: Any, message: str) -> None:
    with pytest.raises(InvalidUpdateError, match=message):
        Barrier({"anna", "bert"}).apply(frozenset(), [update])


def test_a_string_is_one_name() -> None:
    assert Barrier(["ab", "a", "b"]).apply(MISSING, ["ab"]) == {"ab"}


def test_a_barrier_starts_without_arrivals() -> None:
    assert Barrier("ab").start() == frozenset()


def test_the_names_can_be_any_iterable() -> None:
    assert Barrier(name for name in ("a", "b")).names == {"a", "b"}
