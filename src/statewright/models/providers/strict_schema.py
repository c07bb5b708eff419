"""Schemas that Anthropic can hold a model to. It is told others in words.

Its grammars know no schema that holds itself, and no object whose fields are not all named: its library closes such an
object, so that the model can answer nothing but `{}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")
_SAYS_WHAT: Final = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says of every value in it what that is, with an end."""
    return all(map(_is_closed_itself, _parts(schema))) and not _is_recursive(schema)


def _is_closed_itself(part: Mapping[str, Any]) -> bool:
    if not _SAYS_WHAT & part.keys() or not isinstance(part.get("type", ""), str):
        return False
    if part.get("type") != "object":
        return True
    return bool(part.get("properties")) and part.get("additionalProperties", False) is False


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it, in no certain order."""
    unread: list[Any] = [schema]
    while unread:
        part = unread.pop()
        if not isinstance(part, Mapping):
            continue
        known = cast("Mapping[str, Any]", part)
        yield known
        for word in _LISTS:
            unread.extend(known.get(word) or ())
        for word in _MAPS:
            named: Mapping[str, Any] = known.get(word) or {}
            unread.extend(named.values())
        if "items" in known:
            unread.append(known["items"])


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a definition refers to itself, maybe through others; whatever refers to the root does."""
    definitions: dict[str, Any] = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    named = {name: _referred(one) for name, one in definitions.items()}
    if not (_referred(schema) <= named.keys()):
        return True
    while free := [name for name, others in named.items() if not others & named.keys()]:
        for name in free:
            del named[name]
    return bool(named)


def _referred(schema: Any) -> set[str]:
    """Return the last names of all references in a schema."""
    if not isinstance(schema, Mapping):
        return set()
    parts = _parts(cast("Mapping[str, Any]", schema))
    return {str(part["$ref"]).rpartition("/")[2] for part in parts if "$ref" in part}
