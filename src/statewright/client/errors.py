"""Conversion of error responses to exceptions of the classes that the service raises."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final, cast

from statewright.client.call import Call, Reply
from statewright.errors import (
    Forbidden,
    InvalidRequest,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    RequestConflict,
    ServiceError,
    ServiceUnreachable,
    SignalMismatch,
    SpendingLimitReached,
    TooManyRequests,
    Unauthorized,
)

_ERRORS: Final[tuple[type[ServiceError], ...]] = (
    SignalMismatch,
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    RequestConflict,
    PayloadTooLarge,
)
_BY_CODE: Final = {cls.api_code: cls for cls in _ERRORS}
_BY_STATUS: Final = {cls.status: cls for cls in _ERRORS}


def make_error(reply: Reply, call: Call[Any]) -> ServiceError:
    """Return the exception for an error response. Its class is found by the code, or else by the status."""
    error = _read_error(reply)
    code = str(error.get("code", ""))
    message = str(error.get("message") or f"{call.method} {call.path} was answered with status {reply.status}.")
    details: Any = error.get("details")
    if code == SpendingLimitReached.api_code and (limit := _spending_limit(details)) is not None:
        return limit
    if code == TooManyRequests.api_code or reply.status == TooManyRequests.status:
        return TooManyRequests(message, retry_after=retry_after(reply) or 1.0)
    if code == InvalidTransition.api_code:
        return _invalid_transition(message, details)
    cls = _BY_CODE.get(code) or _BY_STATUS.get(reply.status)
    if cls is not None:
        return cls(message, details=details)
    return ServiceError(message, details={"status": reply.status, "code": code, "details": details})


def _read_error(reply: Reply) -> dict[str, Any]:
    """Return the error in the envelope of a response; an empty map if there is none, as in responses of proxies."""
    try:
        return dict(json.loads(reply.content)["error"])
    except (ValueError, TypeError, KeyError):
        return {}


def _spending_limit(details: Any) -> SpendingLimitReached | None:
    """Rebuild the error from its details; None if they are incomplete."""
    try:
        ends_at = datetime.fromisoformat(details["endsAt"])
        now = ends_at - timedelta(seconds=details["retryAfter"])
        used, most = float(details["used"]), float(details["most"])
        return SpendingLimitReached(
            str(details["workspaceId"]), str(details["limit"]), used=used, most=most, ends_at=ends_at, now=now
        )
    except (KeyError, TypeError, ValueError):
        return None


def _invalid_transition(message: str, details: Any) -> InvalidTransition:
    """Rebuild the error with its original message. Its constructor needs data that only the service has."""
    error = InvalidTransition.__new__(InvalidTransition)
    ServiceError.__init__(error, message, details=details)
    states = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    error.before, error.after = str(states.get("status", "")), str(states.get("wanted", ""))
    return error


def retry_after(reply: Reply) -> float | None:
    """Return the number of seconds in the header Retry-After; None if it is missing or invalid."""
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:
        return None


def make_unreachable_error(call: Call[Any], base_url: str, reason: object) -> ServiceUnreachable:
    """Return the exception for a request that has received no response."""
    uncertainty = "" if call.repeatable else " It is not known whether the request was carried out."
    return ServiceUnreachable(
        f"{call.method} {base_url}{call.path} got no answer: {reason}.{uncertainty} "
        f"Check that the service is running: GET {base_url}/health.",
        details={"reason": str(reason), "repeatable": call.repeatable},
    )
