"""The port of memory across threads, and its in-memory implementation."""

from statewright.store.memory import InMemoryStore
from statewright.store.model import Item, Namespace, SearchItem
from statewright.store.port import Store

__all__ = ["InMemoryStore", "Item", "Namespace", "SearchItem", "Store"]
