"""1.7 and 2.11: which failures are retried, and how often."""

import pytest

from statewright.agents import is_worth_another_attempt
from statewright.errors import MissingApiKey, ModelUnavailable, RoutingError, ToolError
from statewright.workflow.states.engine.state_node import make_retry_policy
from statewright.workflow.states.language.model import RetryRule


def test_1_7_the_default_policy() -> None:
    policy = make_retry_policy(RetryRule(), RetryRule())
    assert policy is not None
    fields = (policy.initial_interval, policy.backoff_factor, policy.max_interval, policy.max_attempts, policy.jitter)
    assert fields == (0.5, 2.0, 128.0, 10, True)


def test_1_7_fields_of_the_state_override_those_of_the_workflow() -> None:
    policy = make_retry_policy(RetryRule(max_attempts=3), RetryRule(max_attempts=5, initial_interval=0))
    assert policy is not None
    assert (policy.max_attempts, policy.initial_interval, policy.max_interval) == (3, 0, 128.0)


def test_1_7_one_attempt_means_no_policy() -> None:
    assert make_retry_policy(RetryRule(max_attempts=1), RetryRule(max_attempts=5)) is None


def with_cause(cause: Exception | None) -> ToolError:
    error = ToolError("failed")
    error.__cause__ = cause
    return error


class UnknownError(Exception):
    def __init__(self, status: object = None) -> None:
        self.status = status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(), True),
        (ModelUnavailable("x", status=429), True),
        (ModelUnavailable("x", status=502), True),
        (ModelUnavailable("x"), True),
        (ModelUnavailable("x", status=403), False),
        (UnknownError(), True),
        (UnknownError(503), True),
        (UnknownError(429), True),
        (UnknownError(422), False),
        (with_cause(ConnectionError()), True),
        (with_cause(UnknownError(404)), False),
        (with_cause(None), False),
        (ValueError(), False),
        (RuntimeError(), False),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), False),
        (OSError(), False),
        (OverflowError(), False),
        (MissingApiKey("x"), False),
        (RoutingError("x"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=repr,
)
def test_2_11_only_temporary_failures_are_retried(error: BaseException, expected: bool) -> None:
    assert is_worth_another_attempt(error) is expected
