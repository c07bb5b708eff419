"""Errors of the service, rebuilt by the client."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from statewright import errors
from statewright.client.call import Reply, get, read_data
from statewright.client.errors import make_error, make_unreachable_error, retry_after
from statewright.errors import InvalidTransition, ServiceError, ServiceUnreachable, TooManyRequests
from statewright.server.http.errors import response_for

CALL = get("/api/v1/x", read_data)
ENDS_AT = datetime(2026, 2, 1, tzinfo=UTC)
USED_UP = errors.SpendingLimitReached(
    "w", "cost_per_day", used=5.25, most=5.0, ends_at=ENDS_AT, now=ENDS_AT - timedelta(hours=1)
)
RAISED: list[ServiceError] = [
    errors.InvalidRequest("a", details={"problems": [{"path": "body.x"}]}),
    errors.Unauthorized("a"),
    errors.Forbidden("a"),
    errors.NotFound("a"),
    errors.RequestConflict("a"),
    errors.SignalMismatch("a", details={"waitsFor": ["b"]}),
    errors.PayloadTooLarge("a"),
    USED_UP,
    errors.InvalidTransition("Run r", "completed", "paused", []),
    errors.TooManyRequests("a", retry_after=2.5),
]


def as_reply(error: ServiceError) -> Reply:
    response = response_for(error)
    return Reply(status=response.status_code, headers=dict(response.headers), content=bytes(response.body))


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
def test_the_client_raises_what_the_service_raised(raised: ServiceError) -> None:
    error = make_error(as_reply(raised), CALL)
    assert type(error) is type(raised)
    assert (str(error), error.details if not isinstance(error, TooManyRequests) else None) == (
        str(raised),
        raised.details if not isinstance(raised, TooManyRequests) else None,
    )


def test_every_error_of_the_service_is_tested() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ServiceError)}
    assert kinds - {ServiceError, ServiceUnreachable} == {type(error) for error in RAISED}


def test_a_spending_limit_is_rebuilt_from_its_details() -> None:
    error = make_error(as_reply(USED_UP), CALL)
    assert isinstance(error, errors.SpendingLimitReached)
    assert (error.workspace_id, error.limit, error.used, error.most) == ("w", "cost_per_day", 5.25, 5.0)
    assert (error.ends_at, error.retry_after, error.details) == (ENDS_AT, 3600.0, USED_UP.details)


def test_a_spending_limit_without_details_is_too_many_requests() -> None:
    content = {"error": {"code": "SPENDING_LIMIT_REACHED", "message": "no more", "details": {"limit": "x"}}}
    reply = Reply(status=429, headers={"retry-after": "60"}, content=json.dumps(content).encode())
    error = make_error(reply, CALL)
    assert (type(error), str(error)) == (TooManyRequests, "no more")


def test_an_invalid_transition_has_both_states() -> None:
    error = make_error(as_reply(RAISED[-2]), CALL)
    assert isinstance(error, InvalidTransition)
    assert (error.before, error.after, error.code) == ("completed", "paused", "SW-invalid-transition")


def test_retry_after_is_a_number_of_seconds() -> None:
    error = make_error(as_reply(RAISED[-1]), CALL)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after >= 2.5
    assert retry_after(Reply(status=429, headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})) is None
    assert retry_after(Reply(status=429, headers={})) is None


def test_unknown_codes_and_statuses() -> None:
    content = json.dumps({"error": {"code": "NEW_CONFLICT", "message": "m", "details": 1}}).encode()
    assert type(make_error(Reply(status=409, headers={}, content=content), CALL)) is errors.RequestConflict
    unknown = make_error(Reply(status=418, headers={}, content=content), CALL)
    assert type(unknown) is ServiceError
    assert unknown.details == {"status": 418, "code": "NEW_CONFLICT", "details": 1}


def test_an_unreachable_service() -> None:
    error = make_unreachable_error(CALL, "http://h", "refused")
    assert str(error) == (
        "GET http://h/api/v1/x got no answer: refused. Check that the service is running: GET http://h/health."
    )
