"""The port of caches for the results of nodes, and its in-memory implementation."""

from statewright.cache.memory import InMemoryCache
from statewright.cache.port import Cache, CacheKey

__all__ = ["Cache", "CacheKey", "InMemoryCache"]
