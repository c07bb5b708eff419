"""The decisions of approvals."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.workflow.steps.perform import check_decision, decision_key


@pytest.mark.parametrize(
    "answer",
    [{"decision": "approved"}, {"decision": "rejected", "decidedBy": "x"}, {"decision": "edited", "content": None}],
)
def test_valid_decisions_are_accepted(answer: Any) -> None:
    assert check_decision(answer) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "The decision is None. Choices: approved, rejected, edited."),
        ("approved", "The decision is None"),
        ({"decision": "Approved"}, "'Approved'"),
        ({"decision": "edited"}, "the content is missing"),
    ],
)
def test_invalid_decisions_are_rejected(answer: Any, message: str) -> None:
    assert message in (check_decision(answer) or "")


def test_the_decision_has_its_own_key() -> None:
    assert decision_key("ok") == "ok_decision"
