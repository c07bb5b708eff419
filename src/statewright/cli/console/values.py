"""Values on standard output, as JSON: coloured on a terminal, plain elsewhere."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, cast

from statewright.cli.console.printing import say
from statewright.messages import Message


def to_json(value: Any) -> str:
    """Return a value as an indented JSON document; values without a JSON form are converted."""
    return json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False, indent=2)


def jsonable(value: Any) -> Any:
    """Convert a value to JSON types: string keys, finite numbers, valid Unicode."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {_key(key): jsonable(content) for key, content in items}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in cast(list[Any], value)]
    return jsonable(to_plain(value))


def _key(key: Any) -> str:
    converted = jsonable(key) if key is None or isinstance(key, str | bool | int | float) else repr(key)
    return converted if isinstance(converted, str) else json.dumps(converted)


def to_plain(value: Any) -> Any:
    """Convert one level of a value without a JSON form; the fallback is its repr."""
    if isinstance(value, type):
        return repr(value)
    if isinstance(value, Message):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset):
        return sorted(cast(set[Any], value), key=repr)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def print_state(state: Any, *, json_wanted: bool) -> None:
    """Print a state as JSON, coloured on a terminal unless plain JSON is wanted."""
    import sys

    if json_wanted or not sys.stdout.isatty():
        say(to_json(state))
        return
    from statewright.cli.console.printing import console

    console().print_json(to_json(state))
