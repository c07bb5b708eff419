"""The classes in a schema, whose values may be part of a saved state."""

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
    """Every class of a user that the fields of schemas name, or one of the hints, at any depth.

    Beside dataclasses, pydantic models, Enums and NamedTuples also those that can be stored only if they were
    registered: a saver that stores says so. Not those of which there are no values: protocols, abstract classes, and
    those from which others derive.
    """
    found: dict[type[Any], None] = {}
    for schema in schemas:
        for field in schema.fields.values():
            if type(field.channel) is not Untracked:  # never saved
                _collect(field.hint, found, set())
    for hint in hints:
        _collect(hint, found, set())
    return frozenset(found)


def _collect(hint: Any, found: dict[type[Any], None], seen: set[int]) -> None:
    """Add the classes in an annotation, and those that their fields name."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    for part in get_args(hint):
        _collect(part, found, seen)
    if isinstance(hint, type) and hint.__module__ != "builtins":
        kind = cast("type[Any]", hint)
        if _is_stored(kind) or _is_of_user(kind):
            found[kind] = None
        for part in () if issubclass(kind, Enum) else _hints(kind).values():
            _collect(part, found, seen)


def _is_of_user(kind: type[Any]) -> bool:
    """Return whether a class is user-defined and may have instances in a state."""
    module = kind.__module__.partition(".")[0]
    if module == "statewright" or (module in sys.stdlib_module_names and module != "__main__"):
        return False
    has_no_values = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) or bool(kind.__subclasses__())
    return not (has_no_values or hasattr(kind, "__required_keys__"))


def _is_stored(kind: type[Any]) -> bool:
    if kind.__module__.partition(".")[0] == "statewright":
        return False  # our own have codecs
    if issubclass(kind, Enum) or hasattr(kind, "model_fields") or dataclasses.is_dataclass(kind):
        return True
    return issubclass(kind, tuple) and hasattr(cast(Any, kind), "_fields")


def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """Return the annotations of the fields of a class; empty if it has none, or if they cannot be resolved."""
    if not (_is_stored(kind) or hasattr(kind, "__required_keys__")):
        return {}
    fields = getattr(kind, "model_fields", None)
    if fields is not None:
        return {name: field.annotation for name, field in cast("dict[str, Any]", fields).items()}
    try:
        return typing.get_type_hints(kind)
    except Exception:  # names that exist only for type checkers
        return {}
