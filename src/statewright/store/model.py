"""Items, namespaces and batch operations of stores, and the configuration of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from statewright.clock import Duration
from statewright.errors import InvalidConfig, InvalidUpdateError

Namespace = tuple[str, ...]
"""Labels, from the general to the specific, such as `("users", "42", "memories")`."""
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text. All vectors must have the same number of dimensions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The configuration of semantic search."""

    dims: int
    """The number of dimensions of each vector."""
    embed: Embed
    fields: tuple[str, ...] = ("$",)
    """The paths of the values to embed, such as `text`, `author.name` or `parts[*].text`; `$` is the whole value."""
    method: Literal["exact", "hnsw"] = "exact"
    """How the most similar items are found. `hnsw` is approximate and fast for many items, with an index of pgvector;
    without pgvector, the search is exact."""

    def __post_init__(self) -> None:
        if self.method not in ("exact", "hnsw"):
            raise InvalidConfig(f"Index(method={self.method!r}): use 'exact' or 'hnsw'.")
        if self.dims < 1:
            raise InvalidConfig(f"Index(dims={self.dims!r}): pass the number of dimensions of the vectors, at least 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeToLive:
    """The configuration of times to live in a store."""

    default: Duration | None = None
    """The time to live of items that are put without a time to live; None if they never expire."""
    refresh_on_read: bool = True
    """True if reading an item restarts its time to live."""
    sweep_every: Duration = 300.0
    """The interval at which `start_sweeper()` removes expired items. Reads and searches ignore expired items that have
    not been removed yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A value with its namespace and key."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchItem(Item):
    """An item returned by a search."""

    score: float | None = None
    """The similarity to the query, at most 1; None if the search had no query."""


def check_namespace(namespace: Namespace) -> Namespace:
    """Return the namespace of an item to put.

    Raises InvalidUpdateError if it is empty, or if a label is empty or contains a dot or a null character.
    """
    if not isinstance(namespace, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        raise InvalidUpdateError(f"The namespace is {namespace!r}. Pass a tuple of labels, e.g. ('users', '42').")
    invalid = [label for label in namespace if not isinstance(label, str) or not label or {".", "\0"} & {*label}]  # pyright: ignore
    if not namespace or invalid:
        problem = f"the label {invalid[0]!r}" if invalid else "no label"
        raise InvalidUpdateError(
            f"The namespace {namespace!r} has {problem}. Pass one or more labels that are not empty and contain no dot "
            f"and no null character."
        )
    return namespace


def check_key(key: str) -> str:
    """Return the key of an item to put. Raises InvalidUpdateError if it contains a null character.

    Not every database can store one, and items should be accepted or refused whatever the database is.
    """
    if isinstance(key, str) and "\0" in key:  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        raise InvalidUpdateError(f"The key {key!r} contains a null character. Remove it.")
    return key


@dataclass(frozen=True, kw_only=True, slots=True)
class GetOp:
    """`Store.get` as an operation of a batch."""

    namespace: Namespace
    key: str
    refresh_ttl: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutOp:
    """`Store.put` as an operation of a batch, or `Store.delete` if the value is None."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: bool | tuple[str, ...] | None = None
    ttl: Duration | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOp:
    """`Store.search` as an operation of a batch."""

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    refresh_ttl: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListNamespacesOp:
    """`Store.list_namespaces` as an operation of a batch."""

    prefix: Namespace = ()
    suffix: Namespace = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Operation = GetOp | PutOp | SearchOp | ListNamespacesOp
