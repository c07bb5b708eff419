"""The conformance suite of stores: it passes correct stores and detects broken ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError, StatewrightError
from statewright.store import InMemoryStore, Item
from statewright.store.model import Namespace, SearchItem
from statewright.testing import StoreConformance

Factory = Callable[[], Any]


def broken_promises(factory: Factory) -> set[str]:
    """Name the tests of the suite that a store fails."""

    class Suite(StoreConformance):
        def make_store(self) -> Any:
            return factory()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except (AssertionError, KeyError, StatewrightError):  # any other error is a mistake in this file
            failed.add(name)
    return failed


class ReadsNothing(InMemoryStore):
    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        return None


class SharesValues(InMemoryStore):
    """Returns the object that it stores."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Any, Any] = {}

    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        item = super().get(namespace, key, **options)
        if item is None:
            return None
        value = self.values.setdefault((namespace, key), item.value)
        return replace(item, value=value)


class StoresTheCallersObject(SharesValues):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **options)
        self.values[namespace, key] = value


class MergesValues(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        old = self.get(namespace, key)
        super().put(namespace, key, {**(old.value if old else {}), **value}, **options)


class ResetsTheCreationTime(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        self.delete(namespace, key)
        super().put(namespace, key, value, **options)


class DeletesNothing(InMemoryStore):
    def delete(self, namespace: Namespace, key: str) -> None:
        pass


class FailsToDeleteMissingItems(InMemoryStore):
    def delete(self, namespace: Namespace, key: str) -> None:
        if self.get(namespace, key) is None:
            raise KeyError(key)
        super().delete(namespace, key)


class FindsOldestFirst(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        return super().search(prefix, limit=1000, **options)[::-1][offset : offset + limit]


class FindsEverywhere(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        return super().search((), **options)


class IgnoresNestedNamespaces(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        return [item for item in super().search(prefix, **options) if item.namespace == prefix]


class IgnoresOffsets(InMemoryStore):
    def search(self, prefix: Namespace, *, offset: int = 0, **options: Any) -> list[SearchItem]:
        return super().search(prefix, **options)


class IgnoresLimits(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, **options: Any) -> list[SearchItem]:
        return super().search(prefix, limit=1000, **options)


class IgnoresFilters(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        return super().search(prefix, **options)


class IgnoresOperators(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        items = super().search(prefix, **options)
        return [item for item in items if all(item.value.get(key) == value for key, value in (filter or {}).items())]


class ListsDuplicates(InMemoryStore):
    def list_namespaces(self, *, max_depth: int | None = None, **options: Any) -> list[Namespace]:
        return [namespace[:max_depth] for namespace in super().list_namespaces(**options)]


class ListsInReverseOrder(InMemoryStore):
    def list_namespaces(self, **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)[::-1]


class IgnoresTheMaximumDepth(InMemoryStore):
    def list_namespaces(self, *, max_depth: int | None = None, **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class IgnoresThePrefix(InMemoryStore):
    def list_namespaces(self, *, prefix: Namespace = (), **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class AcceptsAnyNamespace(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        try:
            super().put(namespace, key, value, **options)
        except InvalidUpdateError:
            super().put(("any",), key, value, **options)


class KeepsTheOrderOfCreation(InMemoryStore):
    """An updated item keeps its position in the order of updates."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        keys = list(self._entries)
        super().put(namespace, key, value, **options)
        entries = {entry: self._entries[entry] for entry in keys if entry in self._entries}
        self._entries = {**entries, **self._entries}


class MatchesPartsOfLabels(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        items = super().search((), limit=1000, **options)
        matches = [item for item in items if ".".join(item.namespace).startswith(".".join(prefix))]
        return matches[offset : offset + limit]


class IgnoresTheSuffix(InMemoryStore):
    def list_namespaces(self, *, suffix: Namespace = (), **options: Any) -> list[Namespace]:
        return super().list_namespaces(**options)


class TakesWildcardsLiterally(InMemoryStore):
    def list_namespaces(self, *, prefix: Namespace = (), **options: Any) -> list[Namespace]:
        return [] if "*" in prefix else super().list_namespaces(prefix=prefix, **options)


class IgnoresTheLimitOfNamespaces(InMemoryStore):
    def list_namespaces(self, *, limit: int = 100, offset: int = 0, **options: Any) -> list[Namespace]:
        return super().list_namespaces(limit=1000, **options)


class AcceptsAnyOperator(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        try:
            return super().search(prefix, **options)
        except InvalidUpdateError:
            return []


class SharesValuesInSearches(InMemoryStore):
    def search(self, prefix: Namespace, **options: Any) -> list[SearchItem]:
        items = super().search(prefix, **options)
        return [replace(item, value=self._entries[item.namespace, item.key].item.value) for item in items]


class StoresRejectedItems(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(tuple(label.replace(".", "") or "none" for label in namespace) or ("none",), key, value, **options)
        super().put(namespace, key, value, **options)


class RoundsBigIntegers(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        numbers = [float(n) for n in value.get("numbers", ())]
        super().put(namespace, key, {**value, "numbers": numbers} if numbers else value, **options)


class DropsTimeZones(InMemoryStore):
    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        item = super().get(namespace, key, **options)
        return item and replace(item, created_at=item.created_at.replace(tzinfo=None))


class IgnoresNamespacesOfKeys(InMemoryStore):
    """A key can exist in one namespace only."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        for item in self.search((), limit=1000):
            if item.key == key:
                self.delete(item.namespace, key)
        super().put(namespace, key, value, **options)


class IgnoresCase(InMemoryStore):
    def search(self, prefix: Namespace, *, limit: int = 10, offset: int = 0, **options: Any) -> list[SearchItem]:
        lowered = tuple(label.lower() for label in prefix)
        items = super().search((), limit=1000, **options)
        matches = [item for item in items if tuple(map(str.lower, item.namespace[: len(prefix)])) == lowered]
        return matches[offset : offset + limit]


class SplitsLabelsAtDots(InMemoryStore):
    def get(self, namespace: Namespace, key: str, **options: Any) -> Item | None:
        return super().get(tuple(".".join(namespace).split(".")), key, **options)


class ListsFormerNamespaces(InMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.used: set[Namespace] = set()

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **options)
        self.used.add(namespace)

    def list_namespaces(self, **options: Any) -> list[Namespace]:
        return sorted(self.used)


class LimitsBeforeFiltering(InMemoryStore):
    def search(self, prefix: Namespace, *, filter: Any = None, **options: Any) -> list[SearchItem]:  # noqa: A002
        selected = {(item.namespace, item.key) for item in super().search(prefix, **options)}
        items = super().search(prefix, filter=filter, limit=1000)
        return [item for item in items if (item.namespace, item.key) in selected]


class AcceptsAnyQuery(InMemoryStore):
    def search(self, prefix: Namespace, *, query: Any = None, **options: Any) -> list[SearchItem]:
        return super().search(prefix, **options)


class NeverExpires(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **{**options, "ttl": None})


class ExpiresTooSoon(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key, value, **{**options, "ttl": 0.01})


class LosesConcurrentPuts(InMemoryStore):
    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        if "/" in key and not key.startswith("0"):
            return
        super().put(namespace, key, value, **options)


class IgnoresNullCharacters(InMemoryStore):
    """Accepts keys that not every database can store, without their null characters."""

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any], **options: Any) -> None:
        super().put(namespace, key.replace("\0", ""), value, **options)


BROKEN_STORES: dict[type[InMemoryStore], str] = {
    StoresRejectedItems: "test_a_refused_item_is_not_stored",
    RoundsBigIntegers: "test_values_are_read_as_they_were_written",
    DropsTimeZones: "test_an_item_has_its_creation_and_update_times",
    IgnoresNamespacesOfKeys: "test_a_key_may_exist_in_several_namespaces",
    IgnoresCase: "test_names_are_compared_exactly",
    SplitsLabelsAtDots: "test_an_invalid_namespace_contains_nothing",
    ListsFormerNamespaces: "test_a_namespace_exists_while_it_contains_an_item",
    LimitsBeforeFiltering: "test_limits_apply_after_filtering",
    AcceptsAnyQuery: "test_a_query_without_an_index_is_refused",
    NeverExpires: "test_an_item_expires_after_its_time_to_live",
    ExpiresTooSoon: "test_an_item_expires_after_its_time_to_live",
    LosesConcurrentPuts: "test_puts_may_be_concurrent",
    IgnoresLimits: "test_search_respects_its_limits_and_returns_copies",
    KeepsTheOrderOfCreation: "test_search_respects_its_limits_and_returns_copies",
    SharesValuesInSearches: "test_search_respects_its_limits_and_returns_copies",
    MatchesPartsOfLabels: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    IgnoresTheSuffix: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    TakesWildcardsLiterally: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    IgnoresTheLimitOfNamespaces: "test_a_prefix_matches_whole_labels_and_may_contain_wildcards",
    AcceptsAnyOperator: "test_an_unknown_operator_is_refused",
    ReadsNothing: "test_an_item_can_be_read_after_it_was_put",
    SharesValues: "test_values_are_copies",
    StoresTheCallersObject: "test_values_are_copies",
    MergesValues: "test_putting_again_replaces_the_value_and_keeps_the_creation_time",
    ResetsTheCreationTime: "test_putting_again_replaces_the_value_and_keeps_the_creation_time",
    DeletesNothing: "test_deleting_is_idempotent",
    FailsToDeleteMissingItems: "test_deleting_is_idempotent",
    FindsOldestFirst: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    FindsEverywhere: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    IgnoresNestedNamespaces: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    IgnoresOffsets: "test_search_returns_the_items_under_a_prefix_last_updated_first",
    IgnoresFilters: "test_search_filters_by_value_and_by_operator",
    IgnoresOperators: "test_search_filters_by_value_and_by_operator",
    ListsDuplicates: "test_namespaces_are_listed_up_to_a_depth",
    ListsInReverseOrder: "test_namespaces_are_listed_up_to_a_depth",
    IgnoresTheMaximumDepth: "test_namespaces_are_listed_up_to_a_depth",
    IgnoresThePrefix: "test_namespaces_are_listed_up_to_a_depth",
    AcceptsAnyNamespace: "test_an_invalid_namespace_is_refused",
    IgnoresNullCharacters: "test_a_null_character_in_a_key_is_refused",
}


def test_a_correct_store_passes() -> None:
    assert broken_promises(InMemoryStore) == set()


@pytest.mark.parametrize(("store", "promise"), BROKEN_STORES.items(), ids=[kind.__name__ for kind in BROKEN_STORES])
def test_a_store_that_breaks_a_promise_fails_its_test(store: Factory, promise: str) -> None:
    assert promise in broken_promises(store)


def test_every_test_of_the_suite_detects_a_broken_store() -> None:
    tests = {name for name in dir(StoreConformance) if name.startswith("test_")}
    assert tests - set(BROKEN_STORES.values()) == set()


def test_a_subclass_of_the_suite_must_define_make_store() -> None:
    with pytest.raises(NotImplementedError):
        StoreConformance().make_store()
