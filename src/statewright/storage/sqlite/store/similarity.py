"""Exact similarity of vectors to a query: each is compared, with numpy if it is installed.

Both implementations give the same numbers, to the precision of a float32, so that equally similar items keep their
order.
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
_AT_ONCE: Final = 512
"""How many items are compared in one go: enough to be quick, few enough to fit."""


def packed(vectors: Iterable[Vector]) -> bytes:
    """Vectors one after the other, as float32."""
    numbers = [number for vector in vectors for number in vector]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def scored(wanted: Vector, items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, float]]:
    """Each item with the nearness of the nearest of its vectors, of which it has at least one."""
    numpy, rest = _numpy(), iter(items)
    while some := list(itertools.islice(rest, _AT_ONCE)):
        parts = [part for _, part in some]
        nearest = _nearest(wanted, parts) if numpy is None else _nearest_by(numpy, wanted, parts)
        for (item, _), near in zip(some, nearest, strict=True):
            yield item, round(near, _DIGITS)


@cache
def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _nearest(wanted: Vector, parts: Sequence[bytes]) -> list[float]:
    vector = struct.Struct(f"<{len(wanted)}f")
    return [max(sum(map(mul, one, wanted)) for one in vector.iter_unpack(part)) for part in parts]


def _nearest_by(numpy: Any, wanted: Vector, parts: Sequence[bytes]) -> list[float]:
    vectors = numpy.frombuffer(b"".join(parts), "<f4").astype("f8").reshape(-1, len(wanted))
    counts = [len(part) // (_SIZE * len(wanted)) for part in parts]
    firsts = list(itertools.accumulate(counts[:-1], initial=0))
    return numpy.maximum.reduceat(vectors @ numpy.asarray(wanted, "f8"), firsts).tolist()
