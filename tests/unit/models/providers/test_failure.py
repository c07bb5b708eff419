"""Translation of the errors of pydantic-ai and of the vendors' libraries."""

from typing import Any

import pytest
from pydantic_ai import exceptions as vendor

from statewright.errors import InvalidConfig, ModelError, ModelUnavailable
from statewright.models.providers.failure import translate_error
from statewright.redaction import make_mask


def translate(error: Exception) -> Any:
    return translate_error(error, "openai:gpt", "OPENAI_API_KEY", make_mask(["key-in-the-vault"]))


def status_error(code: int, message: str = "so", **headers: str) -> Any:
    error = vendor.ModelHTTPError.for_category(
        None, status_code=code, model_name="gpt", body={"error": {"message": message}}, headers=headers
    )
    return translate(error)


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_temporary_statuses_make_the_model_unavailable(code: int) -> None:
    error = status_error(code)
    assert type(error) is ModelUnavailable
    assert error.status == code
    assert str(error) == f"Model 'openai:gpt' answered with status {code}: so."


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
def test_permanent_statuses_are_model_errors(code: int) -> None:
    assert type(status_error(code)) is ModelError


@pytest.mark.parametrize("code", [401, 403])
def test_a_rejected_key_names_its_variable(code: int) -> None:
    assert "The key was refused; check OPENAI_API_KEY." in str(status_error(code))


def test_retry_after_headers_are_read() -> None:
    assert status_error(429, **{"retry-after": "7"}).retry_after == 7.0
    assert status_error(429, **{"retry-after-ms": "1500"}).retry_after == 1.5
    assert status_error(503, **{"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}).retry_after == 0.0
    assert status_error(503, **{"retry-after": "soon"}).retry_after is None


def test_an_exhausted_quota_is_not_retried() -> None:
    error = vendor.ModelHTTPError.for_category(
        vendor.ModelQuotaExceededError, status_code=429, model_name="gpt", body={"message": "no credit"}
    )
    assert type(translate(error)) is ModelError
    assert "no credit. The quota is used up" in str(translate(error))


@pytest.mark.parametrize(
    ("body", "message"), [(None, "nothing"), ("plain", "plain"), ({"detail": "deep"}, "deep"), ({"x": 1}, "{'x': 1}")]
)
def test_the_message_of_the_provider_is_found_in_any_body(body: object, message: str) -> None:
    error = vendor.ModelHTTPError.for_category(None, status_code=500, model_name="gpt", body=body)
    assert f"status 500: {message}." in str(translate(error))


def test_long_bodies_are_shortened() -> None:
    assert len(str(status_error(500, "x" * 9999))) < 400


def test_broken_connections_can_be_retried_and_name_their_cause() -> None:
    error = vendor.ModelConnectionError("gpt", "Connection error.")
    error.__cause__ = RuntimeError("wrapped")
    error.__cause__.__cause__ = OSError("refused")
    assert isinstance(translate(error), ModelUnavailable)
    assert str(translate(error)) == "Model 'openai:gpt' returned no complete answer: Connection error. (refused)"


def test_a_timeout_error_names_its_duration() -> None:
    error = translate(vendor.ModelRequestTimeout("gpt", 1.5))
    assert isinstance(error, ModelUnavailable)
    assert "within 1.5 seconds" in str(error)


def test_unreadable_answers_can_be_retried() -> None:
    for original in (vendor.UnexpectedModelBehavior("choices\n  are null"), TypeError("None is not iterable")):
        error = translate(original)
        assert type(error) is ModelUnavailable
        assert type(original).__name__ in str(error)


def test_requests_that_the_library_rejects_are_not_retried() -> None:
    assert type(translate(vendor.UserError("no audio"))) is ModelError


def test_statewright_errors_and_warnings_are_not_translated() -> None:
    for error in (InvalidConfig("x"), UserWarning("y")):
        assert translate(error) is error
