"""The base class of resources: frozen dataclasses with Python names, parsed from JSON with camel-case names.

Clients and services of different versions understand each other: fields that a newer service adds are in `raw`, and
fields that an older one does not send are None if the type allows for that.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, Self, Union, cast, get_args, get_origin, get_type_hints

LARGEST_PAGE: Final = 100
"""The maximum number of items on one page of a list."""
Reader = Callable[[Mapping[str, Any]], Any]
"""Reads one field from the JSON of its resource."""


def camel(name: str) -> str:
    """Return a name as the API writes it: `createdAt` for `created_at`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The base class of all resources."""

    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The JSON from which it was parsed."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Create the value from JSON. Raises KeyError for a missing required field."""
        return cls(raw=data, **{name: read(data) for name, read in _readers(cls)})

    @classmethod
    def read_answer(cls, answer: Any) -> Self:
        """Return the value in the envelope of an answer."""
        return cls.from_json(answer["data"])

    @classmethod
    def read_all(cls, answer: Any) -> list[Self]:
        """Return the values in the envelope of an answer."""
        return [cls.from_json(data) for data in answer["data"]]


@cache
def field_types(kind: type[Resource]) -> Mapping[str, Any]:
    """Return the types of the fields in the order of the API's JSON, `raw` excluded.

    Inherited fields come first, but a field that is declared again stands where the subclass declares it.
    """
    hints = get_type_hints(kind)
    declared = inspect.get_annotations(kind)
    names = [item.name for item in fields(kind) if item.name not in declared]
    return {name: hints[name] for name in (*names, *declared) if name != "raw"}


@cache
def _readers(kind: type[Resource]) -> Sequence[tuple[str, Reader]]:
    by_name = {item.name: item for item in fields(kind)}
    return tuple((name, _reader(by_name[name], hint)) for name, hint in field_types(kind).items())


def _reader(item: Field[Any], hint: Any) -> Reader:
    name, convert = camel(item.name), _converter(hint)
    default = None if item.default is MISSING else item.default
    is_required = item.default is MISSING and not _allows_none(hint)

    def read(data: Mapping[str, Any]) -> Any:
        if name not in data:
            if is_required:
                raise KeyError(name)
            return default
        value = data[name]
        return value if value is None or convert is None else convert(value)

    return read


def _allows_none(hint: Any) -> bool:
    return hint is Any or type(None) in get_args(hint)


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the conversion from JSON to a type; None if the value needs none."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return _converter(next(argument for argument in arguments if argument is not type(None)))
    if hint is datetime:
        return datetime.fromisoformat
    if isinstance(hint, type) and issubclass(hint, Resource):
        return hint.from_json
    if get_origin(hint) is tuple:
        return _tuple_converter(_converter(arguments[0]))
    return None


def _tuple_converter(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda values: tuple(cast("Sequence[Any]", values))
    return lambda values: tuple(convert(value) for value in values)
