"""Parsing of answers into dataclasses: each field is read from its camel-case name.

Fields that a newer service adds are not lost: `raw` has them. Fields that an older one does not know are None or empty
if the value allows for that.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Self, Union, cast, get_args, get_origin, get_type_hints

from statewright.client.call import camel


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The base class of all results."""

    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The JSON that it was read from."""

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
        return [cls.from_json(one) for one in answer["data"]]


@cache
def _readers(kind: type[Shown]) -> Sequence[tuple[str, Callable[[Mapping[str, Any]], Any]]]:
    hints = get_type_hints(kind)
    return tuple((one.name, _reader(one, hints[one.name])) for one in fields(kind) if one.name != "raw")


def _reader(one: Field[Any], hint: Any) -> Callable[[Mapping[str, Any]], Any]:
    name, convert = camel(one.name), _converter(hint)
    required = one.default is MISSING and not _may_be_none(hint)

    def read(data: Mapping[str, Any]) -> Any:
        if name not in data:
            if required:
                raise KeyError(name)
            return None if one.default is MISSING else one.default
        value = data[name]
        return value if value is None or convert is None else convert(value)

    return read


def _may_be_none(hint: Any) -> bool:
    return hint is Any or type(None) in get_args(hint)


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the conversion from JSON to a type; None if the value needs none."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return _converter(next(one for one in arguments if one is not type(None)))
    if hint is datetime:
        return datetime.fromisoformat
    if isinstance(hint, type) and issubclass(hint, Shown):
        return hint.from_json
    if get_origin(hint) is tuple:
        return _all(_converter(arguments[0]))
    return None


def _all(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda values: tuple(cast("Sequence[Any]", values))
    return lambda values: tuple(convert(one) for one in values)
