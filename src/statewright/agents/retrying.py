"""Which failures of an agent are tried again, and how often."""

from __future__ import annotations

from typing import Final

from statewright.errors import ModelUnavailable, StatewrightError, ToolError
from statewright.graph import RetryPolicy, default_retry_on

FIRST_DELAY: Final = 0.5
"""Seconds before the second attempt; each later delay is twice as long."""
LONGEST_DELAY: Final = 60.0
_FINAL_STATUSES: Final = frozenset(range(400, 500)) - {408, 409, 425, 429}


def retry_policy(retries: int | RetryPolicy) -> RetryPolicy | None:
    """The policy of so many retries; None for none. A service that says how long to wait is obeyed."""
    if isinstance(retries, RetryPolicy):
        return retries
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


def is_worth_another_attempt(error: BaseException) -> bool:
    """Whether the same call may succeed later: connections, servers that fail or are busy, and what nobody knows.

    Not what the program itself does wrong.
    """
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
