"""Search by meaning, exactly: every vector is compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.store.model import Index

Vector = Sequence[float]


def embedded(index: Index, texts: Sequence[str]) -> list[Vector]:
    """The vectors of texts, each of length 1. Raises InvalidUpdateError if they do not have the index's dimensions."""
    vectors = [list(map(float, vector)) for vector in index.embed(texts)] if texts else []
    wrong = next((len(vector) for vector in vectors if len(vector) != index.dims), None)
    if wrong is not None or len(vectors) != len(texts):
        raise InvalidUpdateError(
            f"The embedding gave {len(vectors)} vectors of {wrong or index.dims} numbers for {len(texts)} texts. "
            f"The index wants one of {index.dims} for each."
        )
    return [_unit(vector) for vector in vectors]


def _unit(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return [one / length for one in vector] if length else vector


def similarity(first: Vector, second: Vector) -> float:
    """The cosine of the angle between two vectors of length 1."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def texts_at(value: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """The texts that stand at some paths of a value; what is no text as JSON."""
    found = (one for path in paths for one in _at(value, path))
    return [one if isinstance(one, str) else json.dumps(one, default=str, sort_keys=True) for one in found]


def _at(value: Any, path: str) -> list[Any]:
    if path in ("$", ""):
        return [value]
    head, _, rest = path.partition(".")
    name, bracket, place = head.partition("[")
    inside = cast(Mapping[str, Any], value).get(name) if isinstance(value, Mapping) else None
    if inside is None:
        return []
    if not bracket:
        return _at(inside, rest)
    items = cast(list[Any], inside) if isinstance(inside, list) else []
    chosen = items if place == "*]" else [items[int(place[:-1])]] if _has(items, place[:-1]) else []
    return [one for item in chosen for one in _at(item, rest)]


def _has(items: Sequence[Any], place: str) -> bool:
    return place.lstrip("-").isdigit() and -len(items) <= int(place) < len(items)
