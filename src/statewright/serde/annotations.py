"""Conversion of annotations (the required types of answers) to plain data and back.

Classes are stored under their registered names, so that reading an annotation imports nothing.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

NameOf = Callable[[type[Any]], str | None]
"""Returns the registered name of a class."""
ClassOf = Callable[[str], type[Any] | None]
"""Returns the class that is registered under a name."""

_SIMPLE: dict[str, Any] = {
    **{kind.__name__: kind for kind in (str, int, float, bool, bytes, list, dict, tuple, set, frozenset)},
    "None": type(None),
    "Any": Any,
}
_NAMES = {kind: name for name, kind in _SIMPLE.items()}
UNKNOWN: Any = None
"""Stands for a type that cannot be restored: the node then checks the answer when it receives it."""


def plain_annotation(annotation: Any, name_of: NameOf) -> Any:
    """Return an annotation, or a JSON Schema, as lists, strings and numbers."""
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
        return ["union", *(plain_annotation(arg, name_of) for arg in args)]
    if origin in _NAMES:
        plain_args = ["..." if arg is Ellipsis else plain_annotation(arg, name_of) for arg in args]
        return ["of", _NAMES[origin], *plain_args]
    name = name_of(annotation) if isinstance(annotation, type) else None
    return ["class", name] if name is not None else ["unknown", repr(annotation)]


def restore_annotation(plain: Any, class_of: ClassOf) -> Any:
    """Reverse `plain_annotation`; return UNKNOWN if a class in it is not registered."""
    if plain is None:
        return None
    if isinstance(plain, str):
        return _SIMPLE.get(plain, UNKNOWN)
    kind, *parts = cast("list[Any]", plain)
    if kind == "literal":
        return Literal[tuple(parts)]  # pyright: ignore  # not a static expression
    if kind == "class":
        return class_of(parts[0])
    if kind == "json":
        return parts[0]
    if kind == "unknown":
        return UNKNOWN
    origin: Any = Union if kind == "union" else _SIMPLE[parts.pop(0)]
    args = tuple(Ellipsis if part == "..." else restore_annotation(part, class_of) for part in parts)
    return UNKNOWN if any(arg is UNKNOWN for arg in args) else origin[args]


def schema_form(schema: Any) -> str | None:
    """Return a type or JSON Schema as a string that is the same in every process; None for no schema.

    Questions are compared by this string, because the type itself may not be restorable.
    """
    return None if schema is None else _ADDRESS.sub("", _form(schema))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _form(hint: Any) -> str:
    if isinstance(hint, dict):
        import json  # rarely needed

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
