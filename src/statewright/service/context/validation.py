"""Validation of the values in requests. Each function returns a valid value, and raises InvalidRequest for others.

`subject` is the subject of the error message, for example `The name of a schedule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from statewright.data.problems import describe_kind
from statewright.errors import InvalidRequest, suggestion
from statewright.runs import is_queue_name

MAX_NAME_LENGTH: Final = 200
"""In characters."""


def validate_string(value: Any, subject: str, *, max_length: int = MAX_NAME_LENGTH) -> str:
    """Check that a value is a string that is not blank and contains only printable characters, and return it."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{subject} must be a string, not {describe_kind(value, 'an object')}.")
    if not value.strip() or len(value) > max_length:
        raise InvalidRequest(
            f"{subject} must have 1 to {max_length} characters, not all of them blank; it has {len(value)}."
        )
    if not value.isprintable():
        raise InvalidRequest(f"{subject} contains unprintable characters: {value!r}. Remove them.")
    return value


def validate_strings(values: Any, subject: str) -> list[str]:
    """Check that a value is a list of valid strings, and return the list without duplicates."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidRequest(f"{subject} must be a list of strings, not {describe_kind(values, 'an object')}.")
    items = cast("Sequence[Any]", values)
    return list(dict.fromkeys(validate_string(item, f"{subject}[{index}]") for index, item in enumerate(items)))


def validate_mapping(value: Any, subject: str) -> dict[str, Any]:
    """Check that a value is a map whose keys are valid strings, and return it as a dict."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{subject} must be an object, not {describe_kind(value)}.")
    items = cast("Mapping[Any, Any]", value).items()
    return {validate_string(key, f"A key of {subject}"): item for key, item in items}


def validate_choice(value: Any, subject: str, choices: Iterable[str]) -> str:
    """Check that a value is one of the `choices`, and return it."""
    allowed = tuple(choices)
    if value not in allowed:
        raise InvalidRequest(f"{subject} cannot be {value!r}. {suggestion(str(value), allowed, noun='Choices')}")
    return value


def validate_bool(value: Any, subject: str) -> bool:
    """Check that a value is a boolean, and return it."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"{subject} must be true or false, not {value!r}.")
    return value


def validate_queue_name(name: str) -> str:
    """Check that a queue may have a name, and return it."""
    if not is_queue_name(name):
        raise InvalidRequest(
            f"The queue {name!r} is not valid: use 1 to 63 letters, digits, hyphens, dots and underscores."
        )
    return name


def validate_limit(value: Any, subject: str, *, maximum: int = 1_000_000) -> int | None:
    """Check that a value is a whole number from 1 to `maximum`, or None for no limit, and return it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise InvalidRequest(f"{subject} must be a whole number from 1 to {maximum}, or null; it is {value!r}.")
    return value


def validate_datetime(value: Any, subject: str) -> datetime:
    """Check that a value is a datetime with a time zone, and return it."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidRequest(f"{subject} must be a date and time with a time zone, not {value!r}.")
    return value


def validate_field_names(changes: Mapping[str, Any], fields: Iterable[str], subject: str) -> None:
    """Raise InvalidRequest if `changes`, which are new values by field name, has a name that is not in `fields`."""
    allowed = tuple(fields)
    for name in changes:
        if name not in allowed:
            hint = suggestion(str(name), allowed, noun="Fields")
            raise InvalidRequest(f"{subject} has no field {name!r} that can be changed. {hint}")
