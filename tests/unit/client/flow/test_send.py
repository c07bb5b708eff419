"""Requests that are refused, lost, and repeated, without any network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statewright.client.call import Call, Reply, get, post, read_data
from statewright.client.flow.effects import ConnectionLost, Flow, Send, Sleep, advance
from statewright.client.flow.send import pause_after, send
from statewright.client.settings import ClientSettings
from statewright.errors import NotFound, ServiceError, TooManyRequests

SETTINGS = ClientSettings(retries=2, first_pause=1, longest_pause=10)
LOOK = get("/api/v1/x", read_data)
DO = post("/api/v1/x", read_data)


def refusal(status: int, code: str = "", headers: dict[str, str] | None = None) -> Reply:
    content = json.dumps({"success": False, "error": {"code": code, "message": "no", "details": None}}).encode()
    return Reply(status=status, headers=headers or {}, content=content)


def well(data: Any) -> Reply:
    return Reply(status=200, headers={}, content=json.dumps({"success": True, "data": data}).encode())


def drive(flow: Flow[Any], outcomes: list[Any]) -> tuple[Any, list[float]]:
    """What a conversation ends with, and the pauses that it has made."""
    pauses: list[float] = []
    try:
        effect = next(flow)
        while True:
            if isinstance(effect, Sleep):
                pauses.append(effect.seconds)
                effect = advance(flow, None)
            else:
                assert isinstance(effect, Send)
                effect = advance(flow, outcomes.pop(0))
    except StopIteration as end:
        assert not outcomes
        return end.value, pauses


def test_an_answer_is_read() -> None:
    assert drive(send(LOOK, SETTINGS), [well(3)]) == (3, [])


def test_what_only_looks_is_tried_again_after_pauses_that_grow() -> None:
    value, pauses = drive(send(LOOK, SETTINGS), [ConnectionLost("reset"), refusal(503), well(3)])
    assert value == 3
    assert 0.5 <= pauses[0] <= 1
    assert 1 <= pauses[1] <= 2


def test_tries_are_bounded() -> None:
    with pytest.raises(ServiceError, match=r"GET http://127.0.0.1:8123/api/v1/x got no answer: reset\. Check"):
        drive(send(LOOK, SETTINGS), [ConnectionLost("reset")] * 3)
    with pytest.raises(ServiceError) as refused:
        drive(send(LOOK, SETTINGS), [refusal(503, "UNAVAILABLE")] * 3)
    assert refused.value.details == {"status": 503, "code": "UNAVAILABLE", "details": None}


def test_what_does_something_is_not_tried_again() -> None:
    with pytest.raises(ServiceError, match="not known whether the request was carried out"):
        drive(send(DO, SETTINGS), [ConnectionLost("reset")])
    with pytest.raises(TooManyRequests):
        drive(send(DO, SETTINGS), [refusal(429)])


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_what_stays_wrong_is_not_tried_again(status: int) -> None:
    with pytest.raises(ServiceError):
        drive(send(LOOK, SETTINGS), [refusal(status)])


def test_the_service_says_how_long_to_wait() -> None:
    value, pauses = drive(send(LOOK, SETTINGS), [refusal(429, headers={"retry-after": "7"}), well(1)])
    assert (value, pauses) == (1, [7])
    with pytest.raises(TooManyRequests) as refused:  # it would have to wait for longer than it is willing to
        drive(send(LOOK, SETTINGS), [refusal(429, headers={"retry-after": "60"})])
    assert refused.value.retry_after == 60
    assert pause_after(refusal(404), SETTINGS, 1) is None


def test_an_error_may_be_an_answer() -> None:
    call = Call(method="GET", path="/health", read=lambda answer: answer, accepted=(503,))
    assert drive(send(call, SETTINGS), [Reply(status=503, headers={}, content=b"{}")]) == ({}, [])


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]", b"\xff"])
def test_an_answer_of_somebody_else_is_told_apart(content: bytes) -> None:
    with pytest.raises(ServiceError, match="Check that base_url belongs to a Statewright service"):
        drive(send(LOOK, SETTINGS), [Reply(status=200, headers={}, content=content)])


def test_a_refusal_without_an_envelope_is_told_by_its_status() -> None:
    with pytest.raises(NotFound, match="GET /api/v1/x was answered with status 404"):
        drive(send(LOOK, SETTINGS), [Reply(status=404, headers={}, content=b"<html>")])
