"""A map that forgets the oldest."""

from __future__ import annotations

from statewright.observe.bounded import BoundedMap


def test_what_is_taken_is_forgotten() -> None:
    known: BoundedMap[str, int] = BoundedMap()
    known.put("a", 1)
    assert (known.get("a"), known.take("a"), known.take("a"), known.get("a")) == (1, 1, None, None)


def test_the_entry_that_was_put_first_goes() -> None:
    known: BoundedMap[str, int] = BoundedMap(2)
    for number, key in enumerate("abac"):
        known.put(key, number)
    assert [known.get(key) for key in "abc"] == [2, None, 3]
    assert len(known) == 2
