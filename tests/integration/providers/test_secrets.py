"""Servers and proxies that repeat the key in their errors: nothing that is printed, logged or stored contains it."""

from __future__ import annotations

import base64
import io
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.providers.conftest import Asking
from tests.provider_server import Asked, Failure, Raw, Reply

from statewright.errors import ModelError, ModelUnavailable
from statewright.redaction import HIDDEN, full_text

KEY = "very/secret+key=of.the-house"
"""Of no shape that is known, and spelled differently in JSON, HTML, URLs and base 64."""
SHAPED = "sk-VERYSECRET-0123456789"


def credentials_in(asked: Asked) -> str:
    """Return what the client has sent to prove who it is, as a proxy sees it."""
    headers = asked.headers
    return headers.get("authorization") or headers.get("x-api-key") or headers["x-goog-api-key"]


def key_in(asked: Asked) -> str:
    return credentials_in(asked).removeprefix("Bearer ")


ECHOES: dict[str, Callable[[Asked], Reply]] = {
    "json": lambda asked: Failure(401, f"Authentication Error, invalid key: {key_in(asked)}"),
    "later": lambda asked: Failure(503, f"No route for {key_in(asked)}"),
    "json with escaped slashes": lambda asked: Raw(
        json.dumps({"error": {"message": f"bad {key_in(asked)}"}}).replace("/", r"\/"), status=400
    ),
    "header": lambda asked: Failure(401, "no", {"x-echo": credentials_in(asked), "www-authenticate": key_in(asked)}),
    "html": lambda asked: Raw(
        f"<html><p>key &quot;{key_in(asked)}&quot;</p></html>", status=502, content_type="text/html"
    ),
    "html with status 200": lambda asked: Raw(f"<html>{key_in(asked)}</html>", content_type="text/html"),
    "base 64": lambda asked: Failure(401, f"digest {base64.b64encode(key_in(asked).encode()).decode()}"),
    "base 64 of all headers": lambda asked: Failure(403, base64.b64encode(json.dumps(asked.headers).encode()).decode()),
    "all headers": lambda asked: Failure(400, json.dumps(asked.headers)),
    "another field": lambda asked: Raw(json.dumps({"detail": {"headers": asked.headers}}), status=422),
    "odd answer": lambda asked: Raw(json.dumps({"choices": key_in(asked), "candidates": key_in(asked)})),
    "cut far behind": lambda asked: Failure(400, "x" * (300 - len(KEY) // 2) + key_in(asked)),
}
EVENTS: dict[str, Callable[[Asked], str]] = {
    "an error": lambda asked: json.dumps({"type": "error", "error": {"type": "x", "message": f"bad {key_in(asked)}"}}),
    "broken": lambda asked: f"{{{key_in(asked)}",
    "a text": lambda asked: json.dumps(key_in(asked)),
}


def parts_of(key: str) -> list[str]:
    """Return what must be nowhere: the key, its halves, and both as base 64 writes them."""
    half = len(key) // 2
    texts = [key, key[:half], key[half:], json.dumps(key).replace("/", r"\/")[1:-1]]
    return [
        *texts,
        base64.b64encode(key.encode()).decode()[:-4],
        base64.b64encode(f"Bearer {key}".encode()).decode()[12:-4],
    ]


def logged(error: BaseException) -> str:
    stream = io.StringIO()
    logger = logging.Logger("tests")
    logger.addHandler(logging.StreamHandler(stream))
    logger.error("A call failed: %r", error, exc_info=error)
    return stream.getvalue()


def check_hidden(error: BaseException, key: str) -> None:
    """See that no way to show an error shows the key: as text, with its traceback, in a log, with all attributes."""
    shown = "\n".join([str(error), repr(error), logged(error), full_text(error), *traceback.format_exception(error)])
    assert [part for part in parts_of(key) if part in shown] == []


def failure_of(ask: Asking, reply: Callable[[Asked], Reply], **wanted: Any) -> ModelError:
    ask.server.script([reply])
    with pytest.raises(ModelError) as caught:
        ask(**wanted)
    assert len(ask.server.requests) == 1
    return caught.value


@pytest.mark.parametrize("key", [KEY, SHAPED], ids=["any", "shaped"])
@pytest.mark.parametrize("reply", ECHOES.values(), ids=ECHOES)
def test_a_key_that_is_given(ask: Asking, reply: Callable[[Asked], Reply], key: str) -> None:
    ask.model = ask.connect(api_key=key)
    check_hidden(failure_of(ask, reply), key)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_key_in_an_event_of_a_stream(streaming: Asking, event: Callable[[Asked], str]) -> None:
    streaming.model = streaming.connect(api_key=KEY)

    def reply(asked: Asked) -> Reply:
        return Raw(f"event: error\ndata: {event(asked)}\n\n", content_type="text/event-stream")

    check_hidden(failure_of(streaming, reply), KEY)


def test_a_key_of_the_environment_also_if_it_has_changed(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}.get(ask.provider, "OPENAI_API_KEY")
    monkeypatch.setenv(variable, KEY)
    ask.model = ask.connect(api_key=None)
    monkeypatch.setenv(variable, "a key that came later")
    error = failure_of(ask, ECHOES["json"])
    check_hidden(error, KEY)
    assert HIDDEN in str(error)
    assert variable in str(error)


def test_headers_that_are_secret_are_hidden_and_others_are_not(ask: Asking) -> None:
    headers = {"X-Gateway-Token": f"Token {KEY}", "X-Team": "the-team-of-the-house"}
    ask.model = ask.connect(http_headers=headers)
    error = failure_of(ask, lambda asked: Failure(400, f"{asked.headers['x-gateway-token']} {asked.headers['x-team']}"))
    check_hidden(error, KEY)
    assert f"{HIDDEN} the-team-of-the-house" in str(error)


def test_headers_of_a_request(ask: Asking) -> None:
    extra = {"extra_headers": {"X-Api-Token": KEY}}
    check_hidden(failure_of(ask, lambda asked: Failure(400, asked.headers["x-api-token"]), extra=extra), KEY)


def test_what_is_not_secret_stays_and_the_cause_with_its_traceback(ask: Asking) -> None:
    ask.model = ask.connect(api_key=KEY)
    error = failure_of(ask, lambda asked: Failure(400, "the model 'x' takes no tools"))
    assert "the model 'x' takes no tools" in str(error)
    assert error.__cause__ is not None
    assert error.__cause__.__traceback__ is not None


def test_what_stands_in_place_of_the_cause_says_the_same_without_the_key(ask: Asking) -> None:
    ask.model = ask.connect(api_key=KEY)
    error = failure_of(ask, ECHOES["later"])
    assert isinstance(error, ModelUnavailable)
    assert error.status == 503
    printed = "".join(traceback.format_exception(error))
    assert f"No route for {HIDDEN}" in printed
    assert "RedactedError: " in printed
    assert error.__context__ is None
