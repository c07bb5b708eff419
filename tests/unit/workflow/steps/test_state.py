"""The channels of a graph of steps, and the values written to them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import Overwrite
from statewright.errors import InvalidUpdateError
from statewright.state import read_schema
from statewright.workflow.steps.state import (
    InputReader,
    StateUpdates,
    StepsState,
    StepWrites,
    get_visible_state,
    shallow_merge,
)


class TaskIds:
    id = "the task"


CHANNELS = read_schema(StepsState).channels
UPDATES = StateUpdates(CHANNELS, closed=True)
INPUT = InputReader(CHANNELS, closed=True)


def test_merge_is_shallow() -> None:
    old = {"a": {"x": 1}, "b": 1}
    assert shallow_merge(old, {"a": {"y": 2}}) == {"a": {"y": 2}, "b": 1}
    assert old == {"a": {"x": 1}, "b": 1}


def test_visits_and_origin_are_hidden() -> None:
    assert {name for name, channel in CHANNELS.items() if channel.hidden} == {"visits", "origin"}
    assert CHANNELS["visits"].apply({"a": 1}, [{"b": 1}, {"a": 2}]) == {"a": 2, "b": 1}


def test_an_input_resets_all_channels() -> None:
    value = {"a": [1]}
    writes = INPUT.read(value, "__start__", TaskIds())
    value["a"].append(2)
    assert writes["input"] == {"a": [1]}
    assert writes["origin"] == "the task"
    assert all(isinstance(writes[name], Overwrite) and writes[name].value == {} for name in ("state", "visits"))


@pytest.mark.parametrize("value", [None, [], "text", [("a", 1)]])
def test_the_input_must_be_a_map(value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="The input of the workflow"):
        INPUT.read(value, "__start__", TaskIds())


def test_updates_of_steps_and_callers_are_read() -> None:
    assert UPDATES.read(StepWrites({"a": 1}, {"s": 1}), "s", TaskIds()) == {"state": {"a": 1}, "visits": {"s": 1}}
    assert UPDATES.read({"a": (1,)}, "s", TaskIds()) == {"state": {"a": [1]}}
    assert UPDATES.read(None, "s", TaskIds()) == {}
    with pytest.raises(InvalidUpdateError, match="'__nextStep'"):
        UPDATES.read({"__nextStep": "b"}, "s", TaskIds())
    with pytest.raises(InvalidUpdateError, match="The update of step 's'"):
        UPDATES.read([1], "s", TaskIds())


def test_state_of_returns_a_copy() -> None:
    values = {"state": {"a": 1}}
    get_visible_state(values)["b"] = 2
    assert values == {"state": {"a": 1}}
    assert get_visible_state({}) == {}
