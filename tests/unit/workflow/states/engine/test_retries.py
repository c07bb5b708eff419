"""1.7 and 2.11: which failures are tried again, and how often."""

import pytest

from statewright.agents import is_worth_another_attempt
from statewright.errors import MissingApiKey, ModelUnavailable, RoutingError, ToolError
from statewright.workflow.states.engine.state_node import make_retry_policy
from statewright.workflow.states.language.model import RetryRule


def test_1_7_the_usual_policy() -> None:
    policy = make_retry_policy(RetryRule(), RetryRule())
    assert policy is not None
    found = (policy.initial_interval, policy.backoff_factor, policy.max_interval, policy.max_attempts, policy.jitter)
    assert found == (0.5, 2.0, 128.0, 10, True)


def test_1_7_each_field_is_taken_from_the_state_then_from_the_workflow() -> None:
    policy = make_retry_policy(RetryRule(max_attempts=3), RetryRule(max_attempts=5, initial_interval=0))
    assert policy is not None
    assert (policy.max_attempts, policy.initial_interval, policy.max_interval) == (3, 0, 128.0)


def test_1_7_one_attempt_is_no_policy() -> None:
    assert make_retry_policy(RetryRule(max_attempts=1), RetryRule(max_attempts=5)) is None


def caused(cause: Exception | None) -> ToolError:
    error = ToolError("failed")
    error.__cause__ = cause
    return error


class Unknown(Exception):
    def __init__(self, status: object = None) -> None:
        self.status = status


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionRefusedError(), True),
        (ModelUnavailable("x", status=429), True),
        (ModelUnavailable("x", status=502), True),
        (ModelUnavailable("x"), True),
        (ModelUnavailable("x", status=403), False),
        (Unknown(), True),
        (Unknown(503), True),
        (Unknown(429), True),
        (Unknown(422), False),
        (caused(ConnectionError()), True),
        (caused(Unknown(404)), False),
        (caused(None), False),
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
def test_2_11_what_is_worth_another_attempt(error: BaseException, again: bool) -> None:
    assert is_worth_another_attempt(error) is again
