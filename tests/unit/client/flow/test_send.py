"""Requests that are refused, lost and repeated, without a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.client.scripted import ScriptedConnection

from statewright.client.call import Call, Reply, get, post, read_data
from statewright.client.connection import ConnectionLost, complete
from statewright.client.send import pause_after, send
from statewright.client.settings import ClientSettings
from statewright.errors import NotFound, ServiceError, TooManyRequests

SETTINGS = ClientSettings(retries=2, first_pause=1, longest_pause=10)
READ = get("/api/v1/x", read_data)
WRITE = post("/api/v1/x", read_data)


def refusal(status: int, code: str = "", headers: dict[str, str] | None = None) -> Reply:
    content = json.dumps({"success": False, "error": {"code": code, "message": "no", "details": None}}).encode()
    return Reply(status=status, headers=headers or {}, content=content)


def success(data: Any) -> Reply:
    return Reply(status=200, headers={}, content=json.dumps({"success": True, "data": data}).encode())


def drive(call: Call[Any], outcomes: list[Any]) -> tuple[Any, list[float]]:
    """Send a request, and return its result and its pauses."""
    connection = ScriptedConnection(*outcomes, settings=SETTINGS)
    value = complete(send(call, connection))
    assert not connection.outcomes
    return value, connection.pauses


def test_an_answer_is_parsed() -> None:
    assert drive(READ, [success(3)]) == (3, [])


def test_reads_are_retried_after_growing_pauses() -> None:
    value, pauses = drive(READ, [ConnectionLost("reset"), refusal(503), success(3)])
    assert value == 3
    assert 0.5 <= pauses[0] <= 1
    assert 1 <= pauses[1] <= 2


def test_retries_are_limited() -> None:
    with pytest.raises(ServiceError, match=r"GET http://127.0.0.1:8123/api/v1/x got no answer: reset\. Check"):
        drive(READ, [ConnectionLost("reset")] * 3)
    with pytest.raises(ServiceError) as refused:
        drive(READ, [refusal(503, "UNAVAILABLE")] * 3)
    assert refused.value.details == {"status": 503, "code": "UNAVAILABLE", "details": None}


def test_writes_are_not_retried() -> None:
    with pytest.raises(ServiceError, match="not known whether the request was carried out"):
        drive(WRITE, [ConnectionLost("reset")])
    with pytest.raises(TooManyRequests):
        drive(WRITE, [refusal(429)])


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_permanent_errors_are_not_retried(status: int) -> None:
    with pytest.raises(ServiceError):
        drive(READ, [refusal(status)])


def test_retry_after_is_honoured() -> None:
    value, pauses = drive(READ, [refusal(429, headers={"retry-after": "7"}), success(1)])
    assert (value, pauses) == (1, [7])
    with pytest.raises(TooManyRequests) as refused:  # the pause is longer than the longest one
        drive(READ, [refusal(429, headers={"retry-after": "60"})])
    assert refused.value.retry_after == 60
    assert pause_after(refusal(404), SETTINGS, 1) is None


def test_an_error_may_be_an_answer() -> None:
    call = Call(method="GET", path="/health", read=lambda answer: answer, accepted=(503,))
    assert drive(call, [Reply(status=503, headers={}, content=b"{}")]) == ({}, [])


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]", b"\xff"])
def test_an_answer_of_another_server_is_detected(content: bytes) -> None:
    with pytest.raises(ServiceError, match="Check that base_url is the address of a Statewright service"):
        drive(READ, [Reply(status=200, headers={}, content=content)])


def test_an_error_without_an_envelope_is_raised_by_its_status() -> None:
    with pytest.raises(NotFound, match="GET /api/v1/x was answered with status 404"):
        drive(READ, [Reply(status=404, headers={}, content=b"<html>")])
