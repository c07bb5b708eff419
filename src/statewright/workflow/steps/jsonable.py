"""Values as plain JSON: what enters the state of a workflow of steps, and what handlers get of it.

The state is shown, stored and sent as JSON, so it holds nothing else. Each side has a copy of its own: what a handler
does to what it was given, or to what it has answered, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError


def plain(value: Any, what: str) -> Any:
    """A copy of the value as JSON: dataclasses and models become maps, instants text, numbers that are none null.

    Raises InvalidUpdateError, which calls the value `what`, for what JSON cannot say.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidUpdateError(
            f"{what} cannot be written as JSON: {error}. Use text, numbers, truth values, lists and maps."
        ) from error


def plain_map(value: Any, what: str) -> dict[str, Any]:
    """`plain` of a map. Raises InvalidUpdateError for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidUpdateError(f"{what} is {_short(value)} of type {type(value).__name__}. Give a map.")
    return plain(cast("Mapping[str, Any]", value), what)


def copied(value: Any) -> Any:
    """A copy of plain JSON that shares nothing with it that can be changed."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in cast("dict[str, Any]", value).items()}
    return [copied(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
