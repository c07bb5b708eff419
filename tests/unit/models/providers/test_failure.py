"""Translation of the errors of pydantic-ai and the vendors' libraries."""

from typing import Any

import pytest
from pydantic_ai import exceptions as vendor

from statewright.errors import InvalidConfig, ModelError, ModelUnavailable
from statewright.models.providers.failure import translate_error
from statewright.redaction import make_mask


def translated(error: Exception) -> Any:
    return translate_error(error, "openai:gpt", "OPENAI_API_KEY", make_mask(["key-in-the-vault"]))


def status(code: int, message: str = "so", **headers: str) -> Any:
    error = vendor.ModelHTTPError.for_category(
        None, status_code=code, model_name="gpt", body={"error": {"message": message}}, headers=headers
    )
    return translated(error)


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_pass(code: int) -> None:
    error = status(code)
    assert type(error) is ModelUnavailable
    assert error.status == code
    assert str(error) == f"Model 'openai:gpt' answered with status {code}: so."


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
def test_statuses_that_stay(code: int) -> None:
    assert type(status(code)) is ModelError


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_named(code: int) -> None:
    assert "The key was refused; check OPENAI_API_KEY." in str(status(code))


def test_the_time_to_wait_is_kept() -> None:
    assert status(429, **{"retry-after": "7"}).retry_after == 7.0
    assert status(429, **{"retry-after-ms": "1500"}).retry_after == 1.5
    assert status(503, **{"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}).retry_after == 0.0
    assert status(503, **{"retry-after": "soon"}).retry_after is None


def test_a_quota_that_is_used_up_does_not_pass() -> None:
    error = vendor.ModelHTTPError.for_category(
        vendor.ModelQuotaExceededError, status_code=429, model_name="gpt", body={"message": "no credit"}
    )
    assert type(translated(error)) is ModelError
    assert "no credit. The quota is used up" in str(translated(error))


@pytest.mark.parametrize(
    ("body", "said"), [(None, "nothing"), ("plain", "plain"), ({"detail": "deep"}, "deep"), ({"x": 1}, "{'x': 1}")]
)
def test_what_was_said_stands_anywhere_in_a_body(body: object, said: str) -> None:
    error = vendor.ModelHTTPError.for_category(None, status_code=500, model_name="gpt", body=body)
    assert f"status 500: {said}." in str(translated(error))


def test_long_bodies_are_cut() -> None:
    assert len(str(status(500, "x" * 9999))) < 400


def test_broken_connections_pass_and_say_why() -> None:
    error = vendor.ModelConnectionError("gpt", "Connection error.")
    error.__cause__ = RuntimeError("wrapped")
    error.__cause__.__cause__ = OSError("refused")
    assert isinstance(translated(error), ModelUnavailable)
    assert str(translated(error)) == "Model 'openai:gpt' returned no complete answer: Connection error. (refused)"


def test_a_timeout_says_how_long_it_was() -> None:
    error = translated(vendor.ModelRequestTimeout("gpt", 1.5))
    assert isinstance(error, ModelUnavailable)
    assert "within 1.5 seconds" in str(error)


def test_answers_that_cannot_be_read_are_tried_again() -> None:
    for odd in (vendor.UnexpectedModelBehavior("choices\n  are null"), TypeError("None is not iterable")):
        error = translated(odd)
        assert type(error) is ModelUnavailable
        assert type(odd).__name__ in str(error)


def test_a_request_that_the_library_does_not_take_is_an_error_for_good() -> None:
    assert type(translated(vendor.UserError("no audio"))) is ModelError


def test_our_own_errors_and_warnings_stay() -> None:
    for own in (InvalidConfig("x"), UserWarning("y")):
        assert translated(own) is own
