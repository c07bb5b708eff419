"""States on standard output: for people, or as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, cast

from statewright.messages import Message


def as_json(value: Any) -> str:
    """One JSON document; what JSON does not know is turned into what comes nearest."""
    return json.dumps(value, default=plain, ensure_ascii=False, indent=2)


def plain(value: Any) -> Any:
    """A value that JSON does not know, as one that it does, or as its repr."""
    if isinstance(value, Message):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return cast(Any, value).model_dump(mode="json")
    if isinstance(value, set | frozenset):
        return sorted(cast(set[Any], value), key=repr)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return cast(Any, value).isoformat() if hasattr(value, "isoformat") else repr(value)


def print_state(state: Any, *, json_wanted: bool) -> None:
    """Print a state: pretty on a terminal, JSON if asked for or if somebody else reads it."""
    import sys

    if json_wanted or not sys.stdout.isatty():
        print(as_json(state))
        return
    from rich.console import Console

    Console().print_json(as_json(state))
