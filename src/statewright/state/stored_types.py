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
    """Return the user-defined classes in the annotations of schemas, or in `hints`, at any depth.

    Values of dataclasses, pydantic models, Enums and NamedTuples can always be saved. For other classes, the saver
    raises an error unless a codec is registered. Classes that probably have no instances of their own are left out:
    protocols, abstract classes, and base classes.
    """
    classes: set[type[Any]] = set()
    for schema in schemas:
        for field in schema.fields.values():
            if type(field.channel) is not Untracked:  # untracked fields are never saved
                _collect_classes(field.hint, classes, set())
    for hint in hints:
        _collect_classes(hint, classes, set())
    return frozenset(classes)


def _collect_classes(hint: Any, classes: set[type[Any]], seen: set[int]) -> None:
    """Add the classes in an annotation, and the classes in the annotations of their fields, to `classes`.

    `seen` contains the object ids of the annotations that have been visited.
    """
    if id(hint) in seen:
        return
    seen.add(id(hint))
    for argument in get_args(hint):
        _collect_classes(argument, classes, seen)
    if isinstance(hint, type) and hint.__module__ != "builtins":
        cls = cast("type[Any]", hint)
        if _has_generic_codec(cls) or _is_user_defined(cls):
            classes.add(cls)
        for field_hint in () if issubclass(cls, Enum) else _hints(cls).values():
            _collect_classes(field_hint, classes, seen)


def _is_user_defined(cls: type[Any]) -> bool:
    """Return whether a class is user-defined and may have instances in a state."""
    module = cls.__module__.partition(".")[0]
    if module == "statewright" or (module in sys.stdlib_module_names and module != "__main__"):
        return False
    is_base = inspect.isabstract(cls) or getattr(cls, "_is_protocol", False) or bool(cls.__subclasses__())
    return not (is_base or hasattr(cls, "__required_keys__"))


def _has_generic_codec(cls: type[Any]) -> bool:
    """Return whether values of a user-defined class can be saved although no codec is registered for it."""
    if cls.__module__.partition(".")[0] == "statewright":
        return False  # classes of this library have codecs
    if issubclass(cls, Enum) or hasattr(cls, "model_fields") or dataclasses.is_dataclass(cls):
        return True
    return issubclass(cls, tuple) and hasattr(cast(Any, cls), "_fields")


def _hints(cls: type[Any]) -> Mapping[str, Any]:
    """Return the annotations of the fields of a class; empty if it has none, or if they cannot be resolved."""
    if not (_has_generic_codec(cls) or hasattr(cls, "__required_keys__")):
        return {}
    fields = getattr(cls, "model_fields", None)
    if fields is not None:
        return {name: field.annotation for name, field in cast("dict[str, Any]", fields).items()}
    try:
        return typing.get_type_hints(cls)
    except Exception:  # the annotations may contain names that are defined only for type checkers
        return {}
