"""`Topic`: the channel that collects published items, for one superstep or permanently."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Added, Conflict, Overwrite, Topic


@pytest.mark.parametrize(
    ("accumulate", "current", "updates", "new"),
    [
        (False, ["old"], ["a", ["b", "c"]], ["a", "b", "c"]),
        (False, MISSING, ["a"], ["a"]),
        (False, ["old"], [[]], []),
        (False, ["old"], [None, 0, ""], [None, 0, ""]),
        (False, ["old"], [("a", "b")], [("a", "b")]),
        (False, ["old"], [[["a"], "b"]], [["a"], "b"]),
        (False, ["old"], ["a", Overwrite(["z"])], ["z"]),
        (True, ["old"], ["a"], ["old", "a"]),
        (True, MISSING, ["a", ["b"]], ["a", "b"]),
        (True, ["old"], [[]], ["old"]),
        (True, ["old"], [Overwrite([]), "a"], []),
    ],
)
def test_published_items_are_a_list_in_task_order(
    accumulate: bool, current: Any, updates: list[Any], new: list[Any]
) -> None:
    assert Topic(accumulate=accumulate).apply(current, updates) == new


@pytest.mark.parametrize("accumulate", [True, False])
def test_publishing_does_not_change_the_old_list_or_the_updates(accumulate: bool) -> None:
    old, update = ["old"], ["a"]
    new = Topic(accumulate=accumulate).apply(old, [update, "b"])

    assert (old, update) == (["old"], ["a"])
    assert new is not old
    assert new is not update


def test_two_overwrites_conflict() -> None:
    with pytest.raises(Conflict):
        Topic().apply([], [Overwrite([1]), Overwrite([1])])


def test_every_start_value_is_a_new_empty_list() -> None:
    channel = Topic()
    channel.start().append("a")
    assert channel.start() == []


@pytest.mark.parametrize(
    ("accumulate", "updates", "new", "stored"),
    [
        (True, ["a", ["b"]], ["old", "a", "b"], Added(["a", "b"])),
        (True, [[]], ["old"], Added([])),
        (True, ["a", Overwrite(["z"])], ["z"], ["z"]),
        (False, ["a", ["b"]], ["a", "b"], ["a", "b"]),
        (False, [Overwrite(["z"])], ["z"], ["z"]),
    ],
)
def test_the_delta_of_an_accumulating_topic_is_the_added_items(
    accumulate: bool, updates: list[Any], new: list[Any], stored: Any
) -> None:
    assert Topic(accumulate=accumulate).delta(updates, new) == stored


def test_only_an_accumulating_topic_is_not_transient() -> None:
    assert Topic().transient
    assert not Topic(accumulate=True).transient
