"""Taking parts out of values: the items of an iteration, JSON pointers and dotted paths.

A pointer may lead into a text that is JSON itself: tools answer with JSON inside JSON, and the reference unwraps it.
What cannot be found is a RoutingError that says how far the way led.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from statewright.errors import RoutingError, suggestion
from statewright.workflow.states.expressions.output import parse_result

WHOLE: Final = "."
"""The iter_key that stands for the result itself."""
_SHOWN: Final = 100
"""Characters of a value that a message quotes."""
_NAMES_SHOWN: Final = 50
_INDEX: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_STEP: Final = re.compile(
    r"""(?:^|\.)(?P<name>[^\s.\[\]()"']+)|\[\s*(?:(?P<index>-?\d{1,9})|(?P<start>-?\d{0,9}):(?P<stop>-?\d{0,9})"""
    r"""|"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*\]""",
    re.ASCII,
)
MISSING: Final[Any] = object()
"""What `follow` answers when there is nothing."""


def resolve_items(result: Any, iter_key: str) -> list[Any]:
    """The items over which a state iterates, taken from its parsed result.

    A list is its own items, whatever word is the key. What is found and is no list is the only item. Raises
    RoutingError when a map lacks the key, or a pointer leads nowhere.
    """
    if iter_key.startswith("/"):
        return _as_items(at_pointer(result, iter_key))
    if not isinstance(result, dict) or iter_key == WHOLE:
        return _as_items(result)
    found = cast(dict[str, Any], result)
    if iter_key not in found:
        raise RoutingError(
            f"The result has no key {iter_key!r} to iterate over. {_near(iter_key, found)}"
            f" Name one of them as iter_key, or let the state answer with {iter_key!r}."
        )
    return _as_items(found[iter_key])


def at_pointer(value: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) leads to, in its own type. An empty pointer leads to the value itself.

    A text on the way that holds a map or list as JSON is read; after a slash at the end, the text that was found is
    too. Raises RoutingError.
    """
    parts = _pointer_parts(pointer)
    if isinstance(value, str) and parts:
        value = _unwrapped(value)
    for place, part in enumerate(parts):
        found = follow(value, (part,))
        is_last = place == len(parts) - 1
        if found is MISSING and part == "" and is_last:
            return value
        if found is MISSING:
            raise RoutingError(_lost(pointer, parts[:place], part, value))
        value = found if is_last else _unwrapped(found)
    return value


def at_path(value: Any, path: str) -> Any:
    """What a path of names and indexes leads to: `name.field[0]`, `rows[1:3]`, `rows[-1]["key with spaces"]`.

    Raises RoutingError if it is no path, or leads nowhere.
    """
    steps = read_path(path)
    if steps is None:
        raise RoutingError(f"{path[:_SHOWN]!r} is no path. Paths look like name.field[0] or rows[1:3].")
    for place, step in enumerate(steps):
        found = follow(value, (step,))
        if found is MISSING:
            where = f"after step {place}" if place else "at the beginning"
            raise RoutingError(
                f"The path {path[:_SHOWN]!r} leads nowhere: {where} there is no {step!r} in {_described(value)}."
            )
        value = found
    return value


def read_path(path: str) -> tuple[str | int | slice, ...] | None:
    """The steps of a path: keys, indexes and slices. None if it is no path."""
    steps: list[str | int | slice] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (at == 0 and (found["name"] is None or path[0] == ".")):
            return None
        steps.append(_step_of(found))
        at = found.end()
    return tuple(steps) or None


def follow(value: Any, steps: tuple[str | int | slice, ...]) -> Any:
    """What the steps of a path lead to; `MISSING` if they lead nowhere."""
    for step in steps:
        if isinstance(value, dict):
            value = cast(dict[Any, Any], value).get(step, MISSING) if isinstance(step, str) else MISSING
        elif isinstance(value, list):
            value = _in_list(cast(list[Any], value), step)
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def _step_of(found: re.Match[str]) -> str | int | slice:
    if found["index"] is not None:
        return int(found["index"])
    if found["stop"] is not None:
        return slice(_bound(found["start"]), _bound(found["stop"]))
    return found["name"] or found["double"] or found["single"] or ""


def _in_list(items: list[Any], step: str | int | slice) -> Any:
    """A number after a dot counts as an index too."""
    if isinstance(step, slice):
        return items[step]
    if isinstance(step, str):
        if not _INDEX.fullmatch(step):
            return MISSING
        step = int(step)
    return items[step] if -len(items) <= step < len(items) else MISSING


def _bound(digits: str) -> int | None:
    return int(digits) if digits.lstrip("-") else None


def _as_items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def _pointer_parts(pointer: str) -> list[str]:
    from jsonpointer import JsonPointer, JsonPointerException  # not above: projects without YAML get this far

    try:
        return JsonPointer(pointer).parts
    except JsonPointerException as error:
        raise RoutingError(
            f"{pointer[:_SHOWN]!r} is no JSON pointer: {error}."
            f" Write /data/items, with ~1 for a slash in a key and ~0 for ~."
        ) from None


def _unwrapped(value: Any) -> Any:
    """What a text that is JSON holds, if that is a map or a list; other values as they are."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    held = parse_result(value)
    return cast(Any, held) if isinstance(held, dict | list) else value


def _lost(pointer: str, done: list[str], part: str, value: Any) -> str:
    way = "/" + "/".join(done) if done else "the beginning"
    hint = _near(part, cast(dict[str, Any], value)) if isinstance(value, dict) else f"There is {_described(value)}."
    return f"The pointer {pointer[:_SHOWN]!r} leads nowhere: at {way} there is no {part!r}. {hint}"


def _near(name: str, found: dict[str, Any]) -> str:
    return suggestion(name, list(found)[:_NAMES_SHOWN], noun="Keys")


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"a map with the keys {', '.join(map(str, list(cast(dict[str, Any], value))[:10])) or 'none'}"
    if isinstance(value, list):
        return f"a list of {len(cast(list[Any], value))}"
    return f"the value {str(value)[:_SHOWN]!r}"
