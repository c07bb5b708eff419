"""What is a decision."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.workflow.steps.perform import check_decision, decision_key


@pytest.mark.parametrize(
    "answer",
    [{"decision": "approved"}, {"decision": "rejected", "decidedBy": "x"}, {"decision": "edited", "content": None}],
)
def test_decisions(answer: Any) -> None:
    assert check_decision(answer) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, "The decision is None. Choices: approved, rejected, edited."),
        ("approved", "The decision is None"),
        ({"decision": "Approved"}, "'Approved'"),
        ({"decision": "edited"}, "the content is missing"),
    ],
)
def test_what_is_none(answer: Any, said: str) -> None:
    assert said in (check_decision(answer) or "")


def test_the_field_of_its_result() -> None:
    assert decision_key("ok") == "ok_decision"
