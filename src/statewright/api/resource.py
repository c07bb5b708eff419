"""The base class of resources: frozen dataclasses that are parsed from JSON with camel-case names.

Clients and services of different versions work together. Fields that a newer service adds are in `raw`. Fields that an
older service does not send get their default value, or None if their type allows it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, Self, Union, get_args, get_origin, get_type_hints

MAX_PAGE_SIZE: Final = 100
"""The maximum number of items on one page of a list."""
FieldReader = Callable[[Mapping[str, Any]], Any]
"""Reads the value of one field from the JSON of its resource."""


def camel(name: str) -> str:
    """Convert a name to the camel case of the API, such as `created_at` to `createdAt`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The base class of all resources."""

    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The JSON from which the resource was parsed."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Parse a resource. Raises KeyError for a missing required field."""
        return cls(raw=data, **{name: read(data) for name, read in _make_readers(cls)})

    @classmethod
    def from_response(cls, response: Any) -> Self:
        """Parse the resource in the `data` of a response."""
        return cls.from_json(response["data"])

    @classmethod
    def read_all(cls, response: Any) -> list[Self]:
        """Parse the list of resources in the `data` of a response."""
        return [cls.from_json(data) for data in response["data"]]


@cache
def field_types(resource: type[Resource]) -> Mapping[str, Any]:
    """Return the types of the fields by name, without `raw`, in the order of the API's JSON.

    Inherited fields come first. A field that the subclass declares again takes the position of the new declaration.
    """
    hints = get_type_hints(resource)
    declared = inspect.get_annotations(resource)
    inherited = [item.name for item in fields(resource) if item.name not in declared]
    return {name: hints[name] for name in (*inherited, *declared) if name != "raw"}


@cache
def _make_readers(resource: type[Resource]) -> Sequence[tuple[str, FieldReader]]:
    by_name = {item.name: item for item in fields(resource)}
    return tuple((name, _make_reader(by_name[name], hint)) for name, hint in field_types(resource).items())


def _make_reader(item: Field[Any], hint: Any) -> FieldReader:
    name, convert = camel(item.name), _make_converter(hint)
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


def _make_converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return a function that converts JSON to a type; None if the value needs no conversion."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):  # always a type or None
        return _make_converter(next(argument for argument in arguments if argument is not type(None)))
    if hint is datetime:
        return datetime.fromisoformat
    if isinstance(hint, type) and issubclass(hint, Resource):
        return hint.from_json
    if get_origin(hint) is tuple:
        convert = _make_converter(arguments[0])
        return tuple if convert is None else lambda values: tuple(map(convert, values))
    return None
