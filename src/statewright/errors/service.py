"""Errors of rejected requests to a service, with the HTTP status and the code of the response."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from statewright.errors.base import StatewrightError


class ServiceError(StatewrightError):
    """The service rejected a request."""

    status: ClassVar[int] = 500
    """The HTTP status of the response."""
    api_code: ClassVar[str] = "INTERNAL_ERROR"
    """A stable code by which clients distinguish errors."""

    def __init__(self, message: str, *, details: Any = None) -> None:
        self.details = details
        """Machine-readable details, as JSON."""
        super().__init__(message)


class InvalidRequest(ServiceError):
    """The request is incomplete or malformed."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 400
    api_code: ClassVar[str] = "VALIDATION_ERROR"


class Unauthorized(ServiceError):
    """No credentials, or an unknown, revoked or expired key."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 401
    api_code: ClassVar[str] = "AUTH_ERROR"


class Forbidden(ServiceError):
    """The caller lacks permission."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 403
    api_code: ClassVar[str] = "FORBIDDEN"


class NotFound(ServiceError):
    """The resource does not exist or is not visible to the caller; the response does not reveal which."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 404
    api_code: ClassVar[str] = "NOT_FOUND"


class RequestConflict(ServiceError):
    """The request conflicts with the current state: for example, a name is taken, or a thread is busy."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 409
    api_code: ClassVar[str] = "CONFLICT"


class SignalMismatch(RequestConflict):
    """The run is waiting for another type of signal than the one that was sent."""

    api_code: ClassVar[str] = "SIGNAL_MISMATCH"


class PayloadTooLarge(ServiceError):
    """The request, or the state of a run, is larger than the service accepts."""

    exit_code: ClassVar[int] = 2
    status: ClassVar[int] = 413
    api_code: ClassVar[str] = "PAYLOAD_TOO_LARGE"


class ServiceUnreachable(ServiceError):
    """The service sent no response: it is not running, or the connection was lost."""

    status: ClassVar[int] = 503
    api_code: ClassVar[str] = "UNAVAILABLE"


class TooManyRequests(ServiceError):
    """A rate limit was exceeded."""

    status: ClassVar[int] = 429
    api_code: ClassVar[str] = "RATE_LIMIT_ERROR"

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        """Seconds after which the request may succeed."""
        super().__init__(message, details={"retryAfter": retry_after})


class SpendingLimitReached(TooManyRequests):
    """The runs of a workspace have reached its spending limit for the day."""

    api_code: ClassVar[str] = "SPENDING_LIMIT_REACHED"

    def __init__(
        self, workspace_id: str, limit: str, *, used: float, most: float, ends_at: datetime, now: datetime
    ) -> None:
        self.workspace_id = workspace_id
        self.limit = limit
        """The limit that was reached: `tokens_per_day`, `cost_per_day` or `requests_per_day`."""
        self.used = used
        self.most = most
        """The amount allowed per day."""
        self.ends_at = ends_at
        """The end of the day, when spending starts again from zero."""
        until = ends_at.isoformat().replace("+00:00", "Z")
        super().__init__(
            f"Workspace {workspace_id!r} has used up its {limit}: {used:.10g} of {most:.10g}. Its runs resume, and new "
            f"ones may start, at {until}. Raise the limit to continue earlier.",
            retry_after=max((ends_at - now).total_seconds(), 0.0),
        )
        self.details |= {"workspaceId": workspace_id, "limit": limit, "used": used, "most": most, "endsAt": until}


class InvalidTransition(RequestConflict):
    """The run or step cannot change from its current status to the requested one."""

    api_code: ClassVar[str] = "INVALID_TRANSITION"

    def __init__(
        self, subject: str, before: str, after: str, allowed: Sequence[str], *, is_request: bool = False
    ) -> None:
        """Compose the message that `subject`, such as `Run 7`, cannot change from the status `before` to `after`.

        `allowed` are the statuses that may follow `before`. With `is_request`, they are instead the statuses in which a
        caller may request `after`.
        """
        self.before = before
        self.after = after
        if is_request:
            condition = f" That is possible only while it is {' or '.join(allowed)}." if allowed else ""
            refusal = f"cannot be {after}.{condition}"
        else:
            options = f"It may become {', '.join(allowed)}." if allowed else "That status is final."
            refusal = f"cannot become {after}. {options}"
        details = {"status": str(before), "wanted": str(after), "allowed": list(map(str, allowed))}
        super().__init__(f"{subject} is {before}, and {refusal}", details=details)
