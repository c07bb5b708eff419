"""Usage limits of a network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.agents import AgentResult, UsageLimits
from statewright.agents.state.result import total_usage
from statewright.models import Usage

USED = Usage(input_tokens=10, output_tokens=5, cost=0.25)


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        ({}, None),
        ({"requests": 3}, None),
        ({"requests": 2}, "requests: 2 of 2"),
        ({"input_tokens": 10}, "input_tokens: 10 of 10"),
        ({"input_tokens": 11}, None),
        ({"output_tokens": 4}, "output_tokens: 5 of 4"),
        ({"tokens": 15}, "tokens: 15 of 15"),
        ({"tokens": 16}, None),
        ({"cost": 0.2}, "cost: 0.25 of 0.2"),
        ({"cost": 0.26}, None),
        ({"requests": 0}, "requests: 2 of 0"),
        ({"requests": 1, "tokens": 1}, "requests: 2 of 1"),
    ],
)
def test_a_reached_limit_is_named(limits: dict[str, Any], reached: str | None) -> None:
    assert UsageLimits(**limits).reached(USED, 2) == reached


def test_the_usage_of_results_is_added() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    results = [AgentResult(agent_name="a", messages=[], created_at=at, usage=USED, requests=2)] * 3
    assert total_usage(iter(results)) == (Usage(30, 15, 0.75), 6)
    assert total_usage([]) == (Usage(), 0)
