"""`Append`: the channel of growing lists."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import MISSING, Added, Append, Conflict, Overwrite, apply_change
from statewright.errors import InvalidUpdateError


@pytest.mark.parametrize(
    ("current", "updates", "new"),
    [
        (["a"], [["b"], "c", ("d",)], ["a", "b", "c", "d"]),
        (MISSING, ["a"], ["a"]),
        (MISSING, [["a", "b"]], ["a", "b"]),
        (["a"], [[]], ["a"]),
        (["a"], [()], ["a"]),
        ([], [None, 0, "", False], [None, 0, "", False]),
        ([], [{"k": 1}], [{"k": 1}]),
        ([], [{1}], [{1}]),
        ([], [[["b"]], (("c",),)], [["b"], ("c",)]),
        (["a"], [Overwrite(["z"]), ["b"]], ["z"]),
        (["a"], [["b"], {"__overwrite__": []}], []),
    ],
)
def test_updates_are_appended_in_task_order(current: Any, updates: list[Any], new: list[Any]) -> None:
    assert Append().apply(current, updates) == new


@pytest.mark.parametrize(
    ("current", "updates", "new"),
    [(MISSING, [["a"], ["b"]], ["a", "b"]), (["a"], [("b",), []], ["a", "b"]), (["a"], [Overwrite(["z"])], ["z"])],
)
def test_without_items_updates_are_lists(current: Any, updates: list[Any], new: list[Any]) -> None:
    assert Append(items=False).apply(current, updates) == new


@pytest.mark.parametrize("update", ["x", 3, None, {"a": 1}, {1}])
def test_without_items_a_bare_item_is_refused_with_advice(update: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"accepts only lists of items, found .* Write \["):
        Append(items=False).apply([], [update])


@pytest.mark.parametrize("current", ["text", None, ("a",), 3, {"a": 1}])
def test_only_a_list_can_be_appended_to(current: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="Only a list can be appended to, but the current value is"):
        Append().apply(current, ["x"])


@pytest.mark.parametrize("updates", [[Overwrite([1]), {"__overwrite__": [2]}], [Overwrite([1]), Overwrite([1])]])
def test_two_overwrites_conflict(updates: list[Any]) -> None:
    with pytest.raises(Conflict):
        Append().apply(MISSING, updates)


@pytest.mark.parametrize("updates", [[["b"]], [[]], ["b"]])
def test_appending_does_not_change_the_old_list(updates: list[Any]) -> None:
    old = ["a"]
    new = Append().apply(old, updates)

    new.append("later")
    assert old == ["a"]


def test_a_written_list_is_not_changed_by_later_updates() -> None:
    written = ["a"]
    new = Append().apply(MISSING, [written, ["b"]])

    assert (written, new) == (["a"], ["a", "b"])


@pytest.mark.parametrize(("start", "value"), [(None, []), (list, []), (lambda: ["first"], ["first"])])
def test_every_start_value_is_a_new_list(start: Any, value: list[Any]) -> None:
    channel = Append(start=start)
    assert channel.start() == value
    assert channel.start() is not channel.start()


@pytest.mark.parametrize(
    ("updates", "new", "stored"),
    [
        ([["b"], "c"], ["a", "b", "c"], Added(["b", "c"])),
        ([("b",)], ["a", "b"], Added(["b"])),
        ([[]], ["a"], Added([])),
        ([Overwrite(["z"])], ["z"], ["z"]),
        ([["b"], Overwrite(["z"])], ["z"], ["z"]),
        ([["b"], {"__overwrite__": []}], [], []),
    ],
)
def test_the_delta_is_the_appended_items_or_the_overwrite(updates: list[Any], new: list[Any], stored: Any) -> None:
    assert Append().delta(updates, new) == stored


def test_applying_the_delta_restores_the_value() -> None:
    channel, old, updates = Append(), [1], [[2], 3, (4,)]
    new = channel.apply(old, updates)

    assert apply_change(old, channel.delta(updates, new)) == new == [1, 2, 3, 4]
