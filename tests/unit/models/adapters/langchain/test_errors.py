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


class Coded(Exception):
    """As Google's libraries raise: a status under `code`."""

    def __init__(self, code: object) -> None:
        self.code = code
        super().__init__("coded")


class OfAws(Exception):
    """As Amazon's library raises: a response that is a dict."""

    def __init__(self, status: int) -> None:
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}
        super().__init__("aws")


def read(error: Exception) -> tuple[bool, int | None, float | None]:
    """Whether it is unavailable, with which status, and for how long."""
    found = model_error("m", error, str)
    unavailable = isinstance(found, ModelUnavailable)
    return unavailable, getattr(found, "status", None), getattr(found, "retry_after", None)


@pytest.mark.parametrize(
    ("error", "found"),
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
        (Coded(503), (True, 503, None)),
        (Coded(404), (False, None, None)),
        (Coded("timeout"), (False, None, None)),
        (OfAws(500), (True, 500, None)),
        (OfAws(403), (False, None, None)),
        (ValueError("x"), (False, None, None)),
    ],
)
def test_by_status_or_by_class(error: Exception, found: tuple[bool, int | None, float | None]) -> None:
    assert read(error) == found


def test_errors_of_anthropic() -> None:
    import anthropic  # takes seconds, which the collection of all tests need not wait for

    limited = anthropic.RateLimitError("x", response=response(429, retry_after_ms="250"), body=None)
    assert read(limited) == (True, 429, 0.25)
    refused = anthropic.AuthenticationError("x", response=response(401), body=None)
    assert read(refused) == (False, None, None)


def test_a_wrapped_error_is_found() -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = openai.RateLimitError("x", response=response(429, retry_after="3"), body=None)
    assert read(outer) == (True, 429, 3.0)


def test_a_refused_connection_is_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(httpx.ConnectError) as caught:
            httpx.post(f"http://127.0.0.1:{port}/", trust_env=False)
    assert read(caught.value)[0]


def test_a_date_says_when_to_come_again() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    _, _, wait = read(openai.RateLimitError("x", response=response(429, retry_after=later), body=None))
    assert wait is not None
    assert 3000 < wait <= 3600
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)
    assert read(openai.RateLimitError("x", response=response(429, retry_after=past), body=None))[2] == 0.0


@pytest.mark.parametrize("written", ["soon", "-1", "nan", "inf", ""])
def test_a_wait_that_is_none_is_left_out(written: str) -> None:
    assert read(openai.RateLimitError("x", response=response(429, retry_after=written), body=None)) == (True, 429, None)
