"""Conversion of values to plain JSON, at the boundary between handlers and the state of a workflow.

The state is stored and sent as JSON, so it holds nothing else. Both sides work on copies: a handler that modifies its
arguments or its result later does not change the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.shorten import short_repr


def to_jsonable(value: Any, what: str) -> Any:
    """Convert a value to JSON, as a copy: dataclasses and models become maps, instants text, NaN and infinity null.

    Raises InvalidUpdateError for a value that JSON cannot represent; `what` names the value in the message.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidUpdateError(
            f"{what} cannot be written as JSON: {error}. Use text, numbers, booleans, lists and maps."
        ) from error


def to_jsonable_map(value: Any, what: str) -> dict[str, Any]:
    """Convert a map to JSON, as a copy. Raises InvalidUpdateError for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidUpdateError(f"{what} is {short_repr(value)} of type {type(value).__name__}. Use a map.")
    return to_jsonable(cast("Mapping[str, Any]", value), what)


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(one) for key, one in cast("dict[str, Any]", value).items()}
    return [copy_json(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value
