"""The conformance suite of caches: it passes correct caches and detects broken ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from statewright import InMemoryCache
from statewright.cache import CacheKey
from statewright.testing import CacheConformance

Factory = Callable[[], Any]


def broken_promises(factory: Factory) -> set[str]:
    """Name the tests of the suite that a cache fails."""

    class Suite(CacheConformance):
        def make_cache(self) -> Any:
            return factory()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except AssertionError:  # any other error is a mistake in this file
            failed.add(name)
    return failed


class ReturnsFutures(InMemoryCache):
    """Returns futures, as the port allows."""

    def get(self, key: CacheKey) -> Any:
        return _future(super().get(key))

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> Any:
        return _future(super().put(key, value, ttl=ttl))


def _future(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class NeverMisses(InMemoryCache):
    def get(self, key: CacheKey) -> Any:
        result = super().get(key)
        return () if result is None else result


class ConvertsTuplesToLists(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key, list(value), ttl=ttl)


class IgnoresNodes(InMemoryCache):
    def get(self, key: CacheKey) -> Any:
        return super().get(key._replace(node=""))

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key._replace(node=""), value, ttl=ttl)


class KeepsTheFirstResult(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        if self.get(key) is None:
            super().put(key, value, ttl=ttl)


class NeverExpires(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key, value)


class KeepsTheFirstExpiry(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        _, until = self._results.get(key, (None, None))
        super().put(key, value, ttl=ttl)
        if until is not None:
            self._results[key] = (value, until)


class NeverClearsEverything(InMemoryCache):
    def clear(self, nodes: Sequence[str] | None = None) -> None:
        if nodes is not None:
            super().clear(nodes)


class AlwaysClearsEverything(InMemoryCache):
    def clear(self, nodes: Sequence[str] | None = None) -> None:
        super().clear()


class LosesConcurrentPuts(InMemoryCache):
    """Loses the results of one thread."""

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        if key.input != "3":
            super().put(key, value, ttl=ttl)


BROKEN_CACHES: dict[type[InMemoryCache], str] = {
    NeverMisses: "test_a_new_cache_is_empty",
    ConvertsTuplesToLists: "test_a_result_can_be_read_after_it_was_put",
    IgnoresNodes: "test_results_are_separate_by_node_and_input",
    KeepsTheFirstResult: "test_putting_again_replaces_the_result",
    NeverExpires: "test_a_result_expires_after_its_time_to_live",
    KeepsTheFirstExpiry: "test_putting_again_restarts_the_time_to_live",
    NeverClearsEverything: "test_the_cache_can_be_cleared",
    AlwaysClearsEverything: "test_results_of_some_nodes_can_be_cleared",
    LosesConcurrentPuts: "test_calls_may_be_concurrent",
}


@pytest.mark.parametrize("cache", [InMemoryCache, ReturnsFutures])
def test_a_correct_cache_passes(cache: Factory) -> None:
    assert broken_promises(cache) == set()


@pytest.mark.parametrize(("cache", "promise"), BROKEN_CACHES.items(), ids=[kind.__name__ for kind in BROKEN_CACHES])
def test_a_cache_that_breaks_a_promise_fails_its_test(cache: Factory, promise: str) -> None:
    assert promise in broken_promises(cache)


def test_every_test_of_the_suite_detects_a_broken_cache() -> None:
    tests = {name for name in dir(CacheConformance) if name.startswith("test_")}
    assert tests - set(BROKEN_CACHES.values()) == set()


def test_a_subclass_of_the_suite_must_define_make_cache() -> None:
    with pytest.raises(NotImplementedError):
        CacheConformance().make_cache()
