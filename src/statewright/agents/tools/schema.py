"""Validation of values that models write: by a class, or by a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pydantic import ValidationError

from statewright.json_schema import json_schema_validator
from statewright.state import type_adapter


class ValueSchema:
    """A JSON Schema, or the one of a pydantic model, a dataclass or a TypedDict, and the validation by it.

    Raises UnusableSchema for an invalid JSON Schema, and errors of pydantic for a class that it does not support.
    """

    def __init__(self, source: Any) -> None:
        self._adapter: Any = None
        if isinstance(source, Mapping):
            self.schema = dict(cast("Mapping[str, Any]", source))
            self._validator = json_schema_validator(self.schema, extra="models")
        else:
            self._adapter = type_adapter(source)
            self.schema = cast("dict[str, Any]", self._adapter.json_schema())

    def read(self, value: Any) -> Any:
        """Return a value as an instance of the class, or unchanged. Raises ValueError with all problems."""
        if self._adapter is not None:
            return _read(self._adapter.validate_python, value)
        problems = "; ".join(_error_path(error) + str(error.message) for error in self._validator.iter_errors(value))
        if problems:
            raise ValueError(problems)
        return value

    def read_json(self, text: str) -> Any:
        """Like `read`, for a value that is written as JSON."""
        return self.read(json.loads(text)) if self._adapter is None else _read(self._adapter.validate_json, text)

    def to_json(self, value: Any) -> Any:
        """Return a value that was read as plain JSON."""
        return value if self._adapter is None else self._adapter.dump_python(value, mode="json")


def _read(validate: Callable[[Any], Any], value: Any) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        raise ValueError(describe_problems(error.errors(), "the value")) from None


def _error_path(error: Any) -> str:
    path = ".".join(map(str, error.instance_path))
    return f"{path}: " if path else ""


def describe_problems(errors: Iterable[Any], root: str = "") -> str:
    """Return the errors that pydantic lists as text; `root` stands for the path of the whole value."""
    return "; ".join(f"{'.'.join(map(str, error['loc'])) or root}: {error['msg']}" for error in errors)
