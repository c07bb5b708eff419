"""Convert errors of LangChain's providers to ours, without secrets.

Each provider's library has its own error classes. They are not imported, but recognised by their attributes, a status
and a response, and by their names.

The secrets to mask are collected from the model: it keeps its key in a field, as text or as pydantic's `SecretStr`, or
takes it from the environment, and its property `lc_secrets` names the fields and variables. Headers and addresses are
fields too.
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
    mask_of,
    secrets_in_environment,
    secrets_in_header,
    secrets_in_settings,
    secrets_in_url,
    without_secrets,
)

_CONNECTION: Final = (
    "APIConnectionError",
    "APITimeoutError",
    "EndpointConnectionError",
    "ReadTimeoutError",
    "ServiceUnavailable",
    "TransportError",
)
"""Names of error classes for unreachable servers."""


def model_error(model: str, error: Exception, mask: Mask) -> ModelError:
    """Return our error for one of a provider, which is its cause; `mask` takes secrets out of the text of both."""
    failure = _failure_of(model, error, f"{type(error).__name__}: {mask(str(error))}")
    failure.__cause__ = without_secrets(error, mask)
    return failure


def _failure_of(model: str, error: Exception, reason: str) -> ModelError:
    message = f"The LangChain model {model!r} failed: {reason}"
    status = next((status for link in _chain(error) if (status := _status(link)) is not None), None)
    if any(map(_is_connection, _chain(error))) if status is None else is_temporary(status):
        return ModelUnavailable(message, status=status, retry_after=_retry_after(error))
    return ModelError(f"{message}. Another attempt would not change that; see the cause.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _is_connection(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) or any(
        kind.__name__ in _CONNECTION for kind in type(error).__mro__
    )


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, in any of the attributes that libraries use."""
    response = _response(error)
    candidates = (
        getattr(error, "status_code", None),
        getattr(error, "http_status", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
        _in(response, "ResponseMetadata", "HTTPStatusCode"),
    )
    return next((candidate for candidate in candidates if type(candidate) is int and 400 <= candidate < 600), None)


def _response(error: BaseException) -> Any:
    return getattr(error, "response", None)


def _in(value: Any, *names: str) -> Any:
    for name in names:
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    return value


def _retry_after(error: Exception) -> float | None:
    """Return the Retry-After of the provider's response in seconds; None if there is none."""
    for link in _chain(error):
        headers: Any = getattr(_response(link), "headers", None)
        seconds = retry_after(headers, datetime.now(UTC)) if hasattr(headers, "get") else None
        if seconds is not None:
            return seconds
    return None


# -- secrets

_WRAPPED: Final = ("bound", "runnable", "llm")
"""Fields in which a model wraps another one."""
_MAX_DEPTH: Final = 5


def mask_for(chat_model: Any, settings: Mapping[str, Any]) -> Mask:
    """Return a function that masks the secrets of a model and of the settings of a request in a text."""
    return mask_of((*_secrets_of(chat_model, 0), *secrets_in_settings(settings)))


def _secrets_of(chat_model: Any, depth: int) -> Iterator[str]:
    variables: Any = getattr(chat_model, "lc_secrets", {})
    if isinstance(variables, Mapping):
        yield from secrets_in_environment(cast("Mapping[str, str]", variables).values(), os.environ)
    fields: dict[str, Any] = getattr(chat_model, "__dict__", {})
    for name, value in fields.items():
        if name in _WRAPPED and depth < _MAX_DEPTH:
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
