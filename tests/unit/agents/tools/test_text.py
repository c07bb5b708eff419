"""Values as text for a model."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from statewright.agents import as_text


def endless_list() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({"ä": [1, None]}, '{"ä": [1, null]}'),
        ([date(2026, 1, 2)], '["2026-01-02"]'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (endless_list(), "[[...]]"),
    ],
    ids=repr,
)
def test_text_is_unchanged_and_other_values_become_json_if_possible(value: Any, text: str) -> None:
    assert as_text(value) == text
