"""The errors of the service, on the other side of the wire."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from statewright import errors
from statewright.client.call import Reply, get, read_data
from statewright.client.errors import error_of, retry_after, unreachable
from statewright.errors import InvalidTransition, ServiceError, ServiceUnreachable, TooManyRequests
from statewright.server.http.errors import response_to

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
    response = response_to(error)
    return Reply(status=response.status_code, headers=dict(response.headers), content=bytes(response.body))


@pytest.mark.parametrize("raised", RAISED, ids=lambda one: type(one).__name__)
def test_what_the_service_raises_the_client_raises(raised: ServiceError) -> None:
    found = error_of(as_reply(raised), CALL)
    assert type(found) is type(raised)
    assert (str(found), found.details if not isinstance(found, TooManyRequests) else None) == (
        str(raised),
        raised.details if not isinstance(raised, TooManyRequests) else None,
    )


def test_every_error_that_the_service_tells_is_known() -> None:
    kinds = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ServiceError)}
    assert kinds - {ServiceError, ServiceUnreachable} == {type(one) for one in RAISED}


def test_a_spending_limit_tells_what_was_spent_and_until_when() -> None:
    found = error_of(as_reply(USED_UP), CALL)
    assert isinstance(found, errors.SpendingLimitReached)
    assert (found.workspace_id, found.limit, found.used, found.most) == ("w", "cost_per_day", 5.25, 5.0)
    assert (found.ends_at, found.retry_after, found.details) == (ENDS_AT, 3600.0, USED_UP.details)


def test_a_spending_limit_that_tells_less_is_one_request_too_many() -> None:
    told = {"error": {"code": "SPENDING_LIMIT_REACHED", "message": "no more", "details": {"limit": "x"}}}
    reply = Reply(status=429, headers={"retry-after": "60"}, content=json.dumps(told).encode())
    found = error_of(reply, CALL)
    assert (type(found), str(found)) == (TooManyRequests, "no more")


def test_a_transition_tells_from_where_to_where() -> None:
    found = error_of(as_reply(RAISED[-2]), CALL)
    assert isinstance(found, InvalidTransition)
    assert (found.before, found.after, found.code) == ("completed", "paused", "SW-invalid-transition")


def test_a_pause_is_a_number_of_seconds() -> None:
    found = error_of(as_reply(RAISED[-1]), CALL)
    assert isinstance(found, TooManyRequests)
    assert found.retry_after >= 2.5
    assert retry_after(Reply(status=429, headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})) is None
    assert retry_after(Reply(status=429, headers={})) is None


def test_codes_and_statuses_of_later_versions() -> None:
    content = json.dumps({"error": {"code": "NEW_CONFLICT", "message": "m", "details": 1}}).encode()
    assert type(error_of(Reply(status=409, headers={}, content=content), CALL)) is errors.RequestConflict
    plain = error_of(Reply(status=418, headers={}, content=content), CALL)
    assert type(plain) is ServiceError
    assert plain.details == {"status": 418, "code": "NEW_CONFLICT", "details": 1}


def test_where_nobody_answers() -> None:
    error = unreachable(CALL, "http://h", "refused")
    assert str(error) == (
        "GET http://h/api/v1/x got no answer: refused. Check that the service is running: GET http://h/health."
    )
