"""Secrets of a chat model of LangChain, as far as they can be known: they must not stand in its errors.

A model keeps its key in a field, as text or as pydantic's `SecretStr`, or takes it from the environment; its property
`lc_secrets` names the fields and variables. Headers and addresses are fields too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from statewright.redaction import (
    Mask,
    looks_secret,
    mask_of,
    secrets_in_environment,
    secrets_in_header,
    secrets_in_settings,
    secrets_in_url,
)

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
