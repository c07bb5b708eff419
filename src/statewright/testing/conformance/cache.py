"""The conformance suite for caches.

Derive a class from `CacheConformance`, and pytest collects its tests:

    class TestMyCache(CacheConformance):
        def make_cache(self):
            return MyCache()
"""

from __future__ import annotations

import time
from typing import Any

from statewright.cache import Cache, CacheKey
from statewright.futures import resolve
from statewright.testing.conformance.assertions import run_concurrently

KEY = CacheKey("graph/node", "input")
SHORT = 0.01
"""A time to live, in seconds, that ends during a test."""
LONG = 3600.0
"""A time to live, in seconds, that does not end during a test."""


class CacheConformance:
    """The requirements of the port `Cache`, one test each."""

    def make_cache(self) -> Cache:
        """Return a new, empty cache."""
        raise NotImplementedError

    def test_a_new_cache_is_empty(self) -> None:
        assert resolve(self.make_cache().get(KEY)) is None

    def test_a_result_can_be_read_after_it_was_put(self) -> None:
        cache = self.make_cache()
        results: list[Any] = [
            ({"n": 1, "notes": ["a", None], "nested": {"x": 1.5}}, ("b", "c"), None),
            ((None,),),
            (b"bytes", True, "text", -1, ()),
        ]
        for result in results:
            resolve(cache.put(KEY, result))
            assert resolve(cache.get(KEY)) == result

    def test_results_are_separate_by_node_and_input(self) -> None:
        cache = self.make_cache()
        keys = [CacheKey(node, input_hash) for node in ("a", "b", "a/b", "A") for input_hash in ("1", "2", "")]
        for number, key in enumerate(keys):
            resolve(cache.put(key, (number,)))
        assert [resolve(cache.get(key)) for key in keys] == [(number,) for number in range(len(keys))]
        assert resolve(cache.get(CacheKey("a", "3"))) is None

    def test_putting_again_replaces_the_result(self) -> None:
        cache = self.make_cache()
        resolve(cache.put(KEY, (1,)))
        resolve(cache.put(KEY, (2,)))
        assert resolve(cache.get(KEY)) == (2,)

    def test_a_result_expires_after_its_time_to_live(self) -> None:
        cache = self.make_cache()
        long, short, unlimited = (KEY._replace(input=name) for name in ("long", "short", "unlimited"))
        resolve(cache.put(long, (1,), ttl=LONG))
        resolve(cache.put(short, (2,), ttl=SHORT))
        resolve(cache.put(unlimited, (3,)))
        time.sleep(2 * SHORT)
        assert [resolve(cache.get(key)) for key in (long, short, unlimited)] == [(1,), None, (3,)]

    def test_putting_again_restarts_the_time_to_live(self) -> None:
        cache = self.make_cache()
        resolve(cache.put(KEY, (1,), ttl=SHORT))
        resolve(cache.put(KEY, (2,)))
        time.sleep(2 * SHORT)
        assert resolve(cache.get(KEY)) == (2,)
        resolve(cache.put(KEY, (3,), ttl=SHORT))
        time.sleep(2 * SHORT)
        assert resolve(cache.get(KEY)) is None

    def test_the_cache_can_be_cleared(self) -> None:
        cache, other = self.make_cache(), CacheKey("other", "input")
        resolve(cache.clear())
        resolve(cache.put(KEY, (1,)))
        resolve(cache.put(other, (2,), ttl=LONG))
        resolve(cache.clear())
        assert [resolve(cache.get(key)) for key in (KEY, other)] == [None, None]
        resolve(cache.put(KEY, (3,)))
        assert resolve(cache.get(KEY)) == (3,)

    def test_results_of_some_nodes_can_be_cleared(self) -> None:
        cache = self.make_cache()
        keys = [CacheKey(node, input_hash) for node in ("a", "ab", "b") for input_hash in ("1", "2")]
        for key in keys:
            resolve(cache.put(key, (key.node,)))
        resolve(cache.clear([]))
        resolve(cache.clear(["a", "b", "unknown"]))
        assert [key.node for key in keys if resolve(cache.get(key)) is not None] == ["ab", "ab"]

    def test_calls_may_be_concurrent(self) -> None:
        cache = self.make_cache()

        def use(number: int) -> None:
            key = KEY._replace(input=str(number))
            for n in range(10):
                resolve(cache.put(key, (number, n)))
                assert resolve(cache.get(key)) == (number, n)

        assert run_concurrently(4, use) == []
