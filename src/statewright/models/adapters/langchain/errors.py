"""Convert the errors that LangChain's models raise to ours, with the secrets in them masked.

Each provider's library has its own error classes. They are recognised by their names and their attributes, such as a
status or a response, so that no library is imported.

The secrets to mask are collected from the model object. Its API key is in a field, as a string or as pydantic's
`SecretStr`, or in an environment variable that its property `lc_secrets` names. Headers and URLs are fields too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from statewright.errors import ModelError, ModelUnavailable
from statewright.http import retry_after
from statewright.models.adapters.conversion import is_temporary
from statewright.redaction import (
    Mask,
    looks_secret,
    make_mask,
    secrets_in_environment,
    secrets_in_header,
    secrets_in_settings,
    secrets_in_url,
    without_secrets,
)

_CONNECTION_ERRORS: Final = (
    "APIConnectionError",
    "APITimeoutError",
    "EndpointConnectionError",
    "ReadTimeoutError",
    "ServiceUnavailable",
    "TransportError",
)
"""The names of error classes which mean that a server is unreachable."""


def model_error(model: str, error: Exception, mask: Mask) -> ModelError:
    """Return our error for one that a model raised, with the original error as its cause.

    `model` is the name of the model. `mask` masks the secrets in the texts of both errors.
    """
    failure = _failure_of(model, error, f"{type(error).__name__}: {mask(str(error))}")
    failure.__cause__ = without_secrets(error, mask)
    return failure


def _failure_of(model: str, error: Exception, reason: str) -> ModelError:
    message = f"The LangChain model {model!r} failed: {reason}"
    status = next((status for cause in _chain(error) if (status := _status(cause)) is not None), None)
    if any(map(_is_connection_error, _chain(error))) if status is None else is_temporary(status):
        return ModelUnavailable(message, status=status, retry_after=_retry_after(error))
    return ModelError(f"{message}. A retry would not help; see the cause.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def _is_connection_error(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) or any(
        cls.__name__ in _CONNECTION_ERRORS for cls in type(error).__mro__
    )


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, from 400 to 599, wherever its library stores it; None if none."""
    response = getattr(error, "response", None)
    candidates = (
        getattr(error, "status_code", None),
        getattr(error, "http_status", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
        _nested_value(response, "ResponseMetadata", "HTTPStatusCode"),  # in the errors of boto
    )
    return next((candidate for candidate in candidates if type(candidate) is int and 400 <= candidate < 600), None)


def _nested_value(value: Any, *keys: str) -> Any:
    for key in keys:
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    return value


def _retry_after(error: Exception) -> float | None:
    """Return the seconds in the header Retry-After of the provider's response; None if there is no such header."""
    for cause in _chain(error):
        headers: Any = getattr(getattr(cause, "response", None), "headers", None)
        seconds = retry_after(headers, datetime.now(UTC)) if hasattr(headers, "get") else None
        if seconds is not None:
            return seconds
    return None


# -- secrets

_WRAPPED_MODELS: Final = ("bound", "runnable", "llm")
"""The fields in which a model may have another model that it wraps."""
_MAX_DEPTH: Final = 5
"""Maximum depth of models that wrap models."""


def mask_for(chat_model: Any, settings: Mapping[str, Any]) -> Mask:
    """Return a function that masks the secrets of a model, and those in the settings of a request, in a text."""
    return make_mask((*_secrets_of(chat_model, 0), *secrets_in_settings(settings)))


def _secrets_of(chat_model: Any, depth: int) -> Iterator[str]:
    variables: Any = getattr(chat_model, "lc_secrets", {})
    if isinstance(variables, Mapping):
        yield from secrets_in_environment(cast("Mapping[str, str]", variables).values(), os.environ)
    fields: dict[str, Any] = getattr(chat_model, "__dict__", {})
    for name, value in fields.items():
        if name in _WRAPPED_MODELS and depth < _MAX_DEPTH:
            yield from _secrets_of(value, depth + 1)
        else:
            yield from _secrets_in_field(name, value)


def _secrets_in_field(name: str, value: Any) -> Iterator[str]:
    if callable(reveal := getattr(value, "get_secret_value", None)):
        secret = reveal()
        yield secret if isinstance(secret, str) else ""
    elif isinstance(value, Mapping):
        yield from secrets_in_settings(cast("Mapping[str, Any]", value))
    elif isinstance(value, str):
        if looks_secret(name, value):
            yield from secrets_in_header(value)
        if "://" in value:
            yield from secrets_in_url(value)
