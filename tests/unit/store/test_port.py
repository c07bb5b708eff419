"""The port of stores, batches of operations, and the coroutines of every store."""

import asyncio
import inspect
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.store import (
    GetOp,
    Index,
    InMemoryStore,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchOp,
    Store,
    StoreFace,
    TimeToLive,
)
from statewright.store.port import perform
from statewright.testing import FakeClock

NAMES = ("users", "42")
METHODS = ["get", "put", "delete", "search", "list_namespaces"]


class StoreWithoutSearch:
    """Has all methods of a store except `search`."""

    def get(self, namespace: Any, key: str) -> None: ...

    def put(self, namespace: Any, key: str, value: Any) -> None: ...

    def delete(self, namespace: Any, key: str) -> None: ...

    def list_namespaces(self) -> None: ...


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> InMemoryStore:
    def embed(texts: Any) -> Any:
        return [[float("cat" in text), 1.0] for text in texts]

    index = Index(dims=2, embed=embed, fields=("text",))
    return InMemoryStore(clock=clock, index=index, ttl=TimeToLive(refresh_on_read=False))


def test_the_port_is_checked_by_its_methods() -> None:
    assert isinstance(InMemoryStore(), Store)
    assert not isinstance(StoreWithoutSearch(), Store)
    assert not isinstance(StoreFace(), Store)


@pytest.mark.parametrize("method", METHODS)
def test_the_methods_of_the_store_in_memory_have_the_signatures_of_the_port(method: str) -> None:
    def parameters(owner: type) -> list[tuple[str, Any, Any]]:
        parameters = inspect.signature(getattr(owner, method)).parameters.values()
        return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]

    assert parameters(InMemoryStore) == parameters(Store)


@pytest.mark.parametrize("method", METHODS)
def test_each_method_has_a_coroutine(method: str) -> None:
    assert inspect.iscoroutinefunction(getattr(StoreFace, f"a{method}"))


def test_the_operations_of_a_batch_run_in_order(store: InMemoryStore) -> None:
    answers = store.batch(
        [
            GetOp(namespace=NAMES, key="k"),
            PutOp(namespace=NAMES, key="k", value={"n": 1}),
            GetOp(namespace=NAMES, key="k"),
            ListNamespacesOp(),
            SearchOp(prefix=()),
            PutOp(namespace=NAMES, key="k", value=None),
            GetOp(namespace=NAMES, key="k"),
            ListNamespacesOp(),
        ]
    )
    before, put, item, namespaces, items, deleted, after, remaining_namespaces = answers
    assert (before, put, deleted, after, remaining_namespaces) == (None, None, None, None, [])
    assert (item.value, namespaces, [found_item.key for found_item in items]) == ({"n": 1}, [NAMES], ["k"])


def test_an_empty_batch_returns_no_answers(store: InMemoryStore) -> None:
    assert store.batch([]) == []
    assert store.batch(iter([GetOp(namespace=NAMES, key="k")])) == [None]


def test_an_empty_value_is_stored_and_not_a_deletion(store: InMemoryStore) -> None:
    perform(store, PutOp(namespace=NAMES, key="k", value={}))
    item = perform(store, GetOp(namespace=NAMES, key="k"))
    assert item.value == {}


def test_operations_before_a_failing_one_are_kept(store: InMemoryStore) -> None:
    with pytest.raises(InvalidUpdateError):
        store.batch([PutOp(namespace=NAMES, key="k", value={}), PutOp(namespace=(), key="k", value={})])
    assert store.get(NAMES, "k") is not None


def test_operations_pass_their_ttl_and_refresh(store: InMemoryStore, clock: FakeClock) -> None:
    store.batch([PutOp(namespace=NAMES, key=key, value={}, ttl=10) for key in ("read", "found", "left")])
    clock.advance(8)
    perform(store, GetOp(namespace=NAMES, key="read", refresh_ttl=True))
    perform(store, SearchOp(prefix=NAMES, limit=1, offset=1, refresh_ttl=True))
    clock.advance(8)
    assert {item.key for item in perform(store, SearchOp(prefix=NAMES))} == {"read", "found"}


def test_operations_pass_their_index(store: InMemoryStore) -> None:
    value = {"text": "cat"}
    store.batch(
        [PutOp(namespace=NAMES, key="k", value=value), PutOp(namespace=NAMES, key="l", value=value, index=False)]
    )
    assert [item.key for item in perform(store, SearchOp(prefix=(), query="cat"))] == ["k"]
    assert [item.key for item in perform(store, SearchOp(prefix=()))] == ["l", "k"]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (SearchOp(prefix=("a",)), ["2", "1"]),
        (SearchOp(prefix=(), filter={"n": {"$gt": 1}}), ["3", "2"]),
        (SearchOp(prefix=(), limit=1), ["3"]),
        (SearchOp(prefix=(), limit=1, offset=2), ["1"]),
    ],
)
def test_a_search_operation_passes_its_options(store: InMemoryStore, operation: SearchOp, expected: list[str]) -> None:
    for number, namespace in enumerate([("a", "x"), ("a", "y"), ("b",)], 1):
        store.put(namespace, str(number), {"n": number})
    assert [item.key for item in perform(store, operation)] == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (ListNamespacesOp(), [("a", "x"), ("a", "y"), ("b",)]),
        (ListNamespacesOp(prefix=("a",)), [("a", "x"), ("a", "y")]),
        (ListNamespacesOp(suffix=("y",)), [("a", "y")]),
        (ListNamespacesOp(max_depth=1), [("a",), ("b",)]),
        (ListNamespacesOp(limit=1, offset=1), [("a", "y")]),
    ],
)
def test_a_list_namespaces_operation_passes_its_options(
    store: InMemoryStore, operation: ListNamespacesOp, expected: list[tuple[str, ...]]
) -> None:
    for namespace in [("a", "x"), ("a", "y"), ("b",)]:
        store.put(namespace, "k", {})
    assert perform(store, operation) == expected


def test_coroutines_have_the_same_results_as_the_plain_methods(store: InMemoryStore) -> None:
    async def main() -> list[Any]:
        await store.aput(NAMES, "k", {"text": "cat"}, ttl=10)
        await store.aput(NAMES, "l", {"text": "dog"}, index=False)
        return [
            await store.aget(NAMES, "k", refresh_ttl=True),
            await store.asearch(NAMES, query="cat"),
            await store.alist_namespaces(max_depth=1),
            await store.abatch([GetOp(namespace=NAMES, key="l")]),
            await store.adelete(NAMES, "l"),
            await store.aget(NAMES, "l"),
        ]

    item, items, namespaces, (other,), deleted, gone = asyncio.run(main())
    assert isinstance(item, Item)
    assert ([item.key for item in items], namespaces) == (["k"], [("users",)])
    assert (other.value, deleted, gone) == ({"text": "dog"}, None, None)
