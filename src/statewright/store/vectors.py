"""Search by meaning: embedding of texts, and exact comparison with every vector."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.store.model import Index

Vector = Sequence[float]


def required_index(index: Index | None) -> Index:
    """Return the index of a store. Raises InvalidUpdateError if it has none, so that a query is not possible."""
    if index is None:
        raise InvalidUpdateError("A search by meaning needs an index: give the store index=Index(dims=..., embed=...).")
    return index


def embedded(index: Index, texts: Sequence[str]) -> list[Vector]:
    """Return the vectors of texts, normalised to length 1. Raises InvalidUpdateError for wrong dimensions."""
    vectors = [list(map(float, vector)) for vector in index.embed(texts)] if texts else []
    dims = next((len(vector) for vector in vectors if len(vector) != index.dims), index.dims)
    if dims != index.dims or len(vectors) != len(texts):
        raise InvalidUpdateError(
            f"The embedding gave {len(vectors)} vectors of {dims} numbers for {len(texts)} texts. "
            f"The index wants one of {index.dims} for each."
        )
    return [_normalised(vector) for vector in vectors]


def _normalised(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector


def similarity(first: Vector, second: Vector) -> float:
    """Return the cosine of the angle between two vectors of length 1."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def texts_at(value: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Return the texts at some paths of a value; other values as JSON."""
    parts = (part for path in paths for part in _values_at(value, path))
    return [part if isinstance(part, str) else _as_text(part) for part in parts]


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str, sort_keys=True)
    except TypeError:  # keys of different types have no order
        return json.dumps(value, default=str)


def _values_at(value: Any, path: str) -> list[Any]:
    if path in ("$", ""):
        return [value]
    if path.startswith("["):
        index, _, remainder = path[1:].partition("]")
        items = _items_at(value, index)
        return [inner for item in items for inner in _values_at(item, remainder.removeprefix("."))]
    if not isinstance(value, Mapping):
        return []
    fields = cast(Mapping[str, Any], value)
    if path in fields:  # a key may contain dots
        return [fields[path]] if fields[path] is not None else []
    name, remainder = _STEP.match(path).groups()  # pyright: ignore  # every text matches
    return _values_at(fields[name], remainder.removeprefix(".")) if fields.get(name) is not None else []


_STEP = re.compile(r"([^.\[]*)(.*)", re.DOTALL)
_INDEX = re.compile(r"-?[0-9]+")


def _items_at(value: Any, index: str) -> Sequence[Any]:
    """Return the item of a list at an index, or all items for `*`."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    if index == "*":
        return items
    if not _INDEX.fullmatch(index) or not -len(items) <= int(index) < len(items):
        return []
    return [items[int(index)]]
