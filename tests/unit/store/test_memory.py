"""The store in memory: values, searches, namespaces, time to live, sweeping, and search by meaning."""

import operator
from collections import UserDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.store import Index, InMemoryStore, Item, TimeToLive
from statewright.testing import FakeClock

NAMES = ("users", "42")
START = datetime(2026, 1, 1, tzinfo=UTC)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Embed a text as the numbers of its cats and dogs."""
    return [[float(text.count("cat")), float(text.count("dog"))] for text in texts]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def store(clock: FakeClock) -> InMemoryStore:
    return InMemoryStore(clock=clock)


def has_item(store: InMemoryStore, key: str = "k", **options: Any) -> bool:
    return store.get(NAMES, key, **options) is not None


def keys(items: Sequence[Item]) -> list[str]:
    return [item.key for item in items]


# -- values


def test_an_item_has_its_namespace_key_value_and_times(store: InMemoryStore, clock: FakeClock) -> None:
    store.put(NAMES, "k", {"n": 1})
    clock.advance(60)
    store.put(NAMES, "k", {"n": 2})

    later = START + timedelta(seconds=60)
    assert store.get(NAMES, "k") == Item(namespace=NAMES, key="k", value={"n": 2}, created_at=START, updated_at=later)


@pytest.mark.parametrize(("namespace", "key"), [(NAMES, "other"), (("users",), "k"), (("users", "42", "x"), "k")])
def test_a_missing_item_is_none(store: InMemoryStore, namespace: tuple[str, ...], key: str) -> None:
    store.put(NAMES, "k", {})
    assert store.get(namespace, key) is None
    assert store.get(NAMES, "k") is not None


@pytest.mark.parametrize("value", [{}, {"a": None}, {"a": {"b": [1]}}, UserDict(a=1)])
def test_a_mapping_is_stored_as_a_dict(store: InMemoryStore, value: Any) -> None:
    store.put(NAMES, "k", value)
    item = store.get(NAMES, "k")
    assert item is not None
    assert item.value == dict(value)
    assert type(item.value) is dict


def test_stored_and_returned_values_are_copies(store: InMemoryStore) -> None:
    value = {"inner": {"list": [1]}}
    store.put(NAMES, "k", value)
    value["inner"]["list"].append(2)
    for item in (store.get(NAMES, "k"), *store.search(NAMES)):
        assert item is not None
        assert item.value == {"inner": {"list": [1]}}
        item.value["inner"]["list"].append(3)
    assert [item.value for item in store.search(NAMES)] == [{"inner": {"list": [1]}}]


def test_a_key_can_be_in_several_namespaces(store: InMemoryStore) -> None:
    store.put(("a",), "k", {"n": 1})
    store.put(("b",), "k", {"n": 2})
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.get(("b",), "k") is not None


def test_putting_a_deleted_item_creates_a_new_one(store: InMemoryStore, clock: FakeClock) -> None:
    store.put(NAMES, "k", {})
    store.delete(NAMES, "k")
    store.delete(NAMES, "k")
    clock.advance(1)
    store.put(NAMES, "k", {})
    item = store.get(NAMES, "k")
    assert item is not None
    assert item.created_at == START + timedelta(seconds=1)


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",)])
def test_putting_in_an_invalid_namespace_stores_nothing(store: InMemoryStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidUpdateError, match="namespace"):
        store.put(namespace, "k", {})
    assert store.search(()) == []


def test_a_store_uses_the_system_clock_by_default() -> None:
    store = InMemoryStore()
    store.put(NAMES, "k", {"n": 1}, ttl=3600)
    item = store.get(NAMES, "k")
    assert item is not None
    assert item.created_at.tzinfo is not None
    store.close()


# -- search


@pytest.fixture
def filled(store: InMemoryStore) -> InMemoryStore:
    namespaces = [("users", "1"), ("users", "2"), ("users", "1", "notes"), ("teams", "1"), ("users", "10")]
    for number, namespace in enumerate(namespaces):
        store.put(namespace, f"k{number}", {"n": number, "even": number % 2 == 0})
    return store


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ((), ["k4", "k3", "k2", "k1", "k0"]),
        (("users",), ["k4", "k2", "k1", "k0"]),
        (("users", "1"), ["k2", "k0"]),
        (("users", "1", "notes"), ["k2"]),
        (("users", "1", "notes", "more"), []),
        (("nobody",), []),
        (("*", "1"), ["k3", "k2", "k0"]),
        (("users", "*"), ["k4", "k2", "k1", "k0"]),
        (("users", "*", "notes"), ["k2"]),
        (("*", "*", "*"), ["k2"]),
    ],
)
def test_a_search_returns_the_items_under_a_prefix(
    filled: InMemoryStore, prefix: tuple[str, ...], expected: list[str]
) -> None:
    assert keys(filled.search(prefix)) == expected


@pytest.mark.parametrize(
    ("limit", "offset", "expected"),
    [(2, 0, ["k4", "k3"]), (2, 3, ["k1", "k0"]), (2, 4, ["k0"]), (2, 9, []), (0, 0, []), (99, 3, ["k1", "k0"])],
)
def test_a_search_has_a_limit_and_an_offset(
    filled: InMemoryStore, limit: int, offset: int, expected: list[str]
) -> None:
    assert keys(filled.search((), limit=limit, offset=offset)) == expected


def test_a_search_returns_ten_items_by_default(store: InMemoryStore) -> None:
    for number in range(12):
        store.put(NAMES, str(number), {})
    assert len(store.search(NAMES)) == 10


def test_an_updated_item_comes_first(filled: InMemoryStore) -> None:
    filled.put(("users", "1"), "k0", {"n": 0})
    assert keys(filled.search(("users",))) == ["k0", "k4", "k2", "k1"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [(None, 5), ({}, 5), ({"even": True}, 3), ({"n": {"$gte": 1, "$lt": 3}}, 2), ({"n": 9}, 0), ({"missing": None}, 0)],
)
def test_a_search_can_be_filtered(filled: InMemoryStore, conditions: Any, expected: int) -> None:
    assert len(filled.search((), filter=conditions)) == expected


def test_limit_and_offset_apply_after_the_filter(filled: InMemoryStore) -> None:
    assert keys(filled.search((), filter={"even": True}, limit=1, offset=1)) == ["k2"]


def test_an_unknown_operator_in_a_filter_is_refused(filled: InMemoryStore) -> None:
    with pytest.raises(InvalidUpdateError, match="operator"):
        filled.search((), filter={"n": {"$near": 1}})


def test_items_have_no_score_without_a_query(filled: InMemoryStore) -> None:
    assert {item.score for item in filled.search(())} == {None}


# -- namespaces


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["teams/1", "users/1", "users/1/notes", "users/10", "users/2"]),
        ({"prefix": ("users",)}, ["users/1", "users/1/notes", "users/10", "users/2"]),
        ({"prefix": ("*", "1")}, ["teams/1", "users/1", "users/1/notes"]),
        ({"suffix": ("1",)}, ["teams/1", "users/1"]),
        ({"suffix": ("*", "notes")}, ["users/1/notes"]),
        ({"suffix": ("a", "users", "1")}, []),
        ({"prefix": ("users",), "suffix": ("2",)}, ["users/2"]),
        ({"max_depth": 1}, ["teams", "users"]),
        ({"max_depth": 2}, ["teams/1", "users/1", "users/10", "users/2"]),
        ({"suffix": ("notes",), "max_depth": 1}, ["users"]),
        ({"prefix": ("users", "1"), "max_depth": 1}, ["users"]),
        ({"limit": 2}, ["teams/1", "users/1"]),
        ({"limit": 2, "offset": 4}, ["users/2"]),
        ({"limit": 0}, []),
        ({"prefix": ("nobody",)}, []),
    ],
)
def test_namespaces_are_listed_in_order_and_filtered(
    filled: InMemoryStore, options: dict[str, Any], expected: list[str]
) -> None:
    assert ["/".join(namespace) for namespace in filled.list_namespaces(**options)] == expected


def test_a_namespace_is_listed_while_it_has_an_item(store: InMemoryStore) -> None:
    store.put(NAMES, "k", {})
    store.put(NAMES, "l", {})
    assert store.list_namespaces() == [NAMES]
    store.delete(NAMES, "k")
    assert store.list_namespaces() == [NAMES]
    store.delete(NAMES, "l")
    assert store.list_namespaces() == []


# -- time to live


@pytest.mark.parametrize("ttl", [10, 10.0, timedelta(seconds=10)])
def test_an_item_expires_after_its_ttl(store: InMemoryStore, clock: FakeClock, ttl: Any) -> None:
    store.put(NAMES, "k", {}, ttl=ttl)
    clock.advance(9.9)
    assert has_item(store, refresh_ttl=False)
    clock.advance(0.1)
    assert not has_item(store)


def test_expired_items_are_not_found_or_listed(store: InMemoryStore, clock: FakeClock) -> None:
    store.put(NAMES, "k", {}, ttl=10)
    clock.advance(10)
    assert store.search(()) == []
    assert store.list_namespaces() == []


def test_an_item_without_a_ttl_never_expires(store: InMemoryStore, clock: FakeClock) -> None:
    store.put(NAMES, "k", {})
    clock.advance(timedelta(days=10_000))
    assert has_item(store)
    assert store.sweep() == 0


@pytest.mark.parametrize("read", [operator.methodcaller("get", NAMES, "k"), operator.methodcaller("search", NAMES)])
def test_reading_an_item_refreshes_its_ttl(store: InMemoryStore, clock: FakeClock, read: Any) -> None:
    store.put(NAMES, "k", {}, ttl=10)
    clock.advance(8)
    read(store)
    clock.advance(8)
    assert has_item(store)


@pytest.mark.parametrize(
    ("refresh_on_read", "refresh", "is_kept"),
    [(True, None, True), (True, False, False), (False, None, False), (False, True, True)],
)
@pytest.mark.parametrize("method", ["get", "search"])
def test_refresh_on_read_is_set_for_the_store_and_overridden_by_a_call(
    clock: FakeClock, method: str, refresh_on_read: bool, refresh: bool | None, is_kept: bool
) -> None:
    store = InMemoryStore(clock=clock, ttl=TimeToLive(default=10, refresh_on_read=refresh_on_read))
    store.put(NAMES, "k", {})
    clock.advance(8)
    store.get(NAMES, "k", refresh_ttl=refresh) if method == "get" else store.search(NAMES, refresh_ttl=refresh)
    clock.advance(8)
    assert has_item(store) is is_kept


def test_a_search_refreshes_only_the_returned_items(store: InMemoryStore, clock: FakeClock) -> None:
    for key in ("first", "second"):
        store.put(NAMES, key, {}, ttl=10)
    clock.advance(8)
    assert keys(store.search(NAMES, limit=1)) == ["second"]
    clock.advance(8)
    assert (has_item(store, "first"), has_item(store, "second")) == (False, True)


def test_the_ttl_of_an_item_overrides_the_default(clock: FakeClock) -> None:
    store = InMemoryStore(clock=clock, ttl=TimeToLive(default=10))
    store.put(NAMES, "default", {})
    store.put(NAMES, "longer", {}, ttl=20)
    store.put(NAMES, "none", {}, ttl=0)
    assert not has_item(store, "none")
    clock.advance(15)
    assert (has_item(store, "default"), has_item(store, "longer")) == (False, True)


def test_putting_again_restarts_or_removes_the_ttl(store: InMemoryStore, clock: FakeClock) -> None:
    for key in ("again", "for ever"):
        store.put(NAMES, key, {}, ttl=10)
    clock.advance(8)
    store.put(NAMES, "again", {}, ttl=10)
    store.put(NAMES, "for ever", {})
    clock.advance(8)
    assert (has_item(store, "again"), has_item(store, "for ever")) == (True, True)
    clock.advance(100)
    assert (has_item(store, "again"), has_item(store, "for ever")) == (False, True)


def test_a_sweep_deletes_and_counts_expired_items(store: InMemoryStore, clock: FakeClock) -> None:
    for key, ttl in [("a", 10), ("b", 10), ("c", 20), ("d", None)]:
        store.put(NAMES, key, {}, ttl=ttl)
    assert store.sweep() == 0
    clock.advance(10)
    assert store.sweep() == 2
    assert store.sweep() == 0
    assert keys(store.search(NAMES)) == ["d", "c"]


def test_a_sweeper_runs_periodically_until_the_store_is_closed(clock: FakeClock) -> None:
    store = InMemoryStore(clock=clock, ttl=TimeToLive(default=1, sweep_every=timedelta(seconds=5)))
    store.start_sweeper()
    for _ in range(2):
        store.put(NAMES, "k", {})
        clock.advance(5)
        assert store.sweep() == 0

    store.close()
    store.close()
    store.put(NAMES, "k", {})
    clock.advance(50)
    assert store.sweep() == 1


class StoreClosedDuringSweep(InMemoryStore):
    """A store that another thread closes during each sweep."""

    sweeps = 0

    def sweep(self) -> int:
        self.sweeps += 1
        self.closing = Thread(target=self.close)
        self.closing.start()
        return super().sweep()


def test_closing_during_a_sweep_stops_the_sweeper(clock: FakeClock) -> None:
    store = StoreClosedDuringSweep(clock=clock, ttl=TimeToLive(sweep_every=5))
    store.start_sweeper()
    clock.advance(5)
    store.closing.join()
    clock.advance(20)
    assert store.sweeps == 1


# -- search by meaning


@pytest.fixture
def indexed(clock: FakeClock) -> InMemoryStore:
    store = InMemoryStore(index=Index(dims=2, embed=embed, fields=("text",)), clock=clock)
    for key, text in [("dogs", "dog dog"), ("both", "cat dog"), ("cats", "cat cat cat")]:
        store.put(NAMES, key, {"text": text, "long": len(text) > 7})
    return store


def test_the_nearest_item_comes_first_with_its_score(indexed: InMemoryStore) -> None:
    items = indexed.search(NAMES, query="cat")
    assert keys(items) == ["cats", "both", "dogs"]
    assert [item.score for item in items] == pytest.approx([1, 0.5**0.5, 0])


def test_equally_near_items_are_ordered_by_last_update(indexed: InMemoryStore) -> None:
    indexed.put(NAMES, "again", {"text": "cat"})
    assert keys(indexed.search(NAMES, query="cat", limit=2)) == ["again", "cats"]


def test_a_query_can_have_a_filter_limit_and_offset(indexed: InMemoryStore) -> None:
    assert keys(indexed.search(NAMES, query="dog", filter={"long": False})) == ["dogs", "both"]
    assert keys(indexed.search(NAMES, query="dog", limit=1, offset=1)) == ["both"]
    assert keys(indexed.search(("others",), query="dog")) == []


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        ({"text": "dog", "note": "cat"}, None, 0),
        ({"text": "dog", "note": "cat"}, True, 0),
        ({"text": "dog", "note": "cat"}, ["note"], 1),
        ({"text": "dog", "note": "cat"}, ["text", "note"], 1),
        ({"text": "cat"}, False, None),
        ({"text": "cat"}, [], None),
        ({"note": "cat"}, None, None),
        ({"text": None}, None, None),
    ],
)
def test_only_the_indexed_fields_are_found_by_meaning(
    clock: FakeClock, value: Any, index: Any, expected: float | None
) -> None:
    store = InMemoryStore(index=Index(dims=2, embed=embed, fields=("text",)), clock=clock)
    store.put(NAMES, "k", value, index=index)
    scores = [item.score for item in store.search(NAMES, query="cat")]
    assert scores == ([] if expected is None else [pytest.approx(expected)])
    assert keys(store.search(NAMES)) == ["k"]


def test_the_score_of_an_item_is_that_of_its_nearest_part(clock: FakeClock) -> None:
    store = InMemoryStore(index=Index(dims=2, embed=embed, fields=("parts[*].text",)), clock=clock)
    store.put(NAMES, "k", {"parts": [{"text": "dog"}, {"text": "cat"}]})
    for query in ("cat", "dog"):
        assert [item.score for item in store.search(NAMES, query=query)] == [pytest.approx(1)]


def test_putting_again_updates_the_vectors(indexed: InMemoryStore) -> None:
    indexed.put(NAMES, "cats", {"text": "dog"})
    assert keys(indexed.search(NAMES, query="cat", limit=1)) == ["both"]


def test_a_query_without_an_index_is_refused(store: InMemoryStore) -> None:
    with pytest.raises(InvalidUpdateError, match="needs an index"):
        store.search((), query="cat")


def test_an_item_with_invalid_vectors_is_not_stored(clock: FakeClock) -> None:
    store = InMemoryStore(index=Index(dims=3, embed=embed), clock=clock)
    with pytest.raises(InvalidUpdateError, match="one vector of 3 dimensions for each"):
        store.put(NAMES, "k", {"text": "cat"})
    assert not has_item(store)


def test_index_options_are_ignored_without_an_index(store: InMemoryStore) -> None:
    store.put(NAMES, "k", {"text": "cat"}, index=["text"])
    assert has_item(store)
