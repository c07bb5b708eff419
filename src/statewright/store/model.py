"""Items, namespaces and batch operations of stores, and the configuration of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.clock import Duration
from statewright.errors import InvalidConfig, InvalidUpdateError

Namespace = tuple[str, ...]
"""Labels from the general to the specific: `("users", "42", "memories")`."""
Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, all of the same length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The configuration of semantic search."""

    dims: int
    """The number of dimensions of a vector."""
    embed: Embed
    fields: tuple[str, ...] = ("$",)
    """Paths of the texts to embed, such as `text`, `author.name` or `parts[*].text`; `$` is the whole value."""

    def __post_init__(self) -> None:
        if self.dims < 1:
            raise InvalidConfig(f"Index(dims={self.dims!r}): give the number of dimensions of the vectors, at least 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeToLive:
    """The configuration of how long a store keeps items."""

    default: Duration | None = None
    """The time to live of items that are put without one; None if they never expire."""
    refresh_on_read: bool = True
    """True if reading an item restarts its time to live."""
    sweep_every: Duration = 300.0
    """The interval at which `start_sweeper()` removes expired items; they are invisible as soon as they expire."""


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
    """The similarity to the query, up to 1; None without a query."""


def check_namespace(namespace: Namespace) -> Namespace:
    """Return the namespace. Raises InvalidUpdateError if it is empty, or if a label is empty or contains a dot."""
    if not isinstance(namespace, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        raise InvalidUpdateError(f"The namespace is {namespace!r}. Give a tuple of labels, e.g. ('users', '42').")
    bad = [label for label in namespace if not isinstance(label, str) or not label or "." in label]  # pyright: ignore
    if not namespace or bad:
        problem = f"the label {bad[0]!r}" if bad else "no label"
        raise InvalidUpdateError(
            f"The namespace {namespace!r} has {problem}. Give one or more labels, none of them empty or with a dot."
        )
    return namespace


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
