"""The channel of signals: there in the next superstep, and then gone."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, Ephemeral, Overwrite


@pytest.mark.parametrize(
    ("current", "updates", "new"),
    [
        (MISSING, ["a"], "a"),
        (MISSING, ["a", "b"], "b"),
        ("old", ["a"], "a"),
        ("old", ["a", None], None),
        ("old", [0], 0),
        ("old", ["a", Overwrite("b")], "b"),
        ("old", [Overwrite("a"), "b"], "b"),
    ],
)
def test_of_several_writers_the_last_in_task_order_wins(current: Any, updates: list[Any], new: Any) -> None:
    assert Ephemeral().apply(current, updates) == new


def test_with_a_guard_two_writers_conflict_and_one_does_not() -> None:
    channel = Ephemeral(guard=True)

    assert channel.apply("old", ["a"]) == "a"
    with pytest.raises(Conflict, match="guarded"):
        channel.apply(MISSING, ["a", "a"])


def test_it_is_cleared_after_the_next_superstep_unless_told_otherwise() -> None:
    assert Ephemeral().lifetime == "next"
    assert Ephemeral(lifetime="step").lifetime == "step"


def test_it_is_hidden_from_results_and_still_saved() -> None:
    channel = Ephemeral()
    assert (channel.transient, channel.hidden, channel.saved) == (True, True, True)
    assert channel.start() is MISSING
