"""Items of a store, and searches for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.clock import Duration
from statewright.errors import InvalidConfig, InvalidUpdateError

Namespace = tuple[str, ...]
"""Labels from the general to the particular: `("users", "42", "memories")`."""


Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts to vectors, all of one length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """The configuration of search by meaning."""

    dims: int
    """The length of a vector."""
    embed: Embed
    fields: tuple[str, ...] = ("$",)
    """The parts of a value that are searched: paths like `text`, `author.name` or `parts[*].text`; `$` is all of it."""

    def __post_init__(self) -> None:
        if self.dims < 1:
            raise InvalidConfig(f"Index(dims={self.dims!r}): give the length of the vectors, at least 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeToLive:
    """How long the items of a store live."""

    default: Duration | None = None
    """The time to live of items that are put without one; None for ever."""
    refresh_on_read: bool = True
    """True if reading an item restarts its time to live."""
    sweep_every: Duration = 300.0
    """The interval at which `start_sweeper()` removes expired items; until then they are invisible."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One value under one key of one namespace."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchItem(Item):
    """An item that a search found."""

    score: float | None = None
    """The similarity to the query, up to 1; None without a query."""


def checked_namespace(namespace: Namespace) -> Namespace:
    """Return the namespace. Raises InvalidUpdateError if it is empty, or if a label is empty or contains a dot."""
    if not isinstance(namespace, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # users give anything
        raise InvalidUpdateError(f"The namespace is {namespace!r}. Give a tuple of labels, e.g. ('users', '42').")
    bad = [label for label in namespace if not isinstance(label, str) or not label or "." in label]  # pyright: ignore
    if not namespace or bad:
        problem = f"the label {bad[0]!r}" if bad else "no label"
        raise InvalidUpdateError(
            f"The namespace {namespace!r} has {problem}. Give at least one label; labels are not empty and have no dot."
        )
    return namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class GetOp:
    """In a batch: `Store.get`."""

    namespace: Namespace
    key: str
    refresh_ttl: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutOp:
    """In a batch: `Store.put`, or `Store.delete` if the value is None."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: bool | tuple[str, ...] | None = None
    ttl: Duration | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOp:
    """In a batch: `Store.search`."""

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    refresh_ttl: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListNamespacesOp:
    """In a batch: `Store.list_namespaces`."""

    prefix: Namespace = ()
    suffix: Namespace = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Operation = GetOp | PutOp | SearchOp | ListNamespacesOp
