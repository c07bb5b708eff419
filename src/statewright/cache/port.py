"""The port of caches: results of nodes by their inputs.

A method returns its result, or a `LightFuture` or `Future` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from statewright.futures import MaybeFuture


class CacheKey(NamedTuple):
    """The key of a result."""

    node: str
    """The graph, the node, and the version of its code."""
    input: str
    """A digest of the input of the node."""


@runtime_checkable
class Cache(Protocol):
    """Keeps results for a time."""

    def get(self, key: CacheKey) -> MaybeFuture[Any]:
        """Return the value of a key; None if there is none, or if it has expired."""
        ...

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> MaybeFuture[None]:
        """Store a value, for `ttl` seconds if it is given."""
        ...

    def clear(self, nodes: Sequence[str] | None = None) -> MaybeFuture[None]:
        """Remove all results, or those of some nodes."""
        ...
