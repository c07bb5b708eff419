"""The section `[spending_limits]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.project.conftest import read, read_problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("[spending_limits]", {}),
        ("[spending_limits]\ntokens_per_day = 1_000_000", {"*": {"tokens_per_day": 1_000_000}}),
        (
            "[spending_limits]\ncost_per_day = 20\n[spending_limits.eu]\ncost_per_day = 2.5\nrequests_per_day = 9",
            {"*": {"cost_per_day": 20}, "eu": {"cost_per_day": 2.5, "requests_per_day": 9}},
        ),
        ('[spending_limits."*"]\nrequests_per_day = 5', {"*": {"requests_per_day": 5}}),
    ],
)
def test_limits_are_read_by_workspace(folder: Path, text: str, expected: Any) -> None:
    assert read(text, folder).spending_limits == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("tokens_per_day = 0", "spending_limits.tokens_per_day", "It must be a whole number of at least 1"),
        ("cost_per_day = 0", "spending_limits.cost_per_day", "It must be a number above 0"),
        ("cost_per_day = inf", "spending_limits.cost_per_day", "It must be a number above 0"),
        ("token_per_day = 5", "spending_limits.token_per_day", "Did you mean 'tokens_per_day'?"),
        ("[spending_limits.sales]\nrequests_per_day = 1.5", "spending_limits.sales.requests_per_day", "whole number"),
        ("[spending_limits.sales]", "spending_limits.sales", "It sets no limits."),
        (
            'cost_per_day = 1\n[spending_limits."*"]\ncost_per_day = 2',
            "spending_limits",
            "Set them in only one of the two",
        ),
    ],
)
def test_problems_name_the_key(folder: Path, text: str, path: str, expected: str) -> None:
    (problem,) = read_problems(f"[spending_limits]\n{text}", folder)
    assert path in problem
    assert expected in problem
