"""Which failures of a state are tried again, how often and after how long."""

from __future__ import annotations

from typing import Final

from statewright.errors import ModelUnavailable, StatewrightError, ToolError
from statewright.graph import RetryPolicy
from statewright.workflow.states.model import RetryRule

USUAL: Final = RetryRule(initial_interval=0.5, backoff_factor=2.0, max_interval=128.0, max_attempts=10)
"""What the language says where nobody else does."""
_FINAL_STATUSES: Final = frozenset(range(400, 500)) - {429}
_FINAL: Final = (ValueError, TypeError, RuntimeError, LookupError, NameError, ArithmeticError, StatewrightError)


def retry_policy(own: RetryRule, of_workflow: RetryRule) -> RetryPolicy | None:
    """The policy of a state, field by field its own, that of the workflow, or the usual; None for a single attempt."""
    rules = (own, of_workflow, USUAL)

    def found(name: str) -> float:
        return next(value for rule in rules if (value := getattr(rule, name)) is not None)

    attempts = int(found("max_attempts"))
    if attempts == 1:
        return None
    return RetryPolicy(
        initial_interval=found("initial_interval"),
        backoff_factor=found("backoff_factor"),
        max_interval=found("max_interval"),
        max_attempts=attempts,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )


def is_worth_another_attempt(error: BaseException) -> bool:
    """Whether the same call may succeed later: connections, servers that fail or are busy, and what nobody knows.

    Not what the workflow itself does wrong. Routes are decided from an output that is there: they are not tried again.
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
    return isinstance(error, Exception) and not isinstance(error, (*_FINAL, OSError))


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that an error tells of, wherever its library puts it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None
