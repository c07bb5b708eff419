"""What all channels have in common: a missing value, equality, and settings that can be read."""

from __future__ import annotations

from collections.abc import Sequence
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
    Messages,
    Reduced,
    Topic,
    Untracked,
)


class Largest(Channel):
    """A channel as a user would write it."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        return max([self.floor if current is MISSING else current, *updates])


def test_missing_is_falsy_and_names_itself() -> None:
    assert not MISSING
    assert repr(MISSING) == "MISSING"
    assert MISSING is not None


def test_a_conflict_is_an_exception_that_says_why() -> None:
    assert str(Conflict("is guarded")) == "is guarded"


def test_a_channel_of_ones_own_needs_no_more_than_apply() -> None:
    channel = Largest(2)

    assert channel.start() is MISSING
    assert channel.apply(MISSING, [1]) == 2
    assert channel.apply(3, [5, 4]) == 5


def test_a_channel_without_apply_cannot_be_written() -> None:
    with pytest.raises(NotImplementedError):
        Channel().apply(MISSING, [1])


def test_unless_a_channel_says_otherwise_the_new_value_is_stored_and_updates_stay_as_they_are() -> None:
    channel, update = Largest(), object()

    assert channel.delta([1, 2], 9) == 9
    assert channel.prepare(update, "task") is update
    assert not channel.prepares


@pytest.mark.parametrize(
    ("channel", "single", "transient", "hidden", "saved", "prepares"),
    [
        (Largest(), False, False, False, True, False),
        (LastValue(), True, False, False, True, False),
        (AnyValue(), False, False, False, True, False),
        (Append(), False, False, False, True, False),
        (Reduced(max), False, False, False, True, False),
        (Barrier({"a"}), False, False, False, True, False),
        (Topic(), False, True, False, True, False),
        (Topic(accumulate=True), False, False, False, True, False),
        (Ephemeral(), False, True, True, True, False),
        (Untracked(), False, False, False, False, False),
        (Messages(), False, False, False, True, True),
    ],
    ids=repr,
)
def test_how_long_and_for_whom_a_value_is_there(
    channel: Channel, single: bool, transient: bool, hidden: bool, saved: bool, prepares: bool
) -> None:
    found = (channel.single, channel.transient, channel.hidden, channel.saved, channel.prepares)
    assert found == (single, transient, hidden, saved, prepares)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LastValue(), LastValue()),
        (Reduced(max), Reduced(max)),
        (Reduced(max, start=int), Reduced(max, start=int)),
        (Append(start=list), Append(start=list)),
        (Barrier(["a", "b"]), Barrier({"b", "a"})),
        (Ephemeral(guard=True), Ephemeral(guard=True)),
        (Largest(2), Largest(2)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_channels_are_equal_if_they_merge_alike(one: Channel, other: Channel) -> None:
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Reduced(max), Reduced(min)),
        (Reduced(max), Reduced(max, start=int)),
        (Append(), Topic()),
        (Append(), Append(items=False)),
        (LastValue(), AnyValue()),
        (Untracked(), Untracked(guard=False)),
        (Ephemeral(), Ephemeral(lifetime="step")),
        (Barrier({"a"}), Barrier({"b"})),
        (Largest(2), Largest(3)),
        (LastValue(), "LastValue()"),
        (LastValue(), None),
    ],
    ids=repr,
)
def test_channels_that_merge_differently_are_not_equal(one: Channel, other: object) -> None:
    assert one != other


@pytest.mark.parametrize(
    ("channel", "shown"),
    [
        (LastValue(), "LastValue()"),
        (Topic(), "Topic(accumulate=False, transient=True)"),
        (Append(), "Append(items=True, start=None)"),
        (Ephemeral(guard=True), "Ephemeral(guard=True, lifetime='next')"),
        (Largest(2), "Largest(floor=2)"),
    ],
)
def test_a_channel_shows_its_kind_and_its_settings(channel: Channel, shown: str) -> None:
    assert repr(channel) == shown
