"""The store that keeps items in a database, where they outlive the process and several processes can share them.

A batch of operations is one transaction. Each method is a batch with one operation. Checks, encoding and calls of the
embedding model are done before the transaction begins; `items.py` does the rest. A batch that writes is a job of the
database, and also restarts the times to live of the items that it reads. A batch that only reads needs a second
transaction to restart times to live, and only if it has read items that have one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statewright.clock import Clock, Duration, as_seconds, microseconds
from statewright.errors import SerdeError
from statewright.page import cut_page
from statewright.storage.database import Backend, Connection, D, Database
from statewright.storage.store.items import Items, VectorSearch, item_key_of
from statewright.store import (
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
from statewright.store.filters import check_conditions
from statewright.store.model import check_key, check_namespace
from statewright.store.port import ConfiguredStore
from statewright.store.vectors import Vector, embed_texts, require_index

_MAX_TTL: Final = 2**62
"""The maximum time to live in microseconds, which fits into an integer of a database."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of a batch, after its arguments were checked and encoded."""

    perform: Callable[[Items, Sequence[Vector]], Any]
    """Performs the operation in a transaction, and returns its result."""
    texts: Sequence[str] = ()
    """The texts to embed, whose vectors are passed to `perform`."""
    writes: bool = False


class Batch:
    """A batch of operations.

    Call `embed` first if `texts` is not empty. Then call `perform` in a transaction that writes if `writes` is True.
    Otherwise call `read`, and then, if `needs_refresh` is True, `refresh` in a transaction that writes.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        index: Index | None,
        steps: Sequence[Step],
        vector_search: VectorSearch | None = None,
    ) -> None:
        self._vector_search = vector_search
        self._database = database
        self._clock = clock
        self._index = index
        self._steps = steps
        self._vectors: list[Sequence[Vector]] = [()] * len(steps)
        self._items: Items | None = None
        self.writes = any(step.writes for step in steps)
        self.texts = [text for step in steps for text in step.texts]

    @property
    def needs_refresh(self) -> bool:
        """True if items were read whose times to live have to restart."""
        return self._items is not None and bool(self._items.items_to_refresh)

    def embed(self) -> None:
        """Compute the vectors of all texts with one call of the embedding model."""
        assert self._index is not None
        vectors = iter(embed_texts(self._index, self.texts))
        self._vectors = [list(itertools.islice(vectors, len(step.texts))) for step in self._steps]

    def read(self) -> list[Any]:
        """Perform operations that only read, and return their results."""
        return self._database.query(self._perform_steps)

    def perform(self, connection: Connection) -> list[Any]:
        """Perform operations that read and write, restart times to live, and return the results."""
        results = self._perform_steps(connection)
        self.refresh(connection)
        return results

    def refresh(self, connection: Connection) -> None:
        """Restart the times to live of the items that were read."""
        if self._items is not None:
            connection.executemany(self._database.statements("items")["refresh"], self._items.items_to_refresh)

    def _perform_steps(self, connection: Connection) -> list[Any]:
        now = microseconds(self._clock.now())
        self._items = items = Items(self._database, connection, now, self._vector_search)
        return [step.perform(items, vectors) for step, vectors in zip(self._steps, self._vectors, strict=True)]


class DatabaseStore(Backend[D], ConfiguredStore):
    """Stores items in a database."""

    _vector_search: VectorSearch | None = None
    """Compares vectors in the database; None if they are compared in the process."""

    def __init__(
        self,
        database: D | str | os.PathLike[str],
        *,
        index: Index | None = None,
        ttl: TimeToLive | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(database, **options)
        ConfiguredStore.__init__(self, index, ttl, clock or self.clock)
        self.database.create_tables("items")

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        return self.batch([GetOp(namespace=namespace, key=key, refresh_ttl=refresh_ttl)])[0]

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: bool | Sequence[str] | None = None,
        ttl: Duration | None = None,
    ) -> None:
        self.batch([_put_op(namespace, key, value, index=index, ttl=ttl)])

    def delete(self, namespace: Namespace, key: str) -> None:
        self.batch([PutOp(namespace=namespace, key=key, value=None)])

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
        search = SearchOp(
            prefix=prefix, query=query, filter=filter, limit=limit, offset=offset, refresh_ttl=refresh_ttl
        )
        return self.batch([search])[0]

    def list_namespaces(
        self,
        *,
        prefix: Namespace = (),
        suffix: Namespace = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        operation = ListNamespacesOp(prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset)
        return self.batch([operation])[0]

    def batch(self, operations: Iterable[Operation]) -> list[Any]:
        """Perform operations in order, and return their results. If one fails, none of their writes is saved."""
        batch = self._plan(operations)
        if batch.texts:
            batch.embed()
        if batch.writes:
            return self.database.write(batch.perform)
        results = batch.read()
        if batch.needs_refresh:
            self.database.write(batch.refresh)
        return results

    # -- for coroutines, without blocking the event loop

    async def abatch(self, operations: Iterable[Operation]) -> list[Any]:
        from statewright.async_futures import await_future  # loads asyncio
        from statewright.runtime.concurrency.thread_calls import call_in_thread

        batch = self._plan(operations)
        if batch.texts:
            await call_in_thread(batch.embed)
        if batch.writes:
            return await await_future(self.database.submit(batch.perform))
        results = await call_in_thread(batch.read)
        if batch.needs_refresh:
            await await_future(self.database.submit(batch.refresh))
        return results

    async def aget(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        return (await self.abatch([GetOp(namespace=namespace, key=key, **options)]))[0]

    async def aput(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        await self.abatch([_put_op(namespace, key, value, **options)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        await self.abatch([PutOp(namespace=namespace, key=key, value=None)])

    async def asearch(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        return (await self.abatch([SearchOp(prefix=prefix, **options)]))[0]

    async def alist_namespaces(self, **options: Any) -> list[Namespace]:
        return (await self.abatch([ListNamespacesOp(**options)]))[0]

    # -- expired items

    def sweep(self) -> int:
        return self.database.write(self._sweep)

    def _sweep(self, connection: Connection) -> int:
        return Items(self.database, connection, microseconds(self._clock.now())).sweep()

    def _sweep_in_background(self) -> object:
        # The clock's thread does not wait for the job. If the job fails, the next sweep removes the items.
        return self.database.submit(self._sweep)

    def close(self) -> None:
        """Stop removing expired items, and close the database if this store has opened it."""
        ConfiguredStore.close(self)
        super().close()

    # -- operations

    def _plan(self, operations: Iterable[Operation]) -> Batch:
        steps = [self._step(operation) for operation in operations]
        return Batch(self.database, self._clock, self._index, steps, self._vector_search)

    def _step(self, operation: Operation) -> Step:
        match operation:
            case GetOp(namespace=namespace, key=key):
                refresh = self._should_refresh(operation.refresh_ttl)
                return Step(lambda items, _: items.get(namespace, key, refresh=refresh))
            case PutOp(namespace=namespace, key=key, value=value):
                if value is not None:
                    return self._put_step(operation, value)
                return Step(lambda items, _: items.delete(namespace, key), writes=True)
            case SearchOp():
                return self._search_step(operation)
            case ListNamespacesOp():
                return _list_step(operation)

    def _put_step(self, operation: PutOp, value: Mapping[str, Any]) -> Step:
        item_key = item_key_of(check_namespace(operation.namespace), check_key(operation.key))
        if item_key is None:
            raise SerdeError(f"the item {operation.key!r} of {operation.namespace!r}", "its name is not valid Unicode")
        stored = self.database.encode(dict(value), "value")
        duration = self._ttl.default if operation.ttl is None else operation.ttl
        ttl = None if duration is None else round(min(as_seconds(duration) * 1_000_000, _MAX_TTL))
        texts = self._texts_to_embed(value, operation.index)
        return Step(lambda items, vectors: items.put(item_key, stored, vectors=vectors, ttl=ttl), texts, writes=True)

    def _search_step(self, operation: SearchOp) -> Step:
        if operation.query is not None:
            require_index(self._index)
        conditions = dict(operation.filter or {})
        check_conditions(conditions)
        options: dict[str, Any] = {"limit": operation.limit, "offset": operation.offset, "conditions": conditions}
        refresh = self._should_refresh(operation.refresh_ttl)

        def perform(items: Items, vectors: Sequence[Vector]) -> list[SearchItem]:
            return items.search(operation.prefix, query=next(iter(vectors), None), refresh=refresh, **options)

        return Step(perform, () if operation.query is None else (operation.query,))


def _list_step(operation: ListNamespacesOp) -> Step:
    page = cut_page(operation.limit, operation.offset)
    arguments = (operation.prefix, operation.suffix, operation.max_depth)
    return Step(lambda items, _: items.namespaces(*arguments)[page])


def _put_op(
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    *,
    index: bool | Sequence[str] | None = None,
    ttl: Duration | None = None,
) -> PutOp:
    fields = index if index is None or isinstance(index, bool) else tuple(index)
    return PutOp(namespace=namespace, key=key, value=dict(value), index=fields, ttl=ttl)
