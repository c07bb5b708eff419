"""Keys in the errors of servers and proxies: nothing that is printed, logged or stored contains them."""

from __future__ import annotations

import base64
import io
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.providers.conftest import ModelCaller
from tests.provider_server import Failure, Raw, Reply, Request

from statewright.errors import ModelError, ModelUnavailable
from statewright.redaction import HIDDEN, full_text

KEY = "very/secret+key=of.the-house"
"""It matches no known pattern, and is encoded differently in JSON, HTML, URLs and base64."""
SHAPED = "sk-VERYSECRET-0123456789"


def credentials_in(request: Request) -> str:
    """Return the credentials of a request, as a proxy sees them."""
    headers = request.headers
    return headers.get("authorization") or headers.get("x-api-key") or headers["x-goog-api-key"]


def key_in(request: Request) -> str:
    return credentials_in(request).removeprefix("Bearer ")


ECHOES: dict[str, Callable[[Request], Reply]] = {
    "json": lambda request: Failure(401, f"Authentication Error, invalid key: {key_in(request)}"),
    "unavailable": lambda request: Failure(503, f"No route for {key_in(request)}"),
    "json with escaped slashes": lambda request: Raw(
        json.dumps({"error": {"message": f"bad {key_in(request)}"}}).replace("/", r"\/"), status=400
    ),
    "header": lambda request: Failure(
        401, "no", {"x-echo": credentials_in(request), "www-authenticate": key_in(request)}
    ),
    "html": lambda request: Raw(
        f"<html><p>key &quot;{key_in(request)}&quot;</p></html>", status=502, content_type="text/html"
    ),
    "html with status 200": lambda request: Raw(f"<html>{key_in(request)}</html>", content_type="text/html"),
    "base64": lambda request: Failure(401, f"digest {base64.b64encode(key_in(request).encode()).decode()}"),
    "base64 of all headers": lambda request: Failure(
        403, base64.b64encode(json.dumps(request.headers).encode()).decode()
    ),
    "all headers": lambda request: Failure(400, json.dumps(request.headers)),
    "another field": lambda request: Raw(json.dumps({"detail": {"headers": request.headers}}), status=422),
    "malformed answer": lambda request: Raw(json.dumps({"choices": key_in(request), "candidates": key_in(request)})),
    "truncated within the key": lambda request: Failure(400, "x" * (300 - len(KEY) // 2) + key_in(request)),
}
EVENTS: dict[str, Callable[[Request], str]] = {
    "an error": lambda request: json.dumps(
        {"type": "error", "error": {"type": "x", "message": f"bad {key_in(request)}"}}
    ),
    "broken": lambda request: f"{{{key_in(request)}",
    "a text": lambda request: json.dumps(key_in(request)),
}


def parts_of(key: str) -> list[str]:
    """Return the texts that must not occur: the key, its halves, and their encodings."""
    half = len(key) // 2
    texts = [key, key[:half], key[half:], json.dumps(key).replace("/", r"\/")[1:-1]]
    return [
        *texts,
        base64.b64encode(key.encode()).decode()[:-4],
        base64.b64encode(f"Bearer {key}".encode()).decode()[12:-4],
    ]


def log_text(error: BaseException) -> str:
    stream = io.StringIO()
    logger = logging.Logger("tests")
    logger.addHandler(logging.StreamHandler(stream))
    logger.error("A call failed: %r", error, exc_info=error)
    return stream.getvalue()


def check_hidden(error: BaseException, key: str) -> None:
    """Check that no form of an error contains the key: text, traceback, log, all attributes."""
    text = "\n".join([str(error), repr(error), log_text(error), full_text(error), *traceback.format_exception(error)])
    assert [part for part in parts_of(key) if part in text] == []


def failure_of(ask: ModelCaller, reply: Callable[[Request], Reply], **options: Any) -> ModelError:
    ask.server.script([reply])
    with pytest.raises(ModelError) as caught:
        ask(**options)
    assert len(ask.server.requests) == 1
    return caught.value


@pytest.mark.parametrize("key", [KEY, SHAPED], ids=["any", "shaped"])
@pytest.mark.parametrize("reply", ECHOES.values(), ids=ECHOES)
def test_a_passed_key_is_hidden_in_every_error(ask: ModelCaller, reply: Callable[[Request], Reply], key: str) -> None:
    ask.model = ask.connect(api_key=key)
    check_hidden(failure_of(ask, reply), key)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_key_in_a_stream_event_is_hidden(streaming: ModelCaller, event: Callable[[Request], str]) -> None:
    streaming.model = streaming.connect(api_key=KEY)

    def reply(request: Request) -> Reply:
        return Raw(f"event: error\ndata: {event(request)}\n\n", content_type="text/event-stream")

    check_hidden(failure_of(streaming, reply), KEY)


def test_a_key_of_the_environment_is_hidden_after_the_variable_has_changed(
    ask: ModelCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}.get(ask.provider, "OPENAI_API_KEY")
    monkeypatch.setenv(variable, KEY)
    ask.model = ask.connect(api_key=None)
    monkeypatch.setenv(variable, "a later key")
    error = failure_of(ask, ECHOES["json"])
    check_hidden(error, KEY)
    assert HIDDEN in str(error)
    assert variable in str(error)


def test_secret_headers_are_hidden_and_other_headers_are_not(ask: ModelCaller) -> None:
    headers = {"X-Gateway-Token": f"Token {KEY}", "X-Team": "the-team-of-the-house"}
    ask.model = ask.connect(http_headers=headers)
    error = failure_of(
        ask, lambda request: Failure(400, f"{request.headers['x-gateway-token']} {request.headers['x-team']}")
    )
    check_hidden(error, KEY)
    assert f"{HIDDEN} the-team-of-the-house" in str(error)


def test_secret_headers_of_a_single_request_are_hidden(ask: ModelCaller) -> None:
    extra = {"extra_headers": {"X-Api-Token": KEY}}
    check_hidden(failure_of(ask, lambda request: Failure(400, request.headers["x-api-token"]), extra=extra), KEY)


def test_an_error_without_secrets_keeps_its_text_and_cause(ask: ModelCaller) -> None:
    ask.model = ask.connect(api_key=KEY)
    error = failure_of(ask, lambda request: Failure(400, "the model 'x' takes no tools"))
    assert "the model 'x' takes no tools" in str(error)
    assert error.__cause__ is not None
    assert error.__cause__.__traceback__ is not None


def test_the_cause_is_replaced_by_a_copy_without_the_key(ask: ModelCaller) -> None:
    ask.model = ask.connect(api_key=KEY)
    error = failure_of(ask, ECHOES["unavailable"])
    assert isinstance(error, ModelUnavailable)
    assert error.status == 503
    printed = "".join(traceback.format_exception(error))
    assert f"No route for {HIDDEN}" in printed
    assert "RedactedError: " in printed
    assert error.__context__ is None
