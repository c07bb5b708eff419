"""`[models.NAME]`: models with an address, a key or settings of their own."""

from __future__ import annotations

from typing import Any, Final

from statewright.project.form import COUNT, DURATION, TABLE, TEMPERATURE, TEXT
from statewright.project.integrations import check_secret
from statewright.project.lines import Keys
from statewright.project.reader import Reader
from statewright.workflow.states.resources.chat_models import ModelSource

_SETTINGS: Final = {"temperature": TEMPERATURE, "max_tokens": COUNT}
_MODEL: Final = {
    "name": TEXT,
    "base_url": TEXT,
    "api_key": TEXT,
    "timeout": DURATION,
    "headers": TABLE,
    "settings": TABLE,
    **_SETTINGS,
}


def read_model(name: str, given: Any, keys: Keys, reader: Reader) -> ModelSource:
    """A model that the project knows; it is connected when a workflow wants it."""
    values = reader.table(given, keys, _MODEL)
    if "name" not in values and isinstance(given, dict) and "name" not in given:
        reader.problem(keys, "It has no name.", 'Write name = "openai:gpt-5".')
    if "api_key" in values:
        check_secret("api_key", values["api_key"], (*keys, "api_key"), reader)
    settings = {**values.get("settings", {}), **{key: values[key] for key in _SETTINGS if key in values}}
    return ModelSource(
        values.get("name", ""),
        base_url=values.get("base_url"),
        api_key=values.get("api_key"),
        timeout=values.get("timeout"),
        settings=settings,
        headers=_headers(values.get("headers", {}), (*keys, "headers"), reader),
    )


def _headers(written: dict[str, Any], keys: Keys, reader: Reader) -> dict[str, str]:
    headers = {key: value for key, value in written.items() if reader.fits(value, (*keys, key), TEXT)}
    for key, value in headers.items():
        check_secret(key, value, (*keys, key), reader)
    return headers
