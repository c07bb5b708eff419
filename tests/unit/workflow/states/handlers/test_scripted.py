"""Outputs from a script."""

from types import SimpleNamespace
from typing import Any

import pytest

from statewright.errors import InvalidConfig, ModelError
from statewright.workflow.states.handlers.scripted import check_script, fill_item_fields, select_output


def call(item: Any = None, *, has_item: bool = True) -> Any:
    return SimpleNamespace(item=item, has_item=has_item)


@pytest.mark.parametrize(
    ("script", "number", "item", "output"),
    [
        ("x", 5, None, "x"),
        (["a", "b"], 0, None, "a"),
        (["a", "b"], 1, None, "b"),
        (["a", "b"], 7, None, "b"),
        ({"i": "x", "j": "y"}, 0, "j", "y"),
        ({"1": "x"}, 0, 1, "x"),
        ({'{"n": 1}': "x"}, 0, {"n": 1}, "x"),
        ({'{"n":1}': "x"}, 0, {"n": 1}, "x"),
        ({"null": "x"}, 0, None, "x"),
        ({"i": ["a", "b"]}, 1, "i", "b"),
    ],
)
def test_outputs_are_selected_by_call_and_item(script: Any, number: int, item: Any, output: str) -> None:
    assert select_output("s", script, number, call(item)) == output


@pytest.mark.parametrize("script", [[], {"i": "x"}, {}])
def test_a_missing_output_is_an_error_that_names_the_state(script: Any) -> None:
    with pytest.raises(ModelError, match="'s'"):
        select_output("s", script, 0, call("k"))


@pytest.mark.parametrize(
    ("output", "item", "expected"),
    [
        ("do $item.", "x", "do x."),
        ("$n and $m", {"n": 1}, "1 and $m"),
        ("$item", {"n": 1}, '{"n": 1}'),
        ("$item", {"item": "own"}, "own"),
        ("costs $5", "x", "costs $5"),
        ("$item", "$item", "$item"),
    ],
)
def test_fields_of_the_item_are_filled_in_once(output: str, item: Any, expected: str) -> None:
    assert fill_item_fields(output, call(item)) == expected


def test_nothing_is_filled_in_outside_iterations() -> None:
    assert fill_item_fields("$item", call(has_item=False)) == "$item"


def test_a_script_maps_states_and_summaries_to_texts() -> None:
    check_script({"s": "x", "summary": ["y"], "final_summary": {"i": ["z"]}}, ["s"])
    with pytest.raises(InvalidConfig, match="'t'"):
        check_script({"t": "x"}, ["s"])
    for outputs in (5, None, ["x", 5], {"i": {"j": 1}}):
        with pytest.raises(InvalidConfig, match="'s'"):
            check_script({"s": outputs}, ["s"])
