"""Values as text for a model."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from statewright.agents import as_text


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


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
        (circle(), "[[...]]"),
    ],
    ids=repr,
)
def test_text_stays_and_all_else_is_json_if_it_can_be(value: Any, text: str) -> None:
    assert as_text(value) == text
