"""The retry policy of agents: which failures of a model call are retried, and how often.

What fails once the model has answered is not retried: a bug in a hook would be paid for with another call of the model
each time. `not_retried` marks such errors.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from statewright.errors import ModelUnavailable, StatewrightError, ToolError
from statewright.graph import RetryPolicy, default_retry_on

FIRST_DELAY: Final = 0.5
"""Seconds before the second attempt; each later delay is twice as long."""
LONGEST_DELAY: Final = 60.0
_FINAL: Final = "_statewright_not_retried"
_FINAL_STATUSES: Final = frozenset(range(400, 500)) - {408, 409, 425, 429}


def retry_policy(retries: int | RetryPolicy) -> RetryPolicy | None:
    """Return the policy of so many retries; None for 0. Honours Retry-After."""
    if isinstance(retries, RetryPolicy):
        return replace(retries, retry_on=partial(_is_retried, retries))
    if retries <= 0:
        return None
    return RetryPolicy(
        initial_interval=FIRST_DELAY,
        backoff_factor=2.0,
        max_interval=LONGEST_DELAY,
        max_attempts=retries + 1,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )


@contextmanager
def not_retried() -> Generator[None]:
    """Mark the exceptions raised inside: no policy made by `retry_policy` retries after them."""
    try:
        yield
    except Exception as error:
        with suppress(AttributeError):  # an exception with __slots__
            error.__dict__[_FINAL] = True
        raise


def _is_retried(policy: RetryPolicy, error: BaseException) -> bool:
    return _FINAL not in vars(error) and policy.matches(error)


def is_worth_another_attempt(error: BaseException) -> bool:
    """True if the same call may succeed later: connections, servers that fail or are busy, and unknown errors.

    Not errors of the program itself, and none that `not_retried` has marked.
    """
    if _FINAL in vars(error):
        return False
    if isinstance(error, ModelUnavailable):
        return error.status not in _FINAL_STATUSES
    if isinstance(error, ToolError):
        cause = error.__cause__
        return cause is not None and is_worth_another_attempt(cause)
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    status = status_of(error)
    if status is not None:
        return status not in _FINAL_STATUSES
    is_unforeseen = isinstance(error, Exception) and not isinstance(error, StatewrightError)
    return is_unforeseen and default_retry_on(error)


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that an error tells of, wherever its library puts it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None
