"""What every store must do: derive from the suite, say how to make yours, and let pytest collect it."""

from __future__ import annotations

from statewright.errors import InvalidUpdateError
from statewright.store import Store

NAMES = ("users", "42")


class StoreConformance:
    """The promises of the port, one test each."""

    def make_store(self) -> Store:
        """A new, empty store."""
        raise NotImplementedError

    def test_what_is_put_is_there(self) -> None:
        store = self.make_store()
        assert store.get(NAMES, "k") is None
        store.put(NAMES, "k", {"a": 1})
        item = store.get(NAMES, "k")
        assert item is not None
        assert (item.namespace, item.key, item.value) == (NAMES, "k", {"a": 1})

    def test_values_are_copies(self) -> None:
        store = self.make_store()
        value = {"list": [1]}
        store.put(NAMES, "k", value)
        value["list"].append(2)
        first = store.get(NAMES, "k")
        assert first is not None
        first.value["list"].append(3)
        again = store.get(NAMES, "k")
        assert again is not None
        assert again.value == {"list": [1]}

    def test_putting_again_replaces_and_keeps_the_time_of_creation(self) -> None:
        store = self.make_store()
        store.put(NAMES, "k", {"a": 1})
        first = store.get(NAMES, "k")
        store.put(NAMES, "k", {"b": 2})
        second = store.get(NAMES, "k")
        assert first is not None
        assert second is not None
        assert (second.value, second.created_at) == ({"b": 2}, first.created_at)

    def test_deleting_is_forgetting_once_or_twice(self) -> None:
        store = self.make_store()
        store.put(NAMES, "k", {})
        store.delete(NAMES, "k")
        store.delete(NAMES, "k")
        assert store.get(NAMES, "k") is None

    def test_search_finds_under_a_prefix_the_last_updated_first(self) -> None:
        store = self.make_store()
        for number, user in enumerate(("1", "2", "1")):
            store.put(("users", user), f"k{number}", {"n": number})
        store.put(("other",), "k", {"n": 9})
        assert [item.value["n"] for item in store.search(("users",))] == [2, 1, 0]
        assert [item.value["n"] for item in store.search(("users", "1"), limit=1, offset=1)] == [0]

    def test_search_keeps_to_its_limits_and_hands_out_copies(self) -> None:
        store = self.make_store()
        for n in range(4):
            store.put(NAMES, str(n), {"n": n, "inside": []})
        store.put(NAMES, "0", {"n": 0, "inside": []})
        assert [item.value["n"] for item in store.search(NAMES, limit=2)] == [0, 3]
        assert [item.value["n"] for item in store.search(NAMES, limit=2, offset=2)] == [2, 1]
        store.search(NAMES, limit=1)[0].value["inside"].append(1)
        assert store.search(NAMES, limit=1)[0].value["inside"] == []

    def test_a_prefix_is_of_labels_and_may_leave_some_open(self) -> None:
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
        store.put(NAMES, "k", {"n": 1})
        try:
            store.search(NAMES, filter={"n": {"$near": 1}})
        except InvalidUpdateError:
            return
        raise AssertionError("the operator '$near' was taken")

    def test_search_filters_by_value_and_by_operator(self) -> None:
        store = self.make_store()
        for n in range(4):
            store.put(NAMES, str(n), {"n": n, "even": n % 2 == 0})
        assert {item.value["n"] for item in store.search(NAMES, filter={"even": True})} == {0, 2}
        assert {item.value["n"] for item in store.search(NAMES, filter={"n": {"$gte": 1, "$lt": 3}})} == {1, 2}
        assert {item.value["n"] for item in store.search(NAMES, filter={"n": {"$ne": 0}, "even": True})} == {2}

    def test_namespaces_are_listed_and_cut(self) -> None:
        store = self.make_store()
        for namespace in (("a", "x", "1"), ("a", "y"), ("b",)):
            store.put(namespace, "k", {})
        assert list(store.list_namespaces()) == [("a", "x", "1"), ("a", "y"), ("b",)]
        assert list(store.list_namespaces(prefix=("a",), max_depth=1)) == [("a",)]

    def test_a_bad_namespace_is_refused(self) -> None:
        store = self.make_store()
        for namespace in ((), ("",), ("a.b",)):
            try:
                store.put(namespace, "k", {})
            except InvalidUpdateError:
                continue
            raise AssertionError(f"{namespace!r} was taken")
