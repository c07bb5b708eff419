"""Search by meaning, exactly: every vector is compared."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from statewright.errors import InvalidUpdateError
from statewright.store.model import Index

Vector = Sequence[float]


def embedded(index: Index, texts: Sequence[str]) -> list[Vector]:
    """Return the vectors of texts, normalised to length 1. Raises InvalidUpdateError for wrong dimensions."""
    vectors = [list(map(float, vector)) for vector in index.embed(texts)] if texts else []
    wrong = next((len(vector) for vector in vectors if len(vector) != index.dims), index.dims)
    if wrong != index.dims or len(vectors) != len(texts):
        raise InvalidUpdateError(
            f"The embedding gave {len(vectors)} vectors of {wrong} numbers for {len(texts)} texts. "
            f"The index wants one of {index.dims} for each."
        )
    return [_unit(vector) for vector in vectors]


def _unit(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return [one / length for one in vector] if length else vector


def similarity(first: Vector, second: Vector) -> float:
    """Return the cosine of the angle between two vectors of length 1."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def texts_at(value: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Return the texts at some paths of a value; other values as JSON."""
    found = (one for path in paths for one in _at(value, path))
    return [one if isinstance(one, str) else _as_text(one) for one in found]


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str, sort_keys=True)
    except TypeError:  # keys of different kinds are in no order
        return json.dumps(value, default=str)


def _at(value: Any, path: str) -> list[Any]:
    if path in ("$", ""):
        return [value]
    if path.startswith("["):
        place, _, rest = path[1:].partition("]")
        return [one for item in _chosen(value, place) for one in _at(item, rest.removeprefix("."))]
    if not isinstance(value, Mapping):
        return []
    inside = cast(Mapping[str, Any], value)
    if path in inside:
        return [inside[path]] if inside[path] is not None else []
    name, rest = _STEP.match(path).groups()  # pyright: ignore  # every text matches
    return _at(inside[name], rest.removeprefix(".")) if inside.get(name) is not None else []


_STEP = re.compile(r"([^.\[]*)(.*)", re.DOTALL)
_PLACE = re.compile(r"-?[0-9]+")


def _chosen(value: Any, place: str) -> Sequence[Any]:
    """Return the items of a list for an index, or all items for `*`."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    if place == "*":
        return items
    if not _PLACE.fullmatch(place) or not -len(items) <= int(place) < len(items):
        return []
    return [items[int(place)]]
