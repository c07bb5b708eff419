"""The port of stores, which keep data across threads.

`Store` has the methods that an adapter must implement. `StoreFace` adds batches and async versions of all methods.
`ConfiguredStore` adds the options of the stores of this library: an index, times to live, and a timer that removes
expired items.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from statewright.clock import Clock, Duration, SystemClock, Timer, as_seconds
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
from statewright.store.vectors import texts_at


@runtime_checkable
class Store(Protocol):
    """Stores values by namespace and key. Writes take effect immediately, not at the end of a superstep."""

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return an item; None if it does not exist or has expired.

        `refresh_ttl` determines whether this restarts its time to live; by default, `TimeToLive.refresh_on_read` does.
        """
        ...

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: bool | Sequence[str] | None = None,
        ttl: Duration | None = None,
    ) -> None:
        """Store a copy of `value`, which replaces the previous value.

        The item expires after `ttl`, or after the store's default time to live if `ttl` is None. `index` lists the
        fields to embed for semantic search; None and True select the fields of the index, and False selects none.
        Raises InvalidUpdateError for an invalid namespace.
        """
        ...

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item, if it exists."""
        ...

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the usual name
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Return the items that match `filter` and whose namespaces begin with `prefix`.

        They are in order of similarity to `query`, or if there is no query, most recently updated first. In `prefix`,
        `"*"` matches any label. Raises InvalidUpdateError for an unknown operator in the filter, and for a query if the
        store has no index.
        """
        ...

    def list_namespaces(
        self,
        *,
        prefix: Namespace = (),
        suffix: Namespace = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Namespace]:
        """Return the namespaces that contain items, sorted.

        In `prefix` and `suffix`, `"*"` matches any label. With `max_depth`, only the first `max_depth` labels of each
        namespace are returned.
        """
        ...


class StoreFace:
    """Methods of stores that are not part of the port. Adapters may derive from this class."""

    def batch(self: Any, operations: Iterable[Operation]) -> list[Any]:
        """Perform operations in order, and return their results."""
        return [perform(self, operation) for operation in operations]

    async def abatch(self: Any, operations: Iterable[Operation]) -> list[Any]:
        """Async version of `batch`."""
        return self.batch(operations)

    async def aget(self: Any, namespace: Namespace, key: str, **options: Any) -> Item | None:
        """Async version of `get`."""
        return self.get(namespace, key, **options)

    async def aput(self: Any, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        """Async version of `put`."""
        self.put(namespace, key, value, **options)

    async def adelete(self: Any, namespace: Namespace, key: str) -> None:
        """Async version of `delete`."""
        self.delete(namespace, key)

    async def asearch(self: Any, prefix: Namespace, **options: Any) -> list[SearchItem]:
        """Async version of `search`."""
        return self.search(prefix, **options)

    async def alist_namespaces(self: Any, **options: Any) -> Sequence[Namespace]:
        """Async version of `list_namespaces`."""
        return self.list_namespaces(**options)


class ConfiguredStore(StoreFace):
    """The base class of stores with an optional index, times to live, and a timer that removes expired items."""

    def __init__(self, index: Index | None, ttl: TimeToLive | None, clock: Clock | None) -> None:
        self._index = index
        self._ttl = ttl or TimeToLive()
        self._clock = clock or SystemClock()
        self._sweeper: Timer | None = None
        self._sweeper_lock = threading.Lock()

    def sweep(self) -> int:
        """Remove the expired items, and return their number."""
        raise NotImplementedError

    def start_sweeper(self) -> None:
        """Remove expired items every `TimeToLive.sweep_every`, until `close()` is called."""
        with self._sweeper_lock:
            self._stop_sweeper()
            self._schedule_sweep()

    def close(self) -> None:
        """Stop the timer that removes expired items."""
        with self._sweeper_lock:
            self._stop_sweeper()

    def _schedule_sweep(self) -> None:
        self._sweeper = self._clock.call_later(as_seconds(self._ttl.sweep_every), self._sweep_and_reschedule)

    def _sweep_and_reschedule(self) -> None:
        with self._sweeper_lock:
            if self._sweeper is not None:  # None if `close` has stopped the timer meanwhile
                self._sweep_in_background()
                self._schedule_sweep()

    def _sweep_in_background(self) -> object:
        """Sweep on the thread of the clock. A slow store overrides this to sweep on another thread."""
        return self.sweep()

    def _stop_sweeper(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _should_refresh(self, refresh: bool | None) -> bool:
        """Return whether a read restarts times to live; `refresh` is the argument of the caller."""
        return self._ttl.refresh_on_read if refresh is None else refresh

    def _texts_to_embed(self, value: Mapping[str, Any], index: bool | Sequence[str] | None) -> Sequence[str]:
        """Return the texts in a value to embed for semantic search; `index` is the argument of `put`."""
        if self._index is None or index is False:
            return ()
        return texts_at(value, self._index.fields if index is None or index is True else index)


def perform(store: Store, operation: Operation) -> Any:
    """Perform an operation of a batch on a store, and return its result."""
    match operation:
        case GetOp():
            return store.get(operation.namespace, operation.key, refresh_ttl=operation.refresh_ttl)
        case PutOp(value=None):
            return store.delete(operation.namespace, operation.key)
        case PutOp():
            value = cast("Mapping[str, Any]", operation.value)
            return store.put(operation.namespace, operation.key, value, index=operation.index, ttl=operation.ttl)
        case SearchOp():
            return store.search(
                operation.prefix,
                query=operation.query,
                filter=operation.filter,
                limit=operation.limit,
                offset=operation.offset,
                refresh_ttl=operation.refresh_ttl,
            )
        case ListNamespacesOp():
            return store.list_namespaces(
                prefix=operation.prefix,
                suffix=operation.suffix,
                max_depth=operation.max_depth,
                limit=operation.limit,
                offset=operation.offset,
            )
