"""The port of stores: memory across threads.

`Store` has the methods for runs and adapters. `StoreFace` adds those for users: batches, and the same methods for
coroutines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from statewright.clock import Duration
from statewright.store.model import GetOp, Item, ListNamespacesOp, Namespace, Operation, PutOp, SearchItem, SearchOp


@runtime_checkable
class Store(Protocol):
    """Values by namespace and key. Writes take effect at once: they are no part of a superstep."""

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None: ...

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: bool | Sequence[str] | None = None,
        ttl: Duration | None = None,
    ) -> None:
        """Keep a copy of `value`, replacing what was there, for `ttl` if given.

        `index` says whether the item is found by meaning, or by which of its fields. Raises InvalidUpdateError for a
        bad namespace.
        """
        ...

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item; nothing happens where there is none."""
        ...

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Items under `prefix` whose values hold what `filter` says: the last updated first, or the nearest to `query`.

        Raises InvalidUpdateError for a query where there is no index, and for an unknown operator.
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
        """Namespaces in use, sorted, cut to `max_depth` labels. In `prefix` and `suffix` `"*"` stands for any label."""
        ...


class StoreFace:
    """The methods of a store besides the port. Adapters derive from it."""

    def batch(self: Any, operations: Iterable[Operation]) -> list[Any]:
        """Perform operations in order, and return their results."""
        return [perform(self, operation) for operation in operations]

    async def abatch(self: Any, operations: Iterable[Operation]) -> list[Any]:
        """`batch`, for coroutines."""
        return self.batch(operations)

    async def aget(self: Any, namespace: Namespace, key: str, **options: Any) -> Item | None:
        """`get`, for coroutines."""
        return self.get(namespace, key, **options)

    async def aput(self: Any, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        """`put`, for coroutines."""
        self.put(namespace, key, value, **options)

    async def adelete(self: Any, namespace: Namespace, key: str) -> None:
        """`delete`, for coroutines."""
        self.delete(namespace, key)

    async def asearch(self: Any, prefix: Namespace, **options: Any) -> list[SearchItem]:
        """`search`, for coroutines."""
        return self.search(prefix, **options)

    async def alist_namespaces(self: Any, **options: Any) -> Sequence[Namespace]:
        """`list_namespaces`, for coroutines."""
        return self.list_namespaces(**options)


def _put(store: Store, operation: PutOp) -> None:
    value = operation.value
    if value is None:
        return store.delete(operation.namespace, operation.key)
    return store.put(operation.namespace, operation.key, value, index=operation.index, ttl=operation.ttl)


def perform(store: Store, operation: Operation) -> Any:
    """Perform one operation of a store, and return its result."""
    match operation:
        case GetOp():
            return store.get(operation.namespace, operation.key, refresh_ttl=operation.refresh_ttl)
        case PutOp():
            return _put(store, operation)
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
