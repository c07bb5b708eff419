"""Conversion of values to plain JSON, at the boundary between handlers and the state of a workflow.

The state is stored and sent as JSON, so it holds nothing else. Both sides work on copies: a handler that modifies its
arguments or its result later does not change the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.data.jsonable import quoted, to_strict_jsonable
from statewright.errors import InvalidUpdateError


def to_jsonable(value: Any, label: str) -> Any:
    """Convert a value to JSON, as a copy: dataclasses and models become maps, instants text, NaN and infinity null.

    Raises InvalidUpdateError for a value that JSON cannot represent; `label` names the value in the message.
    """
    try:
        return to_strict_jsonable(value)
    except ValueError as error:
        raise InvalidUpdateError(
            f"{label} cannot be written as JSON: {error}. Use text, numbers, booleans, lists and maps."
        ) from error


def to_jsonable_map(value: Any, label: str) -> dict[str, Any]:
    """Convert a map to JSON, as a copy. Raises InvalidUpdateError for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidUpdateError(f"{label} is {quoted(value)} of type {type(value).__name__}. Use a map.")
    return to_jsonable(cast("Mapping[str, Any]", value), label)
