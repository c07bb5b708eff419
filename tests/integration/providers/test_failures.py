"""Failures of providers, and the errors that they become."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.integration.providers.conftest import Asking
from tests.provider_server import Answer, Cut, Failure, Raw, Reply

from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message
from statewright.models import ModelRequest


def failed(ask: Asking, *replies: Reply, **wanted: Any) -> Any:
    """The error of a call; it is made once."""
    error = given_up(ask, *replies, **wanted)
    assert len(ask.server.requests) == len(replies)
    return error


def given_up(ask: Asking, *replies: Reply, **wanted: Any) -> Any:
    """The error of a call that ends when it does, maybe before its request has arrived."""
    ask.server.script(replies)
    with pytest.raises(ModelError) as caught:
        ask(**wanted)
    assert len(ask.server.requests) <= len(replies)
    return caught.value


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5), ({}, None)],
)
def test_too_many_requests(ask: Asking, headers: dict[str, str], seconds: float | None) -> None:
    error = failed(ask, Failure(429, "slow down", headers, kind="rate_limit_error"))
    assert type(error) is ModelUnavailable
    assert (error.status, error.retry_after) == (429, seconds)
    assert "slow down" in str(error)


def test_a_date_to_come_back(ask: Asking) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3000 < failed(ask, Failure(429, headers={"retry-after": date})).retry_after <= 3600


@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_faults_of_the_server(ask: Asking, status: int) -> None:
    error = failed(ask, Failure(status, "overloaded"))
    assert type(error) is ModelUnavailable
    assert error.status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_faults_of_the_request(ask: Asking, status: int) -> None:
    error = failed(ask, Failure(status, "not so", kind="invalid_request_error"))
    assert type(error) is ModelError
    assert "not so" in str(error)
    assert ("check the api_key that was passed" in str(error)) == (status in (401, 403))


def test_a_refused_key_of_the_environment_is_named(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}.get(ask.provider, "OPENAI_API_KEY")
    monkeypatch.setenv(variable, "secret-key")
    ask.model = ask.connect(api_key=None)
    error = failed(ask, Failure(401, "bad key"))
    assert variable in str(error)
    assert "secret-key" not in str(error)
    assert "secret-key" in str(ask.server.requests[0].headers)


def test_a_connection_that_is_cut_before_the_answer(ask: Asking) -> None:
    assert type(failed(ask, Cut())) is ModelUnavailable


def test_a_connection_that_is_refused(ask: Asking) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        ask.model = ask.connect(base_url=url)
        with pytest.raises(ModelUnavailable, match="no complete answer"):
            ask()


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_that_is_cut(streaming: Asking, events: int) -> None:
    assert type(failed(streaming, Answer("one two three", reasoning="hm", cut_after=events))) is ModelUnavailable


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_that_ends_without_a_reason(streaming: Asking, events: int) -> None:
    error = failed(streaming, Answer("one two three", reasoning="hm", stop_after=events))
    assert type(error) is ModelUnavailable


ODD = [
    "",
    "null",
    "{}",
    "[]",
    '"text"',
    "{broken",
    '{"choices": []}',
    '{"choices": null, "output": null, "content": null, "candidates": null}',
    '{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, '
    '"finish_reason": "stop", "message": null}], "candidates": [null]}',
    '{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [null], "candidates": [{}]}',
]


@pytest.mark.parametrize("body", ODD)
def test_odd_answers(ask: Asking, body: str) -> None:
    error = failed(ask, Raw(body))
    assert type(error) is ModelUnavailable
    assert ask.provider in str(error)


@pytest.mark.parametrize("body", ["data: null\n\n", "data: {broken\n\n", "data: {}\n\n", ": nothing\n\n"])
def test_odd_events(streaming: Asking, body: str) -> None:
    assert type(failed(streaming, Raw(body, content_type="text/event-stream"))) is ModelUnavailable


def test_a_page_where_an_answer_should_be(ask: Asking) -> None:
    assert type(failed(ask, Raw("<html>Welcome</html>", content_type="text/html"))) is ModelUnavailable


def test_an_error_with_a_page(ask: Asking) -> None:
    error = failed(ask, Raw("<html>Bad gateway</html>", status=502, content_type="text/html"))
    assert (type(error), error.status) == (ModelUnavailable, 502)


@pytest.mark.parametrize("by", ["request", "connection"])
def test_answers_that_take_too_long(ask_alone: Asking, by: str) -> None:
    if by == "connection":
        ask_alone.model = ask_alone.connect(timeout=0.1)
    error = given_up(ask_alone, Answer("late", delay=60), **({"timeout": 0.1} if by == "request" else {}))
    assert type(error) is ModelUnavailable
    assert "0.1 seconds" in str(error)


def test_streams_that_take_too_long(streaming_alone: Asking) -> None:
    error = given_up(streaming_alone, Answer("one two three", calls=[], reasoning="hm", pause=0.2), timeout=0.3)
    assert "0.3 seconds" in str(error)
    assert all(request.left.wait(600) for request in streaming_alone.server.requests)


@pytest.mark.parametrize("reply", [Answer("late", delay=60), Answer("late " * 300, reasoning="hm", pause=0.3)])
def test_a_cancelled_call_gives_up_its_connection(ask: Asking, reply: Reply) -> None:
    async def cancelled() -> None:
        call = asyncio.create_task(ask.answer(ModelRequest([Message("hi")])))
        while not ask.server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ask.server.requests[0].left.wait, 60)

    if isinstance(reply, Answer) and reply.pause and ask.way == "whole":
        reply = Answer("late", delay=60)
    ask.server.script([reply])
    ask.run(cancelled())
