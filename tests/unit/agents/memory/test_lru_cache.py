"""A bounded cache."""

from statewright.agents.memory.lru_cache import LRUCache


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache: LRUCache[int] = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]


def test_a_value_may_be_replaced() -> None:
    cache: LRUCache[int] = LRUCache(1)
    cache.put("a", 1)
    cache.put("a", 0)
    assert cache.get("a") == 0
