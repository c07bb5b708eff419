"""`Untracked`: the channel of values that are not saved."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Conflict, Overwrite, Untracked


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("update", [2, 0, None, [], Overwrite])
def test_the_update_of_one_writer_is_the_value(guard: bool, update: Any) -> None:
    assert Untracked(guard=guard).apply(1, [update]) is update


def test_without_a_guard_the_last_writer_in_task_order_wins() -> None:
    assert Untracked(guard=False).apply(1, [2, 3]) == 3
    assert Untracked(guard=False).apply(1, [2, Overwrite(None)]) is None


def test_an_overwrite_is_unpacked() -> None:
    assert Untracked().apply(1, [Overwrite("handle")]) == "handle"


@pytest.mark.parametrize("updates", [[1, 2], [1, 1], [1, Overwrite(1)]])
def test_two_writers_conflict_by_default(updates: list[Any]) -> None:
    with pytest.raises(Conflict, match="guarded"):
        Untracked().apply(MISSING, updates)


def test_the_value_is_not_copied() -> None:
    handle = object()
    assert Untracked().apply(MISSING, [handle]) is handle


def test_an_untracked_value_is_not_saved() -> None:
    assert not Untracked.saved
    assert Untracked().start() is MISSING
