"""Conversion of type annotations (the answer types that interrupts require) to plain data and back.

Classes are stored under their registered names, so that reading an annotation imports nothing.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

NameOf = Callable[[type[Any]], str | None]
"""Returns the registered name of a class; None if the class is not registered."""
ClassOf = Callable[[str], type[Any] | None]
"""Returns the class that is registered under a name; None if there is none."""

_TYPES_BY_NAME: dict[str, Any] = {
    **{cls.__name__: cls for cls in (str, int, float, bool, bytes, list, dict, tuple, set, frozenset)},
    "None": type(None),
    "Any": Any,
}
_NAMES_BY_TYPE = {cls: name for name, cls in _TYPES_BY_NAME.items()}
UNKNOWN: Any = None
"""Replaces a type that cannot be restored. The answer is then checked only when the node receives it."""


def plain_annotation(annotation: Any, name_of: NameOf) -> Any:
    """Return an annotation, or a JSON Schema, as plain data that can be stored.

    The result is None, the name of a built-in type, or a list of a tag (`literal`, `union`, `of`, `class`, `json` or
    `unknown`) and its arguments.
    """
    if annotation is None:
        return None
    if isinstance(annotation, dict):  # a JSON Schema
        return ["json", annotation]
    hint: Any = annotation
    if isinstance(hint, type) or hint is Any:
        built_in_name = _NAMES_BY_TYPE.get(hint)
        if built_in_name is not None:
            return built_in_name
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ["literal", *args]
    if origin is Annotated:
        return plain_annotation(args[0], name_of)
    if origin is Union or origin is types.UnionType:
        return ["union", *(plain_annotation(arg, name_of) for arg in args)]
    if origin in _NAMES_BY_TYPE:
        plain_args = ["..." if arg is Ellipsis else plain_annotation(arg, name_of) for arg in args]
        return ["of", _NAMES_BY_TYPE[origin], *plain_args]
    name = name_of(annotation) if isinstance(annotation, type) else None
    return ["class", name] if name is not None else ["unknown", repr(annotation)]


def restore_annotation(plain: Any, class_of: ClassOf) -> Any:
    """Return the annotation that `plain_annotation` has converted; UNKNOWN if one of its classes is not registered."""
    if plain is None:
        return None
    if isinstance(plain, str):
        return _TYPES_BY_NAME.get(plain, UNKNOWN)
    tag, *plain_args = cast("list[Any]", plain)
    if tag == "literal":
        return Literal[tuple(plain_args)]  # pyright: ignore  # not a static expression
    if tag == "class":
        return class_of(plain_args[0])
    if tag == "json":
        return plain_args[0]
    if tag == "unknown":
        return UNKNOWN
    origin: Any = Union if tag == "union" else _TYPES_BY_NAME[plain_args.pop(0)]
    args = tuple(Ellipsis if arg == "..." else restore_annotation(arg, class_of) for arg in plain_args)
    return UNKNOWN if any(arg is UNKNOWN for arg in args) else origin[args]


def canonical_schema(schema: Any) -> str | None:
    """Return a type or a JSON Schema as a string that is the same in every process; None for no schema.

    Two questions are considered to have the same schema if these strings are equal. The types themselves cannot be
    compared, because a stored type cannot always be restored.
    """
    return None if schema is None else _ADDRESS.sub("", _format_canonically(schema))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _format_canonically(hint: Any) -> str:
    if isinstance(hint, dict):
        import json  # rarely needed

        return "json " + json.dumps(hint, sort_keys=True, default=repr)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"Annotated[{_format_canonically(args[0])}, {', '.join(map(repr, args[1:]))}]"
    if origin is Union or origin is types.UnionType:
        return " | ".join(map(_format_canonically, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin is not None and args:
        return f"{_format_canonically(origin)}[{', '.join(map(_format_canonically, args))}]"
    if isinstance(hint, type):
        return f"{hint.__module__}.{hint.__qualname__}"
    return repr(hint)
