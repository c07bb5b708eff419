"""The conformance suite for stores.

Derive a class from `StoreConformance`, and pytest collects its tests:

    class TestMyStore(StoreConformance):
        def make_store(self):
            return MyStore()
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta

from statewright.errors import InvalidUpdateError
from statewright.store import Item, Store
from statewright.testing.conformance.assertions import raises, run_concurrently

NAMES = ("users", "42")
"""The namespace that most tests use."""
SHORT = 0.01
"""A time to live, in seconds, that ends during a test."""
LONG = timedelta(hours=1)
"""A time to live that does not end during a test."""


class StoreConformance:
    """The requirements of the port `Store`, one test each."""

    def make_store(self) -> Store:
        """Return a new, empty store."""
        raise NotImplementedError

    def test_an_item_can_be_read_after_it_was_put(self) -> None:
        store = self.make_store()
        assert store.get(NAMES, "k") is None
        store.put(NAMES, "k", {"a": 1})
        item = _item(store)
        assert (item.namespace, item.key, item.value) == (NAMES, "k", {"a": 1})

    def test_values_are_copies(self) -> None:
        store = self.make_store()
        value = {"list": [1]}
        store.put(NAMES, "k", value)
        value["list"].append(2)
        first = _item(store)
        first.value["list"].append(3)
        again = _item(store)
        assert again.value == {"list": [1]}

    def test_putting_again_replaces_the_value_and_keeps_the_creation_time(self) -> None:
        store = self.make_store()
        store.put(NAMES, "k", {"a": 1})
        first = _item(store)
        store.put(NAMES, "k", {"b": 2})
        second = _item(store)
        assert (second.value, second.created_at) == ({"b": 2}, first.created_at)

    def test_deleting_is_idempotent(self) -> None:
        store = self.make_store()
        store.put(NAMES, "k", {})
        store.delete(NAMES, "k")
        store.delete(NAMES, "k")
        assert store.get(NAMES, "k") is None

    def test_search_returns_the_items_under_a_prefix_last_updated_first(self) -> None:
        store = self.make_store()
        for number, user in enumerate(("1", "2", "1")):
            store.put(("users", user), f"k{number}", {"n": number})
        store.put(("other",), "k", {"n": 9})
        assert [item.value["n"] for item in store.search(("users",))] == [2, 1, 0]
        assert [item.value["n"] for item in store.search(("users", "1"), limit=1, offset=1)] == [0]

    def test_search_respects_its_limits_and_returns_copies(self) -> None:
        store = self.make_store()
        for n in range(4):
            store.put(NAMES, str(n), {"n": n, "inside": []})
        store.put(NAMES, "0", {"n": 0, "inside": []})
        assert [item.value["n"] for item in store.search(NAMES, limit=2)] == [0, 3]
        assert [item.value["n"] for item in store.search(NAMES, limit=2, offset=2)] == [2, 1]
        for limit in (0, -1, -3):
            assert list(store.search(NAMES, limit=limit)) == list(store.list_namespaces(limit=limit)) == []
        assert [item.value["n"] for item in store.search(NAMES, limit=2, offset=-2)] == [0, 3]
        assert list(store.list_namespaces(limit=1, offset=-2)) == [NAMES]
        store.search(NAMES, limit=1)[0].value["inside"].append(1)
        assert store.search(NAMES, limit=1)[0].value["inside"] == []

    def test_a_prefix_matches_whole_labels_and_may_contain_wildcards(self) -> None:
        store = self.make_store()
        for namespace in (("users", "1", "notes"), ("users", "10", "notes"), ("users", "1", "mail")):
            store.put(namespace, "k", {"of": "/".join(namespace)})
        assert {item.value["of"] for item in store.search(("users", "1"))} == {"users/1/notes", "users/1/mail"}
        assert len(store.search(("users", "*", "notes"))) == 2
        assert list(store.list_namespaces(prefix=("users", "*", "mail"))) == [("users", "1", "mail")]
        assert list(store.list_namespaces(suffix=("notes",))) == [("users", "1", "notes"), ("users", "10", "notes")]
        assert list(store.list_namespaces(limit=1, offset=1)) == [("users", "1", "notes")]

    def test_an_unknown_operator_is_refused(self) -> None:
        store = self.make_store()
        raises(InvalidUpdateError, lambda: store.search(NAMES, filter={"n": {"$near": 1}}))
        store.put(NAMES, "k", {"n": 1})
        raises(InvalidUpdateError, lambda: store.search(NAMES, filter={"n": {"$near": 1}}))

    def test_search_filters_by_value_and_by_operator(self) -> None:
        store = self.make_store()
        for n in range(4):
            store.put(NAMES, str(n), {"n": n, "even": n % 2 == 0})
        assert {item.value["n"] for item in store.search(NAMES, filter={"even": True})} == {0, 2}
        assert {item.value["n"] for item in store.search(NAMES, filter={"n": {"$gte": 1, "$lt": 3}})} == {1, 2}
        assert {item.value["n"] for item in store.search(NAMES, filter={"n": {"$ne": 0}, "even": True})} == {2}

    def test_namespaces_are_listed_up_to_a_depth(self) -> None:
        store = self.make_store()
        for namespace in (("a", "x", "1"), ("a", "y"), ("b",)):
            store.put(namespace, "k", {})
        assert list(store.list_namespaces()) == [("a", "x", "1"), ("a", "y"), ("b",)]
        assert list(store.list_namespaces(prefix=("a",), max_depth=1)) == [("a",)]

    def test_an_invalid_namespace_is_refused(self) -> None:
        store = self.make_store()
        for namespace in ((), ("",), ("a.b",), ("a\0",)):
            raises(InvalidUpdateError, lambda namespace=namespace: store.put(namespace, "k", {}))

    def test_a_null_character_in_a_key_is_refused(self) -> None:
        store = self.make_store()
        raises(InvalidUpdateError, lambda: store.put(NAMES, "k\0", {}))
        assert store.get(NAMES, "k\0") is None

    def test_a_refused_item_is_not_stored(self) -> None:
        store = self.make_store()
        with suppress(InvalidUpdateError):
            store.put(("a.b",), "k", {})
        assert store.search(()) == []

    def test_values_are_read_as_they_were_written(self) -> None:
        store = self.make_store()
        values: list[dict[str, object]] = [
            {},
            {
                "": None,
                "text": "tschüß 🦉\x00",
                "numbers": [0, -1, 2**62 + 1, 0.1, 1e300],
                "true": True,
                "false": False,
            },
            {"deep": {"er": {"list": [[], [{}], [1, [2]]]}}, "with.dot": 1, "$odd": 2},
        ]
        for value in values:
            store.put(NAMES, "k", value)
            item = _item(store)
            assert item.value == value
            assert [item.value for item in store.search(NAMES)] == [value]

    def test_an_item_has_its_creation_and_update_times(self) -> None:
        store = self.make_store()
        for _ in range(2):
            store.put(NAMES, "k", {})
            item = _item(store)
            assert item.created_at.utcoffset() is not None
            assert item.created_at <= item.updated_at
            (match,) = store.search(NAMES)
            assert (match.created_at, match.updated_at) == (item.created_at, item.updated_at)

    def test_a_key_may_exist_in_several_namespaces(self) -> None:
        store = self.make_store()
        for namespace in (("a",), ("a", "b"), ("b",)):
            store.put(namespace, "k", {"of": list(namespace)})
        store.delete(("a",), "k")
        assert store.get(("a",), "k") is None
        assert [item.value for item in store.search(())] == [{"of": ["b"]}, {"of": ["a", "b"]}]

    def test_names_are_compared_exactly(self) -> None:
        store = self.make_store()
        labels = ["users", "Users", "u%", "u_ers", "it's", 'a"b', "a/b", "a-b", "ü", " ", "[a]", "日本"]
        for label in labels:
            for key in ("", "k", "K", "a.b", "%", "*"):
                store.put((label, "x"), key, {"label": label, "key": key})
        for label in labels:
            items = store.search((label,), limit=100)
            assert {item.value["label"] for item in items} == {label}
            assert len(items) == 6
            item = store.get((label, "x"), "%")
            assert item is not None
            assert (item.namespace, item.value["key"]) == ((label, "x"), "%")
        assert list(store.list_namespaces(max_depth=1)) == sorted((label,) for label in labels)

    def test_an_invalid_namespace_contains_nothing(self) -> None:
        store = self.make_store()
        store.put(("a", "b"), "k", {})
        assert store.get(("a.b",), "k") is None
        assert store.get(("a\0",), "k") is None
        assert store.get((), "k") is None
        assert store.search(("a.b",)) == []
        assert store.search(("a", "")) == []
        assert store.search(("a\0",)) == []
        assert list(store.list_namespaces(prefix=("a.b",))) == []
        assert list(store.list_namespaces(prefix=("a\0",))) == []
        assert list(store.list_namespaces(suffix=("a.b",))) == []
        store.delete(("a.b",), "k")
        store.delete(("a\0",), "k")
        assert store.get(("a", "b"), "k") is not None

    def test_a_namespace_exists_while_it_contains_an_item(self) -> None:
        store = self.make_store()
        for key in ("k", "l"):
            store.put(NAMES, key, {})
        store.delete(NAMES, "k")
        assert list(store.list_namespaces()) == [NAMES]
        store.delete(NAMES, "l")
        assert list(store.list_namespaces()) == []

    def test_limits_apply_after_filtering(self) -> None:
        store = self.make_store()
        for n in range(6):
            store.put(NAMES, str(n), {"n": n, "even": n % 2 == 0})
        items = store.search(NAMES, filter={"even": True}, limit=1, offset=1)
        assert [item.value["n"] for item in items] == [2]
        assert store.search(NAMES, limit=0) == []

    def test_a_query_without_an_index_is_refused(self) -> None:
        store = self.make_store()
        store.put(NAMES, "k", {"text": "cat"})
        raises(InvalidUpdateError, lambda: store.search(NAMES, query="cat"))

    def test_an_item_expires_after_its_time_to_live(self) -> None:
        store = self.make_store()
        for key, ttl in (("short", SHORT), ("put again", SHORT), ("long", LONG), ("unlimited", None)):
            store.put(NAMES, key, {}, ttl=ttl)
        store.put(("soon",), "k", {}, ttl=timedelta(seconds=SHORT))
        store.put(NAMES, "put again", {})
        time.sleep(2 * SHORT)
        assert store.get(NAMES, "short") is None
        assert [item.key for item in store.search(())] == ["put again", "unlimited", "long"]
        assert list(store.list_namespaces()) == [NAMES]

    def test_puts_may_be_concurrent(self) -> None:
        store = self.make_store()

        def put(number: int) -> None:
            for n in range(10):
                store.put(NAMES, f"{number}/{n}", {"n": n})
                assert store.get(NAMES, f"{number}/{n}") is not None

        assert run_concurrently(4, put) == []
        assert len(store.search(NAMES, limit=100)) == 40


def _item(store: Store) -> Item:
    """Return the item `k` in the namespace `NAMES`; fail if there is none."""
    item = store.get(NAMES, "k")
    assert item is not None
    return item
