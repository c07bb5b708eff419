"""Refusals of the service as errors: the very tree that the service itself raises."""

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

_PLAIN: Final[tuple[type[ServiceError], ...]] = (
    SignalMismatch,
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    RequestConflict,
    PayloadTooLarge,
)
_BY_CODE: Final = {kind.api_code: kind for kind in _PLAIN}
_BY_STATUS: Final = {kind.status: kind for kind in _PLAIN}


def error_of(reply: Reply, call: Call[Any]) -> ServiceError:
    """The error that a refusal means, by its code, and by its status where the code is not known."""
    told = _told(reply)
    code = str(told.get("code", ""))
    message = str(told.get("message") or f"{call.method} {call.path} was answered with status {reply.status}.")
    details: Any = told.get("details")
    if code == SpendingLimitReached.api_code and (spent := _spending_limit(details)) is not None:
        return spent
    if code == TooManyRequests.api_code or reply.status == TooManyRequests.status:
        return TooManyRequests(message, retry_after=retry_after(reply) or 1.0)
    if code == InvalidTransition.api_code:
        return _invalid_transition(message, details)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(reply.status)
    if kind is not None:
        return kind(message, details=details)
    return ServiceError(message, details={"status": reply.status, "code": code, "details": details})


def _told(reply: Reply) -> dict[str, Any]:
    """What stands in the envelope; nothing if something between here and the service has answered in its place."""
    try:
        return dict(json.loads(reply.content)["error"])
    except (ValueError, TypeError, KeyError):
        return {}


def _spending_limit(details: Any) -> SpendingLimitReached | None:
    """The error as its details tell it; None if they do not."""
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
    """The error as it was told: its sentence is made already."""
    error = InvalidTransition.__new__(InvalidTransition)
    ServiceError.__init__(error, message, details=details)
    told = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    error.before, error.after = str(told.get("status", "")), str(told.get("wanted", ""))
    return error


def retry_after(reply: Reply) -> float | None:
    """Seconds after which the service wants to be asked again, if it says so."""
    try:
        return max(0.0, float(reply.headers.get("retry-after", "")))
    except ValueError:
        return None


def unreachable(call: Call[Any], base_url: str, reason: object) -> ServiceUnreachable:
    """The error where no answer came at all."""
    again = "" if call.repeatable else " Whether it was done is not known."
    return ServiceUnreachable(
        f"{call.method} {base_url}{call.path} had no answer: {reason}.{again} "
        f"Check that the service runs there: GET {base_url}/health.",
        details={"reason": str(reason), "repeatable": call.repeatable},
    )
