"""The base class of channels: the missing value, defaults, equality and repr."""

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
    """A custom channel."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        return max([self.floor if current is MISSING else current, *updates])


def test_missing_is_falsy_and_has_a_repr() -> None:
    assert not MISSING
    assert repr(MISSING) == "MISSING"
    assert MISSING is not None


def test_a_conflict_has_a_message() -> None:
    assert str(Conflict("is guarded")) == "is guarded"


def test_a_custom_channel_needs_only_apply() -> None:
    channel = Largest(2)

    assert channel.start() is MISSING
    assert channel.apply(MISSING, [1]) == 2
    assert channel.apply(3, [5, 4]) == 5


def test_a_channel_without_apply_cannot_be_updated() -> None:
    with pytest.raises(NotImplementedError):
        Channel().apply(MISSING, [1])


def test_by_default_the_delta_is_the_new_value_and_updates_are_not_prepared() -> None:
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
def test_channels_have_their_lifetime_and_visibility(
    channel: Channel, single: bool, transient: bool, hidden: bool, saved: bool, prepares: bool
) -> None:
    actual = (channel.single, channel.transient, channel.hidden, channel.saved, channel.prepares)
    assert actual == (single, transient, hidden, saved, prepares)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LastValue(), LastValue()),
        (Reduced(max), Reduced(max)),
        (Reduced(max, start=int), Reduced(max, start=int)),
        (Append(start=list), Append(start=list)),
        (Barrier(["a", "b"]), Barrier({"b", "a"})),
        (Ephemeral(guard=True), Ephemeral(guard=True)),
        (Largest(2), Largest(2)),
    ],
    ids=lambda channel: type(channel).__name__,
)
def test_channels_with_equal_settings_are_equal(first: Channel, second: Channel) -> None:
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1


@pytest.mark.parametrize(
    ("first", "second"),
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
def test_channels_with_different_settings_are_not_equal(first: Channel, second: object) -> None:
    assert first != second


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (LastValue(), "LastValue()"),
        (Topic(), "Topic(accumulate=False, transient=True)"),
        (Append(), "Append(items=True, start=None)"),
        (Ephemeral(guard=True), "Ephemeral(guard=True, lifetime='next')"),
        (Largest(2), "Largest(floor=2)"),
    ],
)
def test_the_repr_of_a_channel_shows_its_settings(channel: Channel, expected: str) -> None:
    assert repr(channel) == expected
