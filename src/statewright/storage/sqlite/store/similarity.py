"""Exact similarity of vectors to a query: each is compared, with numpy if it is installed.

The results are rounded, so that both implementations give the same numbers, and equally similar items the same order.
"""

from __future__ import annotations

import importlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from operator import mul
from typing import Any, Final

Vector = Sequence[float]

_DIGITS: Final = 6
_SIZE: Final = 4
"""Bytes of a float32."""
_CHUNK: Final = 512
"""Items that are compared with one call of numpy, as a limit of memory."""


def packed(vectors: Iterable[Vector]) -> bytes:
    """Return the numbers of vectors as consecutive float32."""
    numbers = [number for vector in vectors for number in vector]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def scored(query: Vector, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, float]]:
    """Yield each item with the similarity of its most similar vector; `items` are numbers with packed vectors."""
    numpy, remaining = _numpy(), iter(items)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
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
    counts = [len(item) // (_SIZE * len(query)) for item in items]
    firsts = list(itertools.accumulate(counts[:-1], initial=0))
    return numpy.maximum.reduceat(vectors @ numpy.asarray(query, "f8"), firsts).tolist()
