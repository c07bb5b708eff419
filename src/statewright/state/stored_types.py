"""The user-defined classes in the annotations of a schema, whose values may be part of a saved state."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, cast, get_args

from statewright.channels import Untracked
from statewright.state.schema import StateSchema


def stored_types(schemas: Iterable[StateSchema], hints: Iterable[Any] = ()) -> frozenset[type]:
    """Return the user-defined classes in the fields of schemas, or in `hints`, at any depth.

    Dataclasses, pydantic models, Enums and NamedTuples can always be saved; other classes only if a codec is
    registered, otherwise the saver raises. Classes that are unlikely to have instances are left out: protocols,
    abstract classes, and bases of other classes.
    """
    classes: set[type[Any]] = set()
    for schema in schemas:
        for field in schema.fields.values():
            if type(field.channel) is not Untracked:  # never saved
                _collect_classes(field.hint, classes, set())
    for hint in hints:
        _collect_classes(hint, classes, set())
    return frozenset(classes)


def _collect_classes(hint: Any, classes: set[type[Any]], seen: set[int]) -> None:
    """Add the classes in an annotation, and those in the annotations of their fields."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    for part in get_args(hint):
        _collect_classes(part, classes, seen)
    if isinstance(hint, type) and hint.__module__ != "builtins":
        kind = cast("type[Any]", hint)
        if _has_generic_codec(kind) or _is_user_defined(kind):
            classes.add(kind)
        for part in () if issubclass(kind, Enum) else _hints(kind).values():
            _collect_classes(part, classes, seen)


def _is_user_defined(kind: type[Any]) -> bool:
    """Return whether a class is user-defined and may have instances in a state."""
    module = kind.__module__.partition(".")[0]
    if module == "statewright" or (module in sys.stdlib_module_names and module != "__main__"):
        return False
    is_base = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) or bool(kind.__subclasses__())
    return not (is_base or hasattr(kind, "__required_keys__"))


def _has_generic_codec(kind: type[Any]) -> bool:
    """Return whether values of a user-defined class can be saved without registering a codec."""
    if kind.__module__.partition(".")[0] == "statewright":
        return False  # classes of this library have codecs
    if issubclass(kind, Enum) or hasattr(kind, "model_fields") or dataclasses.is_dataclass(kind):
        return True
    return issubclass(kind, tuple) and hasattr(cast(Any, kind), "_fields")


def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """Return the annotations of the fields of a class; empty if it has none, or if they cannot be resolved."""
    if not (_has_generic_codec(kind) or hasattr(kind, "__required_keys__")):
        return {}
    fields = getattr(kind, "model_fields", None)
    if fields is not None:
        return {name: field.annotation for name, field in cast("dict[str, Any]", fields).items()}
    try:
        return typing.get_type_hints(kind)
    except Exception:  # names that exist only for type checkers
        return {}
