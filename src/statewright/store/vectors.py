"""Semantic search: embedding of texts, and comparison of a query with the vectors of all items.

Stores in databases keep vectors as packed bytes, and compare them with numpy if it is installed. The similarities are
rounded, so that they do not depend on whether numpy is installed, and neither does the order of items.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import mul
from typing import Any, Final, cast

from statewright.errors import InvalidUpdateError
from statewright.store.model import Index

Vector = Sequence[float]
_DIGITS: Final = 6
"""The number of decimal digits to which similarities are rounded."""
_FLOAT_SIZE: Final = 4
"""The size of a float32 in bytes."""
_CHUNK_SIZE: Final = 512
"""The number of items that are compared in one call of numpy, which limits the memory that it needs."""


def require_index(index: Index | None) -> Index:
    """Return the index of a store, which a query needs. Raises InvalidUpdateError if the store has none."""
    if index is None:
        raise InvalidUpdateError(
            "A search with query= needs an index, but the store has none. Create it with index=Index(dims=, embed=)."
        )
    return index


def embed_texts(index: Index, texts: Sequence[str]) -> list[Vector]:
    """Return the vectors of texts, normalised to length 1.

    Raises InvalidUpdateError if `index.embed` returns the wrong number of vectors, vectors of the wrong dimensions, or
    numbers that are not finite.
    """
    vectors = [list(map(float, vector)) for vector in index.embed(texts)] if texts else []
    dims = next((len(vector) for vector in vectors if len(vector) != index.dims), index.dims)
    if dims != index.dims or len(vectors) != len(texts):
        raise InvalidUpdateError(
            f"Index.embed returned {len(vectors)} vectors of {dims} dimensions for {len(texts)} texts. "
            f"Return one vector of {index.dims} dimensions for each text."
        )
    return [_normalised(vector) for vector in vectors]


def _normalised(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise InvalidUpdateError(
            f"Index.embed returned a vector with the length {length}: some of its numbers are not finite, or too "
            f"large. Return finite numbers."
        )
    return [number / length for number in vector] if length else vector


def similarity(first: Vector, second: Vector) -> float:
    """Return the cosine of the angle between two vectors of length 1."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def pack_vectors(vectors: Iterable[Vector]) -> bytes:
    """Return vectors as bytes: the numbers of all vectors as consecutive float32 values."""
    numbers = [number for vector in vectors for number in vector]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def unpack_vectors(packed: bytes, dims: int) -> list[Vector]:
    """Return the vectors that `pack_vectors` has packed."""
    return list(struct.Struct(f"<{dims}f").iter_unpack(packed))


def score_items(query: Vector, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, float]]:
    """Yield the number of each item, and the similarity of its most similar vector to the query.

    `items` are the numbers of items with their packed vectors.
    """
    numpy, remaining = _numpy(), iter(items)
    while chunk := list(itertools.islice(remaining, _CHUNK_SIZE)):
        vectors = [packed_vectors for _, packed_vectors in chunk]
        scores = _scores(query, vectors) if numpy is None else _numpy_scores(numpy, query, vectors)
        for (item, _), score in zip(chunk, scores, strict=True):
            yield item, round(score, _DIGITS)


@cache
def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _scores(query: Vector, items: Sequence[bytes]) -> list[float]:
    layout = struct.Struct(f"<{len(query)}f")
    return [max(sum(map(mul, vector, query)) for vector in layout.iter_unpack(item)) for item in items]


def _numpy_scores(numpy: Any, query: Vector, items: Sequence[bytes]) -> list[float]:
    vectors = numpy.frombuffer(b"".join(items), "<f4").astype("f8").reshape(-1, len(query))
    counts = [len(item) // (_FLOAT_SIZE * len(query)) for item in items]
    firsts = list(itertools.accumulate(counts[:-1], initial=0))
    return numpy.maximum.reduceat(vectors @ numpy.asarray(query, "f8"), firsts).tolist()


def texts_at(value: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Return the values at these paths as texts: strings unchanged, and other values as JSON."""
    values = (item for path in paths for item in _values_at(value, path))
    return [item if isinstance(item, str) else _as_text(item) for item in values]


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str, sort_keys=True)
    except TypeError:  # keys of different types cannot be sorted
        return json.dumps(value, default=str)


def _values_at(value: Any, path: str) -> list[Any]:
    """Return the values at a path, which are several if it contains `[*]`, and none if it does not exist."""
    if path in ("$", ""):
        return [value]
    if path.startswith("["):
        index, _, remainder = path[1:].partition("]")
        items = _items_at(value, index)
        return [nested for item in items for nested in _values_at(item, remainder.removeprefix("."))]
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
    """Return the item of a list at an index, or all items for `*`; empty if there is no such item, or no list."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    if index == "*":
        return items
    if not _INDEX.fullmatch(index) or not -len(items) <= int(index) < len(items):
        return []
    return [items[int(index)]]
