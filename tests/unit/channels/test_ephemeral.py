"""`Ephemeral`: the channel of values that last for one superstep."""

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
def test_the_last_writer_in_task_order_wins(current: Any, updates: list[Any], new: Any) -> None:
    assert Ephemeral().apply(current, updates) == new


def test_with_a_guard_only_one_writer_is_allowed() -> None:
    channel = Ephemeral(guard=True)

    assert channel.apply("old", ["a"]) == "a"
    with pytest.raises(Conflict, match="guarded"):
        channel.apply(MISSING, ["a", "a"])


def test_the_lifetime_is_the_next_superstep_by_default() -> None:
    assert Ephemeral().lifetime == "next"
    assert Ephemeral(lifetime="step").lifetime == "step"


def test_an_ephemeral_value_is_hidden_from_results_and_saved() -> None:
    channel = Ephemeral()
    assert (channel.transient, channel.hidden, channel.saved) == (True, True, True)
    assert channel.start() is MISSING
