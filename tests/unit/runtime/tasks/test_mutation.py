"""Detecting changes of the state in place."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from statewright.runtime.tasks.inputs import changed_channels, take_snapshot

pydantic = pytest.importorskip("pydantic")


@dataclass
class Record:
    items: list[int] = field(default_factory=list)


class Model(pydantic.BaseModel):
    items: list[int] = []


class Opaque:
    def __init__(self) -> None:
        self.items = [1]


Change = Callable[[Any], object]


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, 2], lambda v: v.append(3)),
        ([1, 2], lambda v: v.reverse()),
        ([1, 2], lambda v: v.clear()),
        ([[1], [2]], lambda v: v[1].append(3)),
        ({"a": 1}, lambda v: v.update(a=2)),
        ({"a": 1}, lambda v: v.update(b=2)),
        ({"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
        ({1, 2}, lambda v: v.add(3)),
        (([1],), lambda v: v[0].append(2)),
        (Record([1]), lambda v: v.items.append(2)),
        (Record([1]), lambda v: setattr(v, "items", [2])),
        (Model(items=[1]), lambda v: v.items.append(2)),
        (Model(items=[1]), lambda v: setattr(v, "items", [2])),
        ([Opaque()], lambda v: v.__setitem__(0, Opaque())),
        ([1], lambda v: v.__setitem__(0, "1")),
    ],
)
def test_changed_channels_detects_a_change_in_place(value: Any, change: Change) -> None:
    values = {"same": [0], "changed": value}
    before = take_snapshot(values)
    change(value)

    assert changed_channels(before, values) == ["changed"]


@pytest.mark.parametrize(
    "value",
    [None, 1, "text", b"bytes", [1, [2]], {"a": (1,)}, {1}, frozenset({1}), Record([1]), Model(items=[1]), Opaque()],
)
def test_an_unchanged_value_is_not_reported(value: Any) -> None:
    values = {"x": value}
    before = take_snapshot(values)

    assert changed_channels(before, values) == changed_channels(take_snapshot(values), values) == []


def test_nan_is_not_reported_as_changed() -> None:
    values = {"x": float("nan"), "inside": [float("nan")]}

    assert changed_channels(take_snapshot(values), values) == []


def test_changes_inside_opaque_objects_are_not_detected() -> None:
    value = Opaque()
    before = take_snapshot({"x": value})
    value.items.append(2)

    assert changed_channels(before, {"x": value}) == []


def test_a_value_that_contains_itself_can_be_compared() -> None:
    value: list[Any] = [1]
    value.append(value)
    before = take_snapshot({"x": value})

    assert changed_channels(before, {"x": value}) == []
    value.append(2)
    assert changed_channels(before, {"x": value}) == ["x"]


def test_added_and_removed_channels_are_not_reported() -> None:
    before = take_snapshot({"removed": [1], "kept": [1]})

    assert changed_channels(before, {"kept": [1], "new": [1]}) == []


def test_changed_channels_are_in_the_order_of_the_state() -> None:
    values = {"z": [1], "a": [1], "m": [1]}
    before = take_snapshot(values)
    for name in ("m", "z"):
        values[name].append(2)

    assert changed_channels(before, values) == ["z", "m"]
