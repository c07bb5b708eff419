"""The channels, and what is read into them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.channels import Overwrite
from statewright.errors import InvalidUpdateError
from statewright.state import read_schema
from statewright.workflow.steps.state import InputReader, StateUpdates, StepsState, StepWrites, shallow_merge, state_of


class Ids:
    id = "the task"


CHANNELS = read_schema(StepsState).channels
UPDATES = StateUpdates(CHANNELS, closed=True)
INPUT = InputReader(CHANNELS, closed=True)


def test_merges_are_shallow() -> None:
    old = {"a": {"x": 1}, "b": 1}
    assert shallow_merge(old, {"a": {"y": 2}}) == {"a": {"y": 2}, "b": 1}
    assert old == {"a": {"x": 1}, "b": 1}


def test_the_books_are_shown_to_nobody() -> None:
    assert {name for name, channel in CHANNELS.items() if channel.hidden} == {"visits", "origin"}
    assert CHANNELS["visits"].apply({"a": 1}, [{"b": 1}, {"a": 2}]) == {"a": 2, "b": 1}


def test_the_input_begins_everything_anew() -> None:
    given = {"a": [1]}
    writes = INPUT.read(given, "__start__", Ids())
    given["a"].append(2)
    assert writes["input"] == {"a": [1]}
    assert writes["origin"] == "the task"
    assert all(isinstance(writes[name], Overwrite) and writes[name].value == {} for name in ("state", "visits"))


@pytest.mark.parametrize("given", [None, [], "text", [("a", 1)]])
def test_the_input_is_a_map(given: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="The input of the workflow"):
        INPUT.read(given, "__start__", Ids())


def test_updates_of_steps_and_from_outside() -> None:
    assert UPDATES.read(StepWrites({"a": 1}, {"s": 1}), "s", Ids()) == {"state": {"a": 1}, "visits": {"s": 1}}
    assert UPDATES.read({"a": (1,)}, "s", Ids()) == {"state": {"a": [1]}}
    assert UPDATES.read(None, "s", Ids()) == {}
    with pytest.raises(InvalidUpdateError, match="'__nextStep'"):
        UPDATES.read({"__nextStep": "b"}, "s", Ids())
    with pytest.raises(InvalidUpdateError, match="The update of step 's'"):
        UPDATES.read([1], "s", Ids())


def test_the_state_is_shown_as_a_map_of_its_own() -> None:
    values = {"state": {"a": 1}}
    state_of(values)["b"] = 2
    assert values == {"state": {"a": 1}}
    assert state_of({}) == {}
