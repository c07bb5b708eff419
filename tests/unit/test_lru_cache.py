"""A cache that keeps the most recently used entries."""

from statewright.lru_cache import LRUCache


def test_the_least_recently_used_entry_is_dropped() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert cache.items() == [("a", 1), ("c", 3)]
    assert cache.get("b") is None
    assert len(cache) == 2


def test_a_replaced_value_counts_as_used() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    for number, key in enumerate("abac"):
        cache.put(key, number)
    assert [cache.get(key) for key in "abc"] == [2, None, 3]


def test_a_popped_entry_is_gone() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    cache.put("a", 1)
    assert (cache.pop("a"), cache.pop("a"), cache.get("a")) == (1, None, None)
