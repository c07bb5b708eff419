"""Types that nodes ask answers to have, in a form that can be stored: never by import path, always by known name."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

NameOf = Callable[[type[Any]], str | None]
Named = Callable[[str], type[Any] | None]

_SIMPLE: dict[str, Any] = {
    **{kind.__name__: kind for kind in (str, int, float, bool, bytes, list, dict, tuple, set, frozenset)},
    "None": type(None),
    "Any": Any,
}
_NAMES = {kind: name for name, kind in _SIMPLE.items()}
UNKNOWN: Any = None
"""Stands for a type that its stored form does not show: the node checks the answer when it gets it."""


def plain_annotation(annotation: Any, name_of: NameOf) -> Any:
    """Return a type as lists and text."""
    if annotation is None:
        return None
    if isinstance(annotation, dict):  # a JSON Schema
        return ["json", annotation]
    hint: Any = annotation
    if isinstance(hint, type) or hint is Any:
        simple = _NAMES.get(hint)
        if simple is not None:
            return simple
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ["literal", *args]
    if origin is Annotated:
        return plain_annotation(args[0], name_of)
    if origin is Union or origin is types.UnionType:
        return ["union", *(plain_annotation(one, name_of) for one in args)]
    if origin in _NAMES:
        inside = ["..." if one is Ellipsis else plain_annotation(one, name_of) for one in args]
        return ["of", _NAMES[origin], *inside]
    name = name_of(annotation) if isinstance(annotation, type) else None
    return ["class", name] if name is not None else ["unknown", repr(annotation)]


def made_annotation(plain: Any, named: Named) -> Any:
    """Reverse `plain_annotation`; UNKNOWN for an unregistered name in it."""
    if plain is None:
        return None
    if isinstance(plain, str):
        return _SIMPLE.get(plain, UNKNOWN)
    kind, *parts = cast("list[Any]", plain)
    if kind == "literal":
        return Literal[tuple(parts)]  # pyright: ignore  # made at run time
    if kind == "class":
        return named(parts[0])
    if kind == "json":
        return parts[0]
    if kind == "unknown":
        return UNKNOWN
    inside = [Ellipsis if one == "..." else made_annotation(one, named) for one in parts[kind == "of" :]]
    if any(one is UNKNOWN for one in inside):
        return UNKNOWN
    return Union[tuple(inside)] if kind == "union" else _SIMPLE[parts[0]][tuple(inside)]  # noqa: UP007


def schema_form(schema: Any) -> str | None:
    """Return a type or JSON Schema as text that is the same in every process; None for no schema.

    Questions are compared by this text: the type itself may not survive being stored.
    """
    return None if schema is None else _ADDRESS.sub("", _form(schema))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _form(hint: Any) -> str:
    if isinstance(hint, dict):
        import json  # few graphs need it

        return "json " + json.dumps(hint, sort_keys=True, default=repr)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"Annotated[{_form(args[0])}, {', '.join(map(repr, args[1:]))}]"
    if origin is Union or origin is types.UnionType:
        return " | ".join(map(_form, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin is not None and args:
        return f"{_form(origin)}[{', '.join(map(_form, args))}]"
    if isinstance(hint, type):
        return f"{hint.__module__}.{hint.__qualname__}"
    return repr(hint)
