"""Which texts are nearest in meaning, by comparing vectors in memory."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from statewright.agents.memory.lately_used import LRUCache
from statewright.errors import ModelError

Vector = Sequence[float]
Vectors = Sequence[Vector]
Embed = Callable[[Sequence[str]], Vectors | Awaitable[Vectors]]
"""Texts to vectors, all of one length; a plain function, which is called on a thread, or a coroutine function."""
_KEPT: Final = 10_000
"""How many vectors are kept in memory."""


class ByVectors:
    """Embeds each text once, and compares the vectors by the cosine of their angle."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: LRUCache[Vector] = LRUCache(_KEPT)

    async def nearest(self, query: str, texts: Sequence[str], count: int) -> list[int]:
        """The numbers of the texts that are nearest to the query, the nearest first; of equals the later ones."""
        wanted, *vectors = await self._embedded([query, *texts])
        scores = [(_product(wanted, vector), n) for n, vector in enumerate(vectors)]
        return [n for _, n in sorted(scores, reverse=True)[:count]]

    async def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        found = {text: self._vectors.get(text) for text in texts}
        new = [text for text, vector in found.items() if vector is None]
        vectors = {text: vector for text, vector in found.items() if vector is not None}
        for text, vector in zip(new, await self._asked(new), strict=True):
            vectors[text] = vector
            self._vectors.put(text, vector)
        _check_dimensions(vectors.values())
        return [vectors[text] for text in texts]

    async def _asked(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        if inspect.iscoroutinefunction(self._embed):
            answer = self._embed(texts)
        else:
            answer = await asyncio.to_thread(self._embed, texts)
        vectors = await answer if inspect.isawaitable(answer) else answer
        if len(vectors) != len(texts):
            raise ModelError(
                f"The embedding gave {len(vectors)} vectors for {len(texts)} texts. It has to give one for each."
            )
        return [_unit(vector) for vector in vectors]


def _unit(vector: Vector) -> Vector:
    numbers = [float(one) for one in vector]
    length = math.hypot(*numbers)
    return [one / length for one in numbers] if length else numbers


def _product(first: Vector, second: Vector) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _check_dimensions(vectors: Iterable[Vector]) -> None:
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ModelError(f"The embedding gave vectors of {lengths[0]} and of {lengths[1]} numbers. Give one length.")
