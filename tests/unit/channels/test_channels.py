"""Each channel alone: what a value becomes after the updates of one superstep."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import (
    MISSING,
    AnyValue,
    Append,
    Barrier,
    Channel,
    Conflict,
    Ephemeral,
    LastValue,
    Overwrite,
    Reduced,
    Topic,
    Untracked,
    append,
    overwrite,
)
from statewright.errors import InvalidUpdateError


@pytest.mark.parametrize(
    ("channel", "current", "updates", "new"),
    [
        (LastValue(), 1, [2], 2),
        (LastValue(), 1, [Overwrite(2)], 2),
        (AnyValue(), 1, [2, 3], 3),
        (Untracked(guard=False), 1, [2, 3], 3),
        (Ephemeral(), MISSING, ["a", "b"], "b"),
        (Reduced(lambda old, new: old * 10 + new), 1, [2, 3], 123),
        (Reduced(lambda old, new: old * 10 + new), MISSING, [2, 3], 23),
        (Reduced(lambda old, new: old + new), 1, [5, Overwrite(7), 9], 7),
        (Reduced(lambda old, new: old + new), 1, [{"__overwrite__": 4}], 4),
        (Reduced(lambda old, new: old + new), 1, [{"type": "__overwrite__", "value": 4}], 4),
        (Append(), ["a"], [["b"], "c", ("d",)], ["a", "b", "c", "d"]),
        (Append(items=False), MISSING, [["a"], ["b"]], ["a", "b"]),
        (Append(), ["a"], [Overwrite(["z"]), ["b"]], ["z"]),
        (Topic(), ["old"], ["a", ["b", "c"]], ["a", "b", "c"]),
        (Topic(accumulate=True), ["old"], ["a"], ["old", "a"]),
        (Barrier({"a", "b"}), frozenset(), ["a"], frozenset({"a"})),
        (Barrier({"a", "b"}), frozenset({"a"}), [["b"]], frozenset({"a", "b"})),
        (Barrier({"a", "b"}), frozenset({"a", "b"}), ["a"], frozenset({"a"})),
    ],
)
def test_what_a_value_becomes(channel: Channel, current: Any, updates: list[Any], new: Any) -> None:
    assert channel.apply(current, updates) == new


@pytest.mark.parametrize(
    ("channel", "updates"),
    [
        (LastValue(), [1, 2]),
        (Untracked(), [1, 2]),
        (Ephemeral(guard=True), [1, 2]),
        (Reduced(lambda old, new: old), [Overwrite(1), Overwrite(2)]),
        (Append(), [Overwrite([1]), {"__overwrite__": [2]}]),
    ],
)
def test_updates_that_exclude_each_other_conflict(channel: Channel, updates: list[Any]) -> None:
    with pytest.raises(Conflict):
        channel.apply(MISSING, updates)


@pytest.mark.parametrize(
    ("channel", "current", "update", "said"),
    [
        (Append(items=False), [], "x", r"Write \['x'\]"),
        (Append(), "text", ["x"], "Only a list can be appended to"),
        (Barrier({"anna"}), frozenset(), "ana", "Did you mean 'anna'"),
    ],
)
def test_a_wrong_update_is_an_error_that_says_what_to_do(
    channel: Channel, current: Any, update: Any, said: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=said):
        channel.apply(current, [update])


def test_no_channel_changes_the_value_that_it_was_given() -> None:
    old = ["a"]
    new = Append().apply(old, [["b"]])
    assert (old, new) == (["a"], ["a", "b"])


def test_the_start_value_is_made_afresh() -> None:
    channel = Append(start=list)
    assert channel.start() is not channel.start()
    assert Reduced(max).start() is MISSING


def test_what_was_appended_is_all_that_has_to_be_stored() -> None:
    assert Append().delta([["b"], "c"], ["a", "b", "c"]) == ["b", "c"]
    assert Append().delta([Overwrite(["z"])], ["z"]) == ["z"]
    assert LastValue().delta([2], 2) == 2


def test_channels_are_equal_if_they_merge_alike() -> None:
    assert Reduced(max) == Reduced(max)
    assert Reduced(max) != Reduced(min)
    assert Append() != Topic()


def test_the_reducers_can_be_called_by_hand() -> None:
    assert append(["a"], "b") == ["a", "b"]
    assert append(None, ["b"]) == ["b"]
    assert overwrite(1, 2) == 2
