"""The form of the output: what `output_schema` asks for. Required fields and scalar types; nothing else is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

from statewright.agents import as_text
from statewright.errors import InvalidUpdateError
from statewright.workflow.states.language.yaml.nodes import shortened
from statewright.workflow.states.nodes.config import ConfigReader
from statewright.workflow.states.nodes.transform.source import Data

_LONGEST: Final = 100
"""Characters of a text that may become a number."""
_WORDS: Final = {"true": True, "false": False}


def _as_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _as_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return _WORDS[value.strip().lower()]
    if value in (0, 1):
        return bool(value)
    raise ValueError(value)


def _as_integer(value: Any) -> int:
    number = _as_number(value)
    if number != int(number):
        raise ValueError(value)
    return int(number)


def _as_number(value: Any) -> int | float:
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > _LONGEST):
        raise ValueError(value)
    if isinstance(value, int):
        return value
    number = float(value)
    if not isfinite(number):
        raise ValueError(value)
    return int(value) if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() else number


COERCIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _as_string,
    "boolean": _as_boolean,
    "integer": _as_integer,
    "number": _as_number,
}
"""What makes a scalar of a type from another scalar. They raise ValueError, KeyError or OverflowError."""
_IS: Final[Mapping[str, Callable[[Any], bool]]] = {
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
    """What a schema asks of an output, in so far as it is checked."""

    required: tuple[str, ...] = ()
    types: Mapping[str, tuple[str, ...]] | None = None
    """By field: the types that it may have."""

    def missing(self, output: Data) -> Iterator[str]:
        """The required fields that the output lacks. Null counts as nothing, where no type allows it."""
        for name in self.required:
            if output.get(name) is None and not (name in output and "null" in self._types_of(name)):
                yield name

    def coerced(self, name: str, value: Any) -> Any:
        """The value of a field in the type that is asked for. Raises InvalidUpdateError where it cannot be made so.

        Null stays null, and maps and lists are left as they are where no scalar is asked for.
        """
        types = self._types_of(name)
        scalars = [one for one in types if one in COERCIONS]
        if value is None or not scalars or any(_IS[one](value) for one in types if one in _IS):
            return value
        for kind in scalars:
            try:
                if not isinstance(value, list | dict):
                    return COERCIONS[kind](value)
            except (ValueError, KeyError, OverflowError):
                continue
        raise InvalidUpdateError(f"{shortened(as_text(value))!r} is no {' or '.join(types)}.")

    def _types_of(self, name: str) -> tuple[str, ...]:
        return (self.types or {}).get(name, ())


def read_shape(reader: ConfigReader) -> OutputShape:
    """The shape that `output_schema` describes; notes what is wrong about it."""
    schema = reader.map("output_schema")
    if schema is None:
        return OutputShape()
    inner = reader.inner(schema, "output_schema")
    required, properties = inner.texts("required"), inner.map("properties") or {}
    return OutputShape(required, {name: _types_in(inner, name, one) for name, one in properties.items()})


def _types_in(reader: ConfigReader, name: str, schema: Any) -> tuple[str, ...]:
    written: Any = cast("Data", schema).get("type", []) if isinstance(schema, dict) else None
    types = cast("list[Any]", written if isinstance(written, list) else [written])
    unknown = [one for one in types if not isinstance(one, str) or one not in _IS]
    if unknown:
        message = f"The type of {shortened(name)!r} is {shortened(str(unknown[0]))!r}."
        reader.fault("properties", message, f"Known types: {', '.join(_IS)}.")
        return ()
    return tuple(types)
