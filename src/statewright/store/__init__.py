"""The port of stores, which keep data across threads, and a store in memory."""

from statewright.store.memory import InMemoryStore
from statewright.store.model import (
    GetOp,
    Index,
    Item,
    ListNamespacesOp,
    Namespace,
    Operation,
    PutOp,
    SearchItem,
    SearchOp,
    TimeToLive,
)
from statewright.store.port import Store, StoreFace

__all__ = [
    "GetOp",
    "InMemoryStore",
    "Index",
    "Item",
    "ListNamespacesOp",
    "Namespace",
    "Operation",
    "PutOp",
    "SearchItem",
    "SearchOp",
    "Store",
    "StoreFace",
    "TimeToLive",
]
