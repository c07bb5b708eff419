"""Retry policies of steps."""

from __future__ import annotations

import pytest

from statewright.errors import (
    BudgetExceeded,
    InternalError,
    InvalidUpdateError,
    ModelUnavailable,
    NodeTimeoutError,
    StorageUnavailable,
    ToolError,
)
from statewright.workflow.steps import StepFailed
from statewright.workflow.steps.compile import StepRetry, make_retry_policy, should_retry
from statewright.workflow.steps.model import Retry


def test_the_policy_follows_the_definition() -> None:
    policy = make_retry_policy(Retry(max_attempts=5, backoff_ms=200, backoff_multiplier=3, max_backoff_ms=1500))
    assert isinstance(policy, StepRetry)
    assert policy.max_attempts == 5
    for attempt, maximum in enumerate([0.2, 0.6, 1.5, 1.5], 1):
        assert policy.delay(attempt, 1.0) == pytest.approx(maximum)
        assert policy.delay(attempt, 0.0) == pytest.approx(maximum / 2)
        assert policy.delay(attempt, 0.5) == pytest.approx(maximum * 0.75)


def test_the_default_policy() -> None:
    policy = make_retry_policy(Retry())
    assert policy is not None
    assert (policy.max_attempts, policy.delay(1, 1.0), policy.delay(2, 1.0), policy.delay(19, 1.0)) == (3, 1, 2, 300)


def test_one_attempt_needs_no_policy() -> None:
    assert make_retry_policy(Retry(max_attempts=1)) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StepFailed("no"), True),
        (StepFailed("no", is_final=True), False),
        (ValueError(), True),
        (KeyError(), True),
        (ModelUnavailable("busy"), True),
        (ToolError("broken"), True),
        (NodeTimeoutError("a", "run", 1.0), True),
        (InvalidUpdateError("wrong"), False),
        (InternalError("ours"), False),
        (StorageUnavailable("disk"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_only_some_errors_are_retried(error: BaseException, expected: bool) -> None:
    assert should_retry(error) is expected


def test_an_exceeded_budget_is_not_retried() -> None:
    assert not should_retry(BudgetExceeded.__new__(BudgetExceeded))
