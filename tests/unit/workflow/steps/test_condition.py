"""The truth of values as in JavaScript, and paths to them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.workflow.steps.template import is_expression_true, is_true


@pytest.mark.parametrize("value", [80, -1, 0.5, "0", "false", " ", True, [], {}, [0], {"a": None}, float("inf")])
def test_true_values(value: Any) -> None:
    assert is_true(value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, "", None, False, float("nan")])
def test_false_values(value: Any) -> None:
    assert not is_true(value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("score", True),
        (" score ", True),
        ("lead.score", True),
        ("lead.items.0", True),
        ("lead.items.1", False),
        ("lead.items.00", False),
        (f"lead.items.{'9' * 5000}", False),
        ("lead.items.length", False),
        ("lead.missing.more", False),
        ("score.more", False),
        ("missing", False),
        ("", False),
        ("lead.none", False),
    ],
)
def test_paths_into_the_state_are_evaluated(expression: str, expected: bool) -> None:
    assert is_expression_true(expression, {"score": 80, "lead": {"score": 1, "items": ["x"], "none": None}}) is expected
