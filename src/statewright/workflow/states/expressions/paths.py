"""Access to parts of values: the items of an iteration, JSON pointers and dotted paths.

A pointer may continue inside a string that contains JSON, because tools return JSON within JSON. A failed lookup raises
a RoutingError that says up to which part the path is valid.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from statewright.errors import RoutingError, suggestion
from statewright.workflow.states.expressions.output import parse_json_text

WHOLE_RESULT: Final = "."
"""The `iter_key` for the result itself."""
_QUOTE_LIMIT: Final = 100
"""Maximum characters of a value in a message."""
_NAMES_LIMIT: Final = 50
"""Maximum keys of a map that are searched for one with a similar name."""
_INDEX: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_STEP: Final = re.compile(
    r"""(?:^|\.)(?P<name>[^\s.\[\]()"']+)|\[\s*(?:(?P<index>-?\d{1,9})|(?P<start>-?\d{0,9}):(?P<stop>-?\d{0,9})"""
    r"""|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*\]""",
    re.ASCII,
)
MISSING: Final[Any] = object()
"""Returned by `follow_path` for a path without a value."""


def resolve_items(result: Any, iter_key: str) -> list[Any]:
    """Return the items over which a state iterates, from its parsed result.

    A JSON pointer is followed in a result of any type. Any other key is looked up if the result is a map, and is
    otherwise ignored. If the value is a list, its items are returned; any other value is the only item. Raises
    RoutingError if there is no such key or value.
    """
    if iter_key.startswith("/"):
        return _to_items(get_at_pointer(result, iter_key))
    if not isinstance(result, dict) or iter_key == WHOLE_RESULT:
        return _to_items(result)
    fields = cast(dict[str, Any], result)
    if iter_key not in fields:
        raise RoutingError(
            f"The result has no key {iter_key!r} to iterate over. {_suggest_key(iter_key, fields)}"
            f" Use one of them as iter_key, or let the state answer with {iter_key!r}."
        )
    return _to_items(fields[iter_key])


def get_at_pointer(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901). The empty pointer refers to the value itself.

    Strings along the path that contain a JSON map or list are parsed. If the pointer ends with a slash, this includes
    the string at its end. Raises RoutingError.
    """
    parts = _parse_pointer(pointer)
    if isinstance(value, str) and parts:
        value = parse_json_text(value)
    for index, part in enumerate(parts):
        child = follow_path(value, (part,))
        is_last = index == len(parts) - 1
        if child is MISSING and part == "" and is_last:
            return value
        if child is MISSING:
            raise RoutingError(_describe_failure(pointer, parts[:index], part, value))
        value = child if is_last else parse_json_text(child)
    return value


def get_at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys and indexes: `name.field[0]`, `rows[1:3]`, `rows[-1]["key with spaces"]`.

    Raises RoutingError if the path is invalid or has no value.
    """
    steps = parse_path(path)
    if steps is None:
        raise RoutingError(f"{path[:_QUOTE_LIMIT]!r} is not a path. Write name.field[0] or rows[1:3].")
    for index, step in enumerate(steps):
        child = follow_path(value, (step,))
        if child is MISSING:
            where = f"after step {index}" if index else "at the beginning"
            raise RoutingError(
                f"The path {path[:_QUOTE_LIMIT]!r} does not exist: {where} there is no {step!r} in {_describe(value)}."
            )
        value = child
    return value


def parse_path(path: str) -> tuple[str | int | slice, ...] | None:
    """Parse a path to keys, indexes and slices; return None if it is not a path."""
    steps: list[str | int | slice] = []
    pos = 0
    while pos < len(path):
        match = _STEP.match(path, pos)
        if match is None or (pos == 0 and (match["name"] is None or path[0] == ".")):
            return None
        steps.append(_parse_step(match))
        pos = match.end()
    return tuple(steps) or None


def follow_path(value: Any, steps: tuple[str | int | slice, ...]) -> Any:
    """Return the value at the steps of a path; `MISSING` if there is none."""
    for step in steps:
        if isinstance(value, dict):
            value = cast(dict[Any, Any], value).get(step, MISSING) if isinstance(step, str) else MISSING
        elif isinstance(value, list):
            value = _get_list_item(cast(list[Any], value), step)
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def _parse_step(match: re.Match[str]) -> str | int | slice:
    if match["index"] is not None:
        return int(match["index"])
    if match["stop"] is not None:
        return slice(_parse_bound(match["start"]), _parse_bound(match["stop"]))
    return match["name"] or match["double"] or match["single"] or ""


def _get_list_item(items: list[Any], step: str | int | slice) -> Any:
    """Return an item or a slice of a list. Digits after a dot are an index, as in `rows.0`."""
    if isinstance(step, slice):
        return items[step]
    if isinstance(step, str):
        if not _INDEX.fullmatch(step):
            return MISSING
        step = int(step)
    return items[step] if -len(items) <= step < len(items) else MISSING


def _parse_bound(digits: str) -> int | None:
    return int(digits) if digits.lstrip("-") else None


def _to_items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _parse_pointer(pointer: str) -> list[str]:
    # Imported on first use, because this module is also used by projects without the extra `states`.
    from jsonpointer import JsonPointer, JsonPointerException

    try:
        return JsonPointer(pointer).parts
    except JsonPointerException as error:
        raise RoutingError(
            f"{pointer[:_QUOTE_LIMIT]!r} is not a JSON pointer: {error}."
            f" Write for example /data/items, with ~1 for a slash in a key, and ~0 for a tilde."
        ) from None


def _describe_failure(pointer: str, parents: list[str], part: str, value: Any) -> str:
    prefix = "/" + "/".join(parents) if parents else "the beginning"
    is_map = isinstance(value, dict)
    hint = _suggest_key(part, cast(dict[str, Any], value)) if is_map else f"There is {_describe(value)}."
    return f"The pointer {pointer[:_QUOTE_LIMIT]!r} does not exist: at {prefix} there is no {part!r}. {hint}"


def _suggest_key(name: str, fields: dict[str, Any]) -> str:
    return suggestion(name, list(fields)[:_NAMES_LIMIT], noun="Keys")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"a map with the keys {', '.join(map(str, list(cast(dict[str, Any], value))[:10])) or 'none'}"
    if isinstance(value, list):
        return f"a list of {len(cast(list[Any], value))} items"
    return f"the value {str(value)[:_QUOTE_LIMIT]!r}"
