"""JSON of errors and metadata, as records store it. See `statewright.data.jsonable` for values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from statewright import errors
from statewright.data.jsonable import as_json
from statewright.errors import StatewrightError, code_of
from statewright.runs import Json

LONGEST_MESSAGE: Final = 4000
"""Characters of an error message that a record stores."""


def error_json(error: BaseException, *, step: str | None = None) -> dict[str, Json]:
    """Return an error as stored in records: its message, its code, the step and its details if it has any."""
    message = f"{error}" if isinstance(error, StatewrightError) else f"{type(error).__name__}: {error}"
    record: dict[str, Json] = {"message": _storable(message), "code": code_of(error)}
    if step is not None:
        record["step"] = step
    details = getattr(error, "details", None)
    return {**record, "details": as_json(details)} if details is not None else record


def error_from_text(text: str) -> dict[str, Json]:
    """Return an error as stored in records, from its text `Class: message`."""
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, StatewrightError):
        return {"message": _storable(message), "code": kind.code}
    return {"message": _storable(text), "code": name if message else "ERROR"}


def _storable(text: str) -> str:
    """Return a text as stored in records: truncated, and without lone surrogates, which cannot be encoded."""
    return text[:LONGEST_MESSAGE].encode("utf-8", "replace").decode()


def entries_as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of a map as searchable text: values that are not strings as JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in values.items()
    }
