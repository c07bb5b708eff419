"""Declarations of the keys of maps, as annotations on the classes of the model.

    @dataclass(frozen=True, slots=True)
    class Tool:
        \"\"\"A tool that states call.\"\"\"

        schema: ClassVar = MapSchema("tool", "a map with an id", noun="Tool")
        id: Annotated[str, Text(empty=False), Key("The name by which states refer to it.")]
        trace: Annotated[bool, Key("Whether calls are logged in detail.")] = False
        label: ClassVar[Annotated[str, Key("A label.")]]
        verbose: ClassVar = Renamed("trace")
        toolset: ClassVar = Ignored("a tool is found by its name alone.")

The kind of the values follows from the type, and a field without a default is a required key. A class variable with a
`Key` has no field of its own: its value goes to the field `settings`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from statewright.workflow.states.language.schema.kinds import Anything, Choice, Flag, Kind, ListOf, Map, Number, Text

_SAME: Final[Any] = object()
_ANYTHING: Final = Anything()


@dataclass(frozen=True, slots=True)
class Key:
    """Declares a field as a key of a map."""

    doc: str
    aliases: tuple[str, ...] = ()
    """Other names that people write for this key."""
    name: str = ""
    """The key; by default the name of the field."""
    default: Any = _SAME
    """The default for documentation, or None; by default that of the field."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Declares a deprecated key, which takes the values of another one."""

    to: str
    both_allowed: bool = False
    """True if it may be combined with its successor, which then wins."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Declares a key that is accepted without effect."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySchema:
    """A declared key."""

    name: str
    kind: Kind = _ANYTHING
    doc: str = ""
    required: bool = False
    default: Any = None
    current_name: str = ""
    """For a deprecated key: its current name."""
    both_allowed: bool = False
    ignored: str = ""
    """For a key that is accepted without effect: the reason."""
    aliases: tuple[str, ...] = ()
    field: str = ""
    """The field of the model; empty for a key that goes to its settings."""
    is_raw: bool = False
    """True if the model stores a map as it is written, although its keys are declared."""


def keys_of(model: type[Any]) -> Mapping[str, KeySchema]:
    """Return the declared keys of a class by name, in order."""
    return {key.name: key for key in _declared_keys(model)}


def _declared_keys(model: type[Any]) -> Iterator[KeySchema]:
    fields = {field.name: field for field in dataclasses.fields(model)}
    hints = get_type_hints(model, include_extras=True)
    for name, hint in hints.items():
        mark = getattr(model, name, None)
        if isinstance(mark, Ignored):
            yield KeySchema(name=name, ignored=mark.reason)
        elif isinstance(mark, Renamed):
            successor = _declared_key(mark.to, hints[mark.to], fields.get(mark.to))
            assert successor is not None
            yield KeySchema(
                name=name,
                kind=successor.kind,
                doc=successor.doc,
                current_name=mark.to,
                both_allowed=mark.both_allowed,
            )
        elif (key := _declared_key(name, hint, fields.get(name))) is not None:
            yield key


def _declared_key(name: str, hint: Any, field: dataclasses.Field[Any] | None) -> KeySchema | None:
    base, marks = _unwrap(hint)
    key = next((mark for mark in marks if isinstance(mark, Key)), None)
    if key is None:
        return None
    default = _default_of(field) if field is not None else None
    published = default if key.default is _SAME else key.default
    if isinstance(published, tuple):
        published = list(cast("tuple[Any, ...]", published))  # as in JSON
    return KeySchema(
        name=key.name or name,
        kind=_kind_of(base, marks),
        doc=key.doc,
        required=default is dataclasses.MISSING,
        default=None if published is dataclasses.MISSING else published,
        aliases=key.aliases,
        field=name if field is not None else "",
        is_raw=get_origin(base) is Mapping,
    )


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _unwrap(hint: Any) -> tuple[Any, list[Any]]:
    """Return the type without annotations and None, and all annotations."""
    marks: list[Any] = []
    while True:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            hint, marks = args[0], [*marks, *args[1:]]
        elif origin is ClassVar:
            hint = args[0]
        elif types.NoneType in args:
            hint = Union[tuple(arg for arg in args if arg is not types.NoneType)]  # noqa: UP007
        else:
            return hint, marks


def _kind_of(base: Any, marks: list[Any]) -> Kind:
    """Return the kind of values of a type: the annotated one, completed by the type, or else that of the type."""
    kind = next((mark for mark in marks if isinstance(mark, Text | Number | ListOf)), None)
    schema = next((mark.schema for mark in (*marks, base) if hasattr(mark, "schema")), None)
    origin, args = get_origin(base), get_args(base)
    if origin is tuple:
        return replace(kind if isinstance(kind, ListOf) else ListOf(), item=_kind_of(*_unwrap(args[0])))
    if isinstance(kind, Number):
        return replace(kind, whole=base is int)
    if kind is not None:
        return kind
    if schema is not None:
        return schema
    if origin is Literal:
        return Choice(args)
    if origin in (Union, types.UnionType):
        return Flag(get_args(args[1]))
    return {str: Text(), bool: Flag(), Mapping: Map()}.get(origin or base, _ANYTHING)
