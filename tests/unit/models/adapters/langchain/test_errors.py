"""Translation of the errors of LangChain's providers."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import openai
import pytest

from statewright.errors import ModelUnavailable
from statewright.models.adapters.langchain.errors import model_error

REQUEST = httpx.Request("POST", "http://x")


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, headers={name.replace("_", "-"): text for name, text in headers.items()}, request=REQUEST
    )


class CodeError(Exception):
    """An error like those of Google's libraries, with its status in `code`."""

    def __init__(self, code: object) -> None:
        self.code = code
        super().__init__("coded")


class AwsError(Exception):
    """An error like those of Amazon's library, whose response is a dict."""

    def __init__(self, status: int) -> None:
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}
        super().__init__("aws")


def translate(error: Exception) -> tuple[bool, int | None, float | None]:
    """Return whether the error is translated to ModelUnavailable, its status, and the time to wait."""
    translated = model_error("m", error, str)
    unavailable = isinstance(translated, ModelUnavailable)
    return unavailable, getattr(translated, "status", None), getattr(translated, "retry_after", None)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (openai.RateLimitError("x", response=response(429, retry_after="3"), body=None), (True, 429, 3.0)),
        (openai.InternalServerError("x", response=response(503), body=None), (True, 503, None)),
        (openai.BadRequestError("x", response=response(400, retry_after="3"), body=None), (False, None, None)),
        (openai.APIConnectionError(request=REQUEST), (True, None, None)),
        (openai.APITimeoutError(request=REQUEST), (True, None, None)),
        (httpx.ConnectError("x"), (True, None, None)),
        (httpx.ReadTimeout("x"), (True, None, None)),
        (ConnectionResetError(), (True, None, None)),
        (TimeoutError(), (True, None, None)),
        (CodeError(503), (True, 503, None)),
        (CodeError(404), (False, None, None)),
        (CodeError("timeout"), (False, None, None)),
        (AwsError(500), (True, 500, None)),
        (AwsError(403), (False, None, None)),
        (ValueError("x"), (False, None, None)),
    ],
)
def test_errors_are_translated_by_status_or_class(
    error: Exception, expected: tuple[bool, int | None, float | None]
) -> None:
    assert translate(error) == expected


def test_anthropic_errors_are_translated() -> None:
    import anthropic  # takes seconds, which would delay the collection of all tests

    limited = anthropic.RateLimitError("x", response=response(429, retry_after_ms="250"), body=None)
    assert translate(limited) == (True, 429, 0.25)
    refused = anthropic.AuthenticationError("x", response=response(401), body=None)
    assert translate(refused) == (False, None, None)


def test_the_cause_of_a_wrapped_error_is_translated() -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = openai.RateLimitError("x", response=response(429, retry_after="3"), body=None)
    assert translate(outer) == (True, 429, 3.0)


def test_a_refused_connection_makes_the_model_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(httpx.ConnectError) as caught:
            httpx.post(f"http://127.0.0.1:{port}/", trust_env=False)
    assert translate(caught.value)[0]


def test_retry_after_may_be_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    _, _, wait = translate(openai.RateLimitError("x", response=response(429, retry_after=later), body=None))
    assert wait is not None
    assert 3000 < wait <= 3600
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)
    assert translate(openai.RateLimitError("x", response=response(429, retry_after=past), body=None))[2] == 0.0


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf", ""])
def test_an_invalid_retry_after_is_ignored(value: str) -> None:
    assert translate(openai.RateLimitError("x", response=response(429, retry_after=value), body=None)) == (
        True,
        429,
        None,
    )
