"""The port that every cache obeys: results of nodes, by what they were given.

A method returns its answer, or a promise or `Future` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from statewright.futures import MaybeFuture


class CacheKey(NamedTuple):
    """What a result is kept under."""

    node: str
    """The graph, the node, and the version of its code."""
    input: str
    """A digest of what the node was given."""


@runtime_checkable
class Cache(Protocol):
    """Keeps results for a time."""

    def get(self, key: CacheKey) -> MaybeFuture[Any]:
        """What is kept under the key; None if there is nothing, or if it is too old."""
        ...

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> MaybeFuture[None]:
        """Keep a value, for `ttl` seconds if given."""
        ...

    def clear(self, nodes: Sequence[str] | None = None) -> MaybeFuture[None]:
        """Forget everything, or what is kept for some nodes."""
        ...
