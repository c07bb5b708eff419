"""Conversion of any value to JSON for output, by the rules of `statewright.data.jsonable`."""

from __future__ import annotations

import json
from typing import Any

from statewright.data.jsonable import simplified, to_jsonable
from statewright.messages import Message


def to_json(value: Any) -> str:
    """Return a value as an indented JSON document. Values that JSON cannot represent are converted first."""
    return json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False, indent=2)


def jsonable(value: Any) -> Any:
    """Convert a value to JSON types; messages are converted by their method `to_dict`."""
    return to_jsonable(value, _simplified)


def _simplified(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Message) else simplified(value)
