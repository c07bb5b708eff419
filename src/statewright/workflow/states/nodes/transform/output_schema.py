"""The `output_schema` of a transform node. Only required fields and the types of scalars are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

from statewright.agents import as_text
from statewright.errors import InvalidUpdateError
from statewright.workflow.states.language.yaml.nodes import shorten
from statewright.workflow.states.nodes.config import ConfigReader
from statewright.workflow.states.nodes.transform.mappings import Data

_MAX_NUMBER_LENGTH: Final = 100
"""Maximum characters of text that is converted to a number."""
_BOOLEANS: Final = {"true": True, "false": False}


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return _BOOLEANS[value.strip().lower()]
    if value in (0, 1):
        return bool(value)
    raise ValueError(value)


def _to_integer(value: Any) -> int:
    number = _to_number(value)
    if number != int(number):
        raise ValueError(value)
    return int(number)


def _to_number(value: Any) -> int | float:
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > _MAX_NUMBER_LENGTH):
        raise ValueError(value)
    if isinstance(value, int):
        return value
    number = float(value)
    if not isfinite(number):
        raise ValueError(value)
    return int(value) if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() else number


COERCIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "integer": _to_integer,
    "number": _to_number,
}
"""Conversions between scalars, by target type. They raise ValueError, KeyError or OverflowError."""
_TYPE_TESTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The part of an output schema that is checked."""

    required: tuple[str, ...] = ()
    types: Mapping[str, tuple[str, ...]] | None = None
    """The allowed types, by field."""

    def iter_missing(self, output: Data) -> Iterator[str]:
        """Yield the required fields that the output lacks, or that are null although their types do not allow it."""
        for name in self.required:
            if output.get(name) is None and not (name in output and "null" in self._get_types(name)):
                yield name

    def coerce(self, name: str, value: Any) -> Any:
        """Convert a value to the type of its field. Raises InvalidUpdateError if it cannot be converted.

        Null is returned unchanged, and so is any value of a field without a scalar type.
        """
        types = self._get_types(name)
        scalar_types = [type_name for type_name in types if type_name in COERCIONS]
        if value is None or not scalar_types or any(_TYPE_TESTS[type_name](value) for type_name in types):
            return value
        for type_name in scalar_types:
            try:
                if not isinstance(value, list | dict):
                    return COERCIONS[type_name](value)
            except (ValueError, KeyError, OverflowError):
                continue
        raise InvalidUpdateError(f"{shorten(as_text(value))!r} is not of type {' or '.join(types)}.")

    def _get_types(self, name: str) -> tuple[str, ...]:
        return (self.types or {}).get(name, ())


def read_shape(reader: ConfigReader) -> OutputShape:
    """Read `output_schema`, and add its faults to the reader."""
    schema = reader.map("output_schema")
    if schema is None:
        return OutputShape()
    inner = reader.inner(schema, "output_schema")
    required, properties = inner.texts("required"), inner.map("properties") or {}
    return OutputShape(
        required, {name: _read_types(inner, name, property_schema) for name, property_schema in properties.items()}
    )


def _read_types(reader: ConfigReader, name: str, schema: Any) -> tuple[str, ...]:
    value: Any = cast("Data", schema).get("type", []) if isinstance(schema, dict) else None
    types = cast("list[Any]", value if isinstance(value, list) else [value])
    unknown = [item for item in types if not isinstance(item, str) or item not in _TYPE_TESTS]
    if unknown:
        message = f"The type of {shorten(name)!r} is {shorten(str(unknown[0]))!r}."
        reader.fault("properties", message, f"Known types: {', '.join(_TYPE_TESTS)}.")
        return ()
    return tuple(types)
