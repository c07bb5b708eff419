"""The fields of schemas: stored fields, which have a type, a channel and an initial value, and computed fields."""

from __future__ import annotations

import collections
import collections.abc
import copy
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from statewright.channels import CONTAINERS, Channel, LastValue, channel_for, is_reducer
from statewright.errors import InvalidSchema

Start = Callable[[], Any]
"""Returns a new initial value."""

_CONCRETE: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
"""The class whose empty instance is the initial value of a field, by the abstract collection type of the field."""

_QUALIFIERS = {"Required", "NotRequired", "ReadOnly"}
"""The names of qualifiers. They are compared by name, because typing and typing_extensions have different objects."""


@dataclass(frozen=True)
class Constant:
    """A factory that returns a deep copy of a field's default value, which may be mutable."""

    value: Any

    def __call__(self) -> Any:
        return copy.deepcopy(self.value)


@dataclass(frozen=True, slots=True)
class Field:
    """A stored field of a schema."""

    name: str
    hint: Any
    """The type, without Annotated and qualifiers such as Required; Any if none is declared."""
    channel: Channel
    start: Start | None
    """The factory of the declared default; None if no default is declared."""

    @property
    def has_reducer(self) -> bool:
        """True if updates are merged instead of replacing the value."""
        return type(self.channel) is not LastValue


class Managed:
    """A field that is computed from the number of the superstep, such as `RemainingSteps`.

    `compute` receives the number of the current superstep and the number at which the recursion limit is reached.
    """

    __slots__ = ("compute", "name")

    def __init__(self, name: str, compute: Callable[[int, int], Any]) -> None:
        self.name = name
        self.compute = compute

    def __repr__(self) -> str:
        return self.name


class Derived:
    """A field of an output schema that is computed from the channels when a result is read.

    `total: Annotated[int, Derived(lambda values: sum(values["counts"]))]`. `compute` receives the values of all
    channels that have one, including those outside the output, and must not modify them.
    """

    __slots__ = ("compute", "hint")

    def __init__(self, compute: Callable[[Mapping[str, Any]], Any], hint: Any = Any) -> None:
        self.compute = compute
        self.hint = hint
        """The annotated type."""


def read_field(name: str, annotation: Any, default: Start | None = None) -> Field | Managed | Derived:
    """Return the field that an annotation declares; `default` is the factory of its default.

    Raises InvalidSchema if the annotation has two reducers, or a reducer that is not valid.
    """
    hint, metadata = split_annotation(annotation)
    managed = next((entry for entry in metadata if isinstance(entry, Managed)), None)
    if managed is not None:
        return managed
    derived = next((entry for entry in metadata if isinstance(entry, Derived)), None)
    if derived is not None:
        return Derived(derived.compute, hint)
    reducers = [entry for entry in metadata if is_reducer(entry)]
    if len(reducers) > 1:
        raise InvalidSchema(
            f"Field {name!r} has two reducers, {_name(reducers[0])} and {_name(reducers[1])}. Keep one of them."
        )
    if not reducers:
        return Field(name, hint, LastValue(), default)
    start = default or initial_value_factory(hint)
    channel = channel_for(reducers[0], start=start, is_list=concrete_class(hint) is list, field=name)
    return Field(name, hint, channel, default)


def split_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type in an annotation, without qualifiers, and the metadata of Annotated."""
    metadata: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            metadata = (*annotation.__metadata__, *metadata)
            annotation = annotation.__origin__
        elif getattr(origin, "_name", None) in _QUALIFIERS or getattr(origin, "__name__", None) in _QUALIFIERS:
            annotation = typing.get_args(annotation)[0]
        else:
            return annotation, metadata


def concrete_class(hint: Any) -> Any:
    """Return the class whose empty instance can be an initial value, such as `list` for `Sequence[str]`."""
    origin = typing.get_origin(hint) or hint
    return _CONCRETE.get(origin, origin)


def may_hold_container(hint: Any) -> bool:
    """Return whether the class of a value of this type may be exactly `list`, `dict` or `set`.

    Return True if the type does not determine it. Values are assumed to have the declared type.
    """
    hint, _ = split_annotation(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(map(may_hold_container, typing.get_args(hint)))
    if origin is typing.Literal or hint is None:
        return False
    if hasattr(hint, "__supertype__"):  # a NewType
        return may_hold_container(hint.__supertype__)
    cls = origin or hint
    if cls is Any or not isinstance(cls, type) or typing.is_typeddict(cls) or hasattr(cls, "__required_keys__"):
        return True
    try:
        return any(issubclass(container, cls) for container in CONTAINERS)
    except TypeError:  # a protocol with attributes
        return True


def initial_value_factory(hint: Any) -> Start | None:
    """Return a factory of empty values of a type, for a field with a reducer; None if the type needs arguments."""
    factory = concrete_class(hint)
    if not isinstance(factory, type) or factory in (types.UnionType, object, type(None)):
        return None
    try:
        cast(Start, factory)()
    except Exception:  # a user-defined class may raise anything; without a factory, the first update becomes the value
        return None
    return factory


def _name(reducer: object) -> str:
    return getattr(reducer, "__qualname__", None) or repr(reducer)
