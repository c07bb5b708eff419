"""The suite for caches: it passes caches that keep the promises of the port, and finds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from statewright import InMemoryCache
from statewright.cache import CacheKey
from statewright.testing import CacheConformance

Make = Callable[[], Any]


def broken_promises(make: Make) -> set[str]:
    """The names of the tests of the suite that a cache fails."""

    class Suite(CacheConformance):
        def make_cache(self) -> Any:
            return make()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except AssertionError:  # anything else is a mistake of this file
            failed.add(name)
    return failed


class AnswersLater(InMemoryCache):
    """Gives futures, as the port allows."""

    def get(self, key: CacheKey) -> Any:
        return _future(super().get(key))

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> Any:
        return _future(super().put(key, value, ttl=ttl))


def _future(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class AlwaysKnows(InMemoryCache):
    def get(self, key: CacheKey) -> Any:
        found = super().get(key)
        return () if found is None else found


class KnowsNoTuples(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key, list(value), ttl=ttl)


class KnowsInputsAlone(InMemoryCache):
    def get(self, key: CacheKey) -> Any:
        return super().get(key._replace(node=""))

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key._replace(node=""), value, ttl=ttl)


class KeepsTheFirst(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        if self.get(key) is None:
            super().put(key, value, ttl=ttl)


class KeepsForEver(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        super().put(key, value)


class KeepsTheFirstEnd(InMemoryCache):
    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        _, until = self._results.get(key, (None, None))
        super().put(key, value, ttl=ttl)
        if until is not None:
            self._results[key] = (value, until)


class ForgetsNothing(InMemoryCache):
    def clear(self, nodes: Sequence[str] | None = None) -> None:
        if nodes is not None:
            super().clear(nodes)


class ForgetsEverything(InMemoryCache):
    def clear(self, nodes: Sequence[str] | None = None) -> None:
        super().clear()


class KnowsOneThread(InMemoryCache):
    """What a second thread puts is lost."""

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        if key.input != "3":
            super().put(key, value, ttl=ttl)


BROKEN: dict[type[InMemoryCache], str] = {
    AlwaysKnows: "test_a_new_cache_is_empty",
    KnowsNoTuples: "test_a_result_can_be_read_after_it_was_put",
    KnowsInputsAlone: "test_results_are_separate_by_node_and_input",
    KeepsTheFirst: "test_putting_again_replaces_the_result",
    KeepsForEver: "test_a_result_expires_after_its_time_to_live",
    KeepsTheFirstEnd: "test_putting_again_restarts_the_time_to_live",
    ForgetsNothing: "test_the_cache_can_be_cleared",
    ForgetsEverything: "test_results_of_some_nodes_can_be_cleared",
    KnowsOneThread: "test_calls_may_be_concurrent",
}


@pytest.mark.parametrize("cache", [InMemoryCache, AnswersLater])
def test_a_cache_that_keeps_the_promises_passes(cache: Make) -> None:
    assert broken_promises(cache) == set()


@pytest.mark.parametrize(("cache", "promise"), BROKEN.items(), ids=[kind.__name__ for kind in BROKEN])
def test_a_cache_that_breaks_a_promise_fails_the_test_of_that_promise(cache: Make, promise: str) -> None:
    assert promise in broken_promises(cache)


def test_every_test_of_the_suite_finds_a_broken_cache() -> None:
    tests = {name for name in dir(CacheConformance) if name.startswith("test_")}
    assert tests - set(BROKEN.values()) == set()


def test_a_cache_has_to_be_made_by_those_who_derive_the_suite() -> None:
    with pytest.raises(NotImplementedError):
        CacheConformance().make_cache()
