"""What every cache must do: derive from the suite, say how to make yours, and let pytest collect it.

class TestMyCache(CacheConformance):
    def make_cache(self):
        return MyCache()
"""

from __future__ import annotations

import threading
import time
from typing import Any

from statewright.cache import Cache, CacheKey
from statewright.testing.checkpointer_conformance import answer

KEY = CacheKey("graph/node", "input")
SHORT = 0.01
"""Seconds of a time that is over soon."""
LONG = 3600.0


class CacheConformance:
    """The promises of the port, one test each."""

    def make_cache(self) -> Cache:
        """A new, empty cache."""
        raise NotImplementedError

    def test_nothing_is_there_at_first(self) -> None:
        assert answer(self.make_cache().get(KEY)) is None

    def test_what_is_put_is_there(self) -> None:
        cache = self.make_cache()
        results: list[Any] = [
            ({"n": 1, "notes": ["a", None], "nested": {"x": 1.5}}, ("b", "c"), None),
            ((None,),),
            (b"bytes", True, "text", -1, ()),
        ]
        for result in results:
            answer(cache.put(KEY, result))
            assert answer(cache.get(KEY)) == result

    def test_each_node_and_each_input_has_a_result_of_its_own(self) -> None:
        cache = self.make_cache()
        keys = [CacheKey(node, given) for node in ("a", "b", "a/b", "A") for given in ("1", "2", "")]
        for number, key in enumerate(keys):
            answer(cache.put(key, (number,)))
        assert [answer(cache.get(key)) for key in keys] == [(number,) for number in range(len(keys))]
        assert answer(cache.get(CacheKey("a", "3"))) is None

    def test_putting_again_replaces(self) -> None:
        cache = self.make_cache()
        answer(cache.put(KEY, (1,)))
        answer(cache.put(KEY, (2,)))
        assert answer(cache.get(KEY)) == (2,)

    def test_a_result_is_there_for_its_time(self) -> None:
        cache = self.make_cache()
        short, other = KEY._replace(input="short"), KEY._replace(input="other")
        answer(cache.put(KEY, (1,), ttl=LONG))
        answer(cache.put(short, (2,), ttl=SHORT))
        answer(cache.put(other, (3,)))
        time.sleep(2 * SHORT)
        assert [answer(cache.get(key)) for key in (KEY, short, other)] == [(1,), None, (3,)]

    def test_putting_again_begins_the_time_anew(self) -> None:
        cache = self.make_cache()
        answer(cache.put(KEY, (1,), ttl=SHORT))
        answer(cache.put(KEY, (2,)))
        time.sleep(2 * SHORT)
        assert answer(cache.get(KEY)) == (2,)
        answer(cache.put(KEY, (3,), ttl=SHORT))
        time.sleep(2 * SHORT)
        assert answer(cache.get(KEY)) is None

    def test_everything_can_be_forgotten(self) -> None:
        cache, other = self.make_cache(), CacheKey("other", "input")
        answer(cache.clear())
        answer(cache.put(KEY, (1,)))
        answer(cache.put(other, (2,), ttl=LONG))
        answer(cache.clear())
        assert [answer(cache.get(key)) for key in (KEY, other)] == [None, None]
        answer(cache.put(KEY, (3,)))
        assert answer(cache.get(KEY)) == (3,)

    def test_what_some_nodes_answered_can_be_forgotten(self) -> None:
        cache = self.make_cache()
        keys = [CacheKey(node, given) for node in ("a", "ab", "b") for given in ("1", "2")]
        for key in keys:
            answer(cache.put(key, (key.node,)))
        answer(cache.clear([]))
        answer(cache.clear(["a", "b", "unknown"]))
        assert [key.node for key in keys if answer(cache.get(key)) is not None] == ["ab", "ab"]

    def test_several_threads_may_use_it_at_once(self) -> None:
        cache, together, failed = self.make_cache(), threading.Barrier(4), list[BaseException]()

        def use(number: int) -> None:
            key = KEY._replace(input=str(number))
            together.wait()
            try:
                for n in range(10):
                    answer(cache.put(key, (number, n)))
                    assert answer(cache.get(key)) == (number, n)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
