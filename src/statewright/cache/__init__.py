"""The port of what keeps the answers of nodes, and its in-memory implementation."""

from statewright.cache.memory import InMemoryCache
from statewright.cache.port import Cache, CacheKey

__all__ = ["Cache", "CacheKey", "InMemoryCache"]
