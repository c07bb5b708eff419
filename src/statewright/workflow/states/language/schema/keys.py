"""Declarations of the keys of maps, as annotations on the classes of the model.

    @dataclass(frozen=True, slots=True)
    class Tool:
        \"\"\"A tool that states call.\"\"\"

        schema: ClassVar = MapSchema("tool", "a map with an id", noun="Tool")
        id: Annotated[str, Text(may_be_empty=False), Key("The name by which states refer to it.")]
        trace: Annotated[bool, Key("Whether calls are logged in detail.")] = False
        label: ClassVar[Annotated[str, Key("A label.")]]
        verbose: ClassVar = Renamed("trace")
        toolset: ClassVar = Ignored("tools are identified by name.")

The type of the values follows from the annotation, and a field without a default is a required key. A class variable
with a `Key` declares a key that has no field. The value of such a key is stored in the field `settings`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from statewright.workflow.states.language.schema.value_types import (
    Anything,
    Choice,
    Flag,
    ListOf,
    Map,
    Number,
    Text,
    ValueType,
)

_FIELD_DEFAULT: Final[Any] = object()
_ANYTHING: Final = Anything()


@dataclass(frozen=True, slots=True)
class Key:
    """Declares a field as a key of a map."""

    doc: str
    aliases: tuple[str, ...] = ()
    """Names that authors write by mistake for this key, for suggestions."""
    name: str = ""
    """The key; by default the name of the field."""
    default: Any = _FIELD_DEFAULT
    """The default value to document; None to document no default. If omitted, it is the default of the field."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Declares a deprecated name of a key."""

    current_name: str
    both_allowed: bool = False
    """True if both keys may be present. Then the current key takes precedence."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Declares a key that is accepted without effect."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySchema:
    """A declared key."""

    name: str
    type: ValueType = _ANYTHING
    doc: str = ""
    required: bool = False
    default: Any = None
    current_name: str = ""
    """The current name of a deprecated key; empty for other keys."""
    both_allowed: bool = False
    ignored: str = ""
    """The reason why a key is accepted without effect; empty for other keys."""
    aliases: tuple[str, ...] = ()
    field: str = ""
    """The field of the model; empty for a key whose value is stored in `settings`."""
    is_raw: bool = False
    """True if the model stores the map as it is written, although the keys of the map are declared."""


def read_keys(model: type[Any]) -> Mapping[str, KeySchema]:
    """Return the declared keys of a class by name, in the order of their declaration."""
    return {key.name: key for key in _iter_keys(model)}


def _iter_keys(model: type[Any]) -> Iterator[KeySchema]:
    fields = {field.name: field for field in dataclasses.fields(model)}
    hints = get_type_hints(model, include_extras=True)
    for name, hint in hints.items():
        value = getattr(model, name, None)
        if isinstance(value, Ignored):
            yield KeySchema(name=name, ignored=value.reason)
        elif isinstance(value, Renamed):
            current = _make_key(value.current_name, hints[value.current_name], fields.get(value.current_name))
            assert current is not None
            yield KeySchema(
                name=name,
                type=current.type,
                doc=current.doc,
                current_name=value.current_name,
                both_allowed=value.both_allowed,
            )
        elif (key := _make_key(name, hint, fields.get(name))) is not None:
            yield key


def _make_key(name: str, hint: Any, field: dataclasses.Field[Any] | None) -> KeySchema | None:
    """Return the key that a type hint declares; None for other fields and class variables."""
    base, annotations = _unwrap(hint)
    key = next((annotation for annotation in annotations if isinstance(annotation, Key)), None)
    if key is None:
        return None
    default = _get_default(field) if field is not None else None
    documented_default = default if key.default is _FIELD_DEFAULT else key.default
    if isinstance(documented_default, tuple):
        documented_default = list(cast("tuple[Any, ...]", documented_default))  # as in JSON
    return KeySchema(
        name=key.name or name,
        type=_find_value_type(base, annotations),
        doc=key.doc,
        required=default is dataclasses.MISSING,
        default=None if documented_default is dataclasses.MISSING else documented_default,
        aliases=key.aliases,
        field=name if field is not None else "",
        is_raw=get_origin(base) is Mapping,
    )


def _get_default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _unwrap(hint: Any) -> tuple[Any, list[Any]]:
    """Return the type without annotations, ClassVar and None, and all annotations."""
    annotations: list[Any] = []
    while True:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            hint, annotations = args[0], [*annotations, *args[1:]]
        elif origin is ClassVar:
            hint = args[0]
        elif types.NoneType in args:
            hint = Union[tuple(arg for arg in args if arg is not types.NoneType)]  # noqa: UP007
        else:
            return hint, annotations


def _find_value_type(base: Any, annotations: list[Any]) -> ValueType:
    """Return the value type of a key.

    A value type among the annotations is completed from the Python type `base`. Without one, the value type is the one
    that corresponds to the Python type.
    """
    annotation = next((item for item in annotations if isinstance(item, Text | Number | ListOf)), None)
    schema = next((item.schema for item in (*annotations, base) if hasattr(item, "schema")), None)
    origin, args = get_origin(base), get_args(base)
    if origin is tuple:
        return replace(
            annotation if isinstance(annotation, ListOf) else ListOf(), item=_find_value_type(*_unwrap(args[0]))
        )
    if isinstance(annotation, Number):
        return replace(annotation, is_whole=base is int)
    if annotation is not None:
        return annotation
    if schema is not None:
        return schema
    if origin is Literal:
        return Choice(args)
    if origin in (Union, types.UnionType):  # bool or a literal
        return Flag(get_args(args[1]))
    return {str: Text(), bool: Flag(), Mapping: Map()}.get(origin or base, _ANYTHING)
