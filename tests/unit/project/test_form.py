"""What values must be."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from statewright.project.reader import COUNT, DURATION, TEMPERATURE, TEXTS, ValueType, kind_of


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (COUNT, [1, 99], [0, 1.0, True, "1"]),
        (DURATION, [1, 0.5], [0, -1, True, "1"]),
        (TEMPERATURE, [0, 2, 0.5], [-1, 2.1, False, "x"]),
        (TEXTS, [[], ["a"]], ["a", [1], {}]),
    ],
)
def test_what_fits_and_what_does_not(form: ValueType, good: list[Any], bad: list[Any]) -> None:
    assert all(map(form.accepts, good))
    assert not any(map(form.accepts, bad))


def test_values_are_called_by_what_they_are() -> None:
    kinds = [kind_of(value) for value in (True, "x", 1, 1.5, [], {}, date(2020, 1, 1))]
    assert kinds == ["a boolean", "a string", "a number", "a number", "a list", "a table", "a date or time"]
