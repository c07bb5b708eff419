"""Failures of providers, and the errors that report them."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.integration.providers.conftest import ModelCaller
from tests.provider_server import Answer, Cut, Failure, Raw, Reply

from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message
from statewright.models import ModelRequest


def error_of(ask: ModelCaller, *replies: Reply, **options: Any) -> Any:
    """Return the error of a call, after checking that it was not repeated."""
    error = abandoned_error(ask, *replies, **options)
    assert len(ask.server.requests) == len(replies)
    return error


def abandoned_error(ask: ModelCaller, *replies: Reply, **options: Any) -> Any:
    """Return the error of a call, whose request may not have arrived yet."""
    ask.server.script(replies)
    with pytest.raises(ModelError) as caught:
        ask(**options)
    assert len(ask.server.requests) <= len(replies)
    return caught.value


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5), ({}, None)],
)
def test_status_429_is_unavailable_with_the_delay_of_its_headers(
    ask: ModelCaller, headers: dict[str, str], seconds: float | None
) -> None:
    error = error_of(ask, Failure(429, "slow down", headers, kind="rate_limit_error"))
    assert type(error) is ModelUnavailable
    assert (error.status, error.retry_after) == (429, seconds)
    assert "slow down" in str(error)


def test_a_date_in_retry_after_becomes_a_delay(ask: ModelCaller) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3000 < error_of(ask, Failure(429, headers={"retry-after": date})).retry_after <= 3600


@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_server_errors_are_unavailable(ask: ModelCaller, status: int) -> None:
    error = error_of(ask, Failure(status, "overloaded"))
    assert type(error) is ModelUnavailable
    assert error.status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_client_errors_are_final_and_authentication_errors_mention_the_key(ask: ModelCaller, status: int) -> None:
    error = error_of(ask, Failure(status, "not so", kind="invalid_request_error"))
    assert type(error) is ModelError
    assert "not so" in str(error)
    assert ("check the api_key that was passed" in str(error)) == (status in (401, 403))


def test_a_rejected_key_of_the_environment_is_reported_by_its_variable(
    ask: ModelCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}.get(ask.provider, "OPENAI_API_KEY")
    monkeypatch.setenv(variable, "secret-key")
    ask.model = ask.connect(api_key=None)
    error = error_of(ask, Failure(401, "bad key"))
    assert variable in str(error)
    assert "secret-key" not in str(error)
    assert "secret-key" in str(ask.server.requests[0].headers)


def test_a_connection_closed_before_the_answer_is_unavailable(ask: ModelCaller) -> None:
    assert type(error_of(ask, Cut())) is ModelUnavailable


def test_a_refused_connection_is_unavailable(ask: ModelCaller) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        ask.model = ask.connect(base_url=url)
        with pytest.raises(ModelUnavailable, match="no complete answer"):
            ask()


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_whose_connection_is_closed_is_unavailable(streaming: ModelCaller, events: int) -> None:
    assert type(error_of(streaming, Answer("one two three", reasoning="hm", cut_after=events))) is ModelUnavailable


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_without_a_finish_reason_is_unavailable(streaming: ModelCaller, events: int) -> None:
    error = error_of(streaming, Answer("one two three", reasoning="hm", stop_after=events))
    assert type(error) is ModelUnavailable


MALFORMED = [
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


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_answers_are_unavailable(ask: ModelCaller, body: str) -> None:
    error = error_of(ask, Raw(body))
    assert type(error) is ModelUnavailable
    assert ask.provider in str(error)


@pytest.mark.parametrize("body", ["data: null\n\n", "data: {broken\n\n", "data: {}\n\n", ": nothing\n\n"])
def test_malformed_events_are_unavailable(streaming: ModelCaller, body: str) -> None:
    assert type(error_of(streaming, Raw(body, content_type="text/event-stream"))) is ModelUnavailable


def test_an_html_page_instead_of_an_answer_is_unavailable(ask: ModelCaller) -> None:
    assert type(error_of(ask, Raw("<html>Welcome</html>", content_type="text/html"))) is ModelUnavailable


def test_an_html_error_page_keeps_its_status(ask: ModelCaller) -> None:
    error = error_of(ask, Raw("<html>Bad gateway</html>", status=502, content_type="text/html"))
    assert (type(error), error.status) == (ModelUnavailable, 502)


@pytest.mark.parametrize("source", ["request", "connection"])
def test_answers_time_out(ask_own_server: ModelCaller, source: str) -> None:
    if source == "connection":
        ask_own_server.model = ask_own_server.connect(timeout=0.1)
    error = abandoned_error(
        ask_own_server, Answer("late", delay=60), **({"timeout": 0.1} if source == "request" else {})
    )
    assert type(error) is ModelUnavailable
    assert "0.1 seconds" in str(error)


def test_streams_time_out_and_close_their_connection(streaming_own_server: ModelCaller) -> None:
    error = abandoned_error(
        streaming_own_server, Answer("one two three", calls=[], reasoning="hm", pause=0.2), timeout=0.3
    )
    assert "0.3 seconds" in str(error)
    assert all(request.disconnected.wait(600) for request in streaming_own_server.server.requests)


@pytest.mark.parametrize("reply", [Answer("late", delay=60), Answer("late " * 300, reasoning="hm", pause=0.3)])
def test_a_cancelled_call_closes_its_connection(ask: ModelCaller, reply: Reply) -> None:
    async def cancel_call() -> None:
        call = asyncio.create_task(ask.answer(ModelRequest([Message("hi")])))
        while not ask.server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ask.server.requests[0].disconnected.wait, 60)

    if isinstance(reply, Answer) and reply.pause and ask.mode == "whole":
        reply = Answer("late", delay=60)
    ask.server.script([reply])
    ask.run(cancel_call())
