"""The suite for stores: it passes stores that keep the promises of the port, and finds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError, StatewrightError
from statewright.store import InMemoryStore, Item
from statewright.store.model import Namespace, SearchItem
from statewright.testing import StoreConformance

Make = Callable[[], Any]


def broken_promises(make: Make) -> set[str]:
    """The names of the tests of the suite that a store fails."""

    class Suite(StoreConformance):
        def make_store(self) -> Any:
            return make()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except (AssertionError, KeyError, StatewrightError):  # anything else is a mistake of this file
            failed.add(name)
    return failed


class Forgetful(InMemoryStore):
    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        return None


class Shares(InMemoryStore):
    """Hands out the very object that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Any, Any] = {}

    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        item = super().get(namespace, key, **options)
        if item is None:
            return None
        value = self.values.setdefault((namespace, key), item.value)
        return replace(item, value=value)


class KeepsWhatItIsGiven(Shares):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **options)
        self.values[namespace, key] = value


class Merges(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        known = self.get(namespace, key)
        super().put(namespace, key, {**(known.value if known else {}), **value}, **options)


class CreatesAnew(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        self.delete(namespace, key)
        super().put(namespace, key, value, **options)


class DeletesNothing(InMemoryStore):
    def delete(self, namespace: Namespace, key: str) -> None:
        pass


class DeletesOnlyWhatIsThere(InMemoryStore):
    def delete(self, namespace: Namespace, key: str) -> None:
        if self.get(namespace, key) is None:
            raise KeyError(key)
        super().delete(namespace, key)


class FindsTheFirstFirst(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        return super().search(prefix, limit=1000, **options)[::-1][offset : offset + limit]


class FindsEverywhere(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        return super().search((), **options)


class FindsOnlyRightThere(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        return [item for item in super().search(prefix, **options) if item.namespace == prefix]


class NeverSkips(InMemoryStore):
    def search(self, prefix: Namespace, *, offset: int = 0, **options: Any) -> list[SearchItem]:
        return super().search(prefix, **options)


class NeverStops(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, **options: Any) -> list[SearchItem]:
        return super().search(prefix, limit=1000, **options)


class FiltersNothing(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        return super().search(prefix, **options)


class KnowsNoOperators(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        found = super().search(prefix, **options)
        return [item for item in found if all(item.value.get(key) == value for key, value in (filter or {}).items())]


class ListsEachAgain(InMemoryStore):
    def list_namespaces(self, *, max_depth: int | None = None, **options: Any) -> list[Namespace]:
        return [namespace[:max_depth] for namespace in super().list_namespaces(**options)]


class ListsInAnyOrder(InMemoryStore):
    def list_namespaces(self, **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)[::-1]


class ListsThemWhole(InMemoryStore):
    def list_namespaces(self, *, max_depth: int | None = None, **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class ListsThemAll(InMemoryStore):
    def list_namespaces(self, *, prefix: Namespace = (), **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class TakesAnyNamespace(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        try:
            super().put(namespace, key, value, **options)
        except InvalidUpdateError:
            super().put(("any",), key, value, **options)


class PutsOffUpdates(InMemoryStore):
    """An item that is put again stays where it was in the order of updates."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        place = list(self._entries)
        super().put(namespace, key, value, **options)
        kept = {one: self._entries[one] for one in place if one in self._entries}
        self._entries = {**kept, **self._entries}


class FindsWhatOnlyBeginsAlike(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        found = super().search((), limit=1000, **options)
        alike = [item for item in found if ".".join(item.namespace).startswith(".".join(prefix))]
        return alike[offset : offset + limit]


class ListsWhateverTheEnd(InMemoryStore):
    def list_namespaces(self, *, suffix: Namespace = (), **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class TakesLabelsAtTheirWord(InMemoryStore):
    """A star stands for itself."""

    def list_namespaces(self, *, prefix: Namespace = (), **options: Any) -> list[Namespace]:
        return [] if "*" in prefix else super().list_namespaces(prefix=prefix, **options)


class ListsWithoutLimit(InMemoryStore):
    def list_namespaces(self, *, limit: int = 100, offset: int = 0, **options: Any) -> list[Namespace]:
        return super().list_namespaces(limit=1000, **options)


class TakesAnyOperator(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        try:
            return super().search(prefix, **options)
        except InvalidUpdateError:
            return []


class SharesInSearches(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        found = super().search(prefix, **options)
        return [replace(item, value=self._entries[item.namespace, item.key].item.value) for item in found]


class KeepsWhatItRefuses(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(tuple(label.replace(".", "") or "none" for label in namespace) or ("none",), key, value, **options)
        super().put(namespace, key, value, **options)


class KeepsNoBigNumbers(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        numbers = [float(n) for n in value.get("numbers", ())]
        super().put(namespace, key, {**value, "numbers": numbers} if numbers else value, **options)


class KnowsNoZone(InMemoryStore):
    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        item = super().get(namespace, key, **options)
        return item and replace(item, created_at=item.created_at.replace(tzinfo=None))


class KnowsKeysAlone(InMemoryStore):
    """A key stands in one namespace only."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        for item in self.search((), limit=1000):
            if item.key == key:
                self.delete(item.namespace, key)
        super().put(namespace, key, value, **options)


class SeesNoCase(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        wanted = tuple(label.lower() for label in prefix)
        found = super().search((), limit=1000, **options)
        alike = [one for one in found if tuple(map(str.lower, one.namespace[: len(prefix)])) == wanted]
        return alike[offset : offset + limit]


class SplitsLabels(InMemoryStore):
    """A label with a dot counts as two."""

    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        return super().get(tuple(".".join(namespace).split(".")), key, **options)


class ListsWhatWasOnceInUse(InMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.used: set[Namespace] = set()

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **options)
        self.used.add(namespace)

    def list_namespaces(self, **options: Any) -> list[Namespace]:
        return sorted(self.used)


class CutsBeforeFiltering(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        shown = {(item.namespace, item.key) for item in super().search(prefix, **options)}
        found = super().search(prefix, filter=filter, limit=1000)
        return [item for item in found if (item.namespace, item.key) in shown]


class TakesAnyQuery(InMemoryStore):
    def search(self, prefix: Namespace, *, query: Any = None, **options: Any) -> list[SearchItem]:
        return super().search(prefix, **options)


class KeepsForEver(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **{**options, "ttl": None})


class ForgetsSoon(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **{**options, "ttl": 0.01})


class LosesWhatOthersPut(InMemoryStore):
    """The last one that writes wins everything."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        if "/" in key and not key.startswith("0"):
            return
        super().put(namespace, key, value, **options)


BROKEN: dict[type[InMemoryStore], str] = {
    KeepsWhatItRefuses: "test_a_refused_item_is_not_stored",
    KeepsNoBigNumbers: "test_values_are_read_as_they_were_written",
    KnowsNoZone: "test_an_item_has_its_creation_and_update_times",
    KnowsKeysAlone: "test_a_key_may_exist_in_several_namespaces",
    SeesNoCase: "test_names_are_compared_exactly",
    SplitsLabels: "test_an_invalid_namespace_contains_nothing",
    ListsWhatWasOnceInUse: "test_a_namespace_exists_while_it_contains_an_item",
    CutsBeforeFiltering: "test_limits_apply_after_filtering",
    TakesAnyQuery: "test_a_query_without_an_index_is_refused",
    KeepsForEver: "test_an_item_expires_after_its_time_to_live",
    ForgetsSoon: "test_an_item_expires_after_its_time_to_live",
    LosesWhatOthersPut: "test_puts_may_be_concurrent",
    NeverStops: "test_search_respects_its_limits_and_returns_copies",
    PutsOffUpdates: "test_search_respects_its_limits_and_returns_copies",
    SharesInSearches: "test_search_respects_its_limits_and_returns_copies",
    FindsWhatOnlyBeginsAlike: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    ListsWhateverTheEnd: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    TakesLabelsAtTheirWord: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    ListsWithoutLimit: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    TakesAnyOperator: "test_an_unknown_operator_is_refused",
    Forgetful: "test_an_item_can_be_read_after_it_was_put",
    Shares: "test_values_are_copies",
    KeepsWhatItIsGiven: "test_values_are_copies",
    Merges: "test_putting_again_replaces_the_value_and_keeps_the_creation_time",
    CreatesAnew: "test_putting_again_replaces_the_value_and_keeps_the_creation_time",
    DeletesNothing: "test_deleting_is_idempotent",
    DeletesOnlyWhatIsThere: "test_deleting_is_idempotent",
    FindsTheFirstFirst: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    FindsEverywhere: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    FindsOnlyRightThere: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    NeverSkips: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    FiltersNothing: "test_search_filters_by_value_and_by_operator",
    KnowsNoOperators: "test_search_filters_by_value_and_by_operator",
    ListsEachAgain: "test_namespaces_are_listed_up_to_a_depth",
    ListsInAnyOrder: "test_namespaces_are_listed_up_to_a_depth",
    ListsThemWhole: "test_namespaces_are_listed_up_to_a_depth",
    ListsThemAll: "test_namespaces_are_listed_up_to_a_depth",
    TakesAnyNamespace: "test_an_invalid_namespace_is_refused",
}


def test_a_store_that_keeps_the_promises_passes() -> None:
    assert broken_promises(InMemoryStore) == set()


@pytest.mark.parametrize(("store", "promise"), BROKEN.items(), ids=[kind.__name__ for kind in BROKEN])
def test_a_store_that_breaks_a_promise_fails_the_test_of_that_promise(store: Make, promise: str) -> None:
    assert promise in broken_promises(store)


def test_every_test_of_the_suite_finds_a_broken_store() -> None:
    tests = {name for name in dir(StoreConformance) if name.startswith("test_")}
    assert tests - set(BROKEN.values()) == set()


def test_a_store_has_to_be_made_by_those_who_derive_the_suite() -> None:
    with pytest.raises(NotImplementedError):
        StoreConformance().make_store()
