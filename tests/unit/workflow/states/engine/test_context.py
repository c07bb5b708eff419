"""2.2: what a visit makes of the context. The rows of the matrix are in `tests/semantics/test_states_context.py`."""

from typing import Any

import pytest

from statewright.workflow.states.engine.context import (
    append_values,
    apply_visit,
    extract_updates,
    format_input,
    make_initial_context,
)
from statewright.workflow.states.engine.visit import Effects, Visit
from statewright.workflow.states.expressions.output import parse_output


def visit(output: Any, *, merges_item: bool = False, **effects: Any) -> Visit:
    return Visit("1.0", "s", output, merges_item=merges_item, effects=Effects(**effects))


def test_2_2_a_result_replaces_the_values_of_its_keys_as_a_whole() -> None:
    assert apply_visit({"a": {"x": 1}, "b": 1}, visit('{"a": {"y": 2}}'), None) == {"a": {"y": 2}, "b": 1}


def test_no_context_is_changed_in_place() -> None:
    before = {"k": [1], "u": 1}
    for effects in ({}, {"append": True}, {"clear": True}, {"reset": ("u",)}, {"output_key": "k"}):
        apply_visit(before, visit('{"k": 2}', **effects), None)
    assert before == {"k": [1], "u": 1}


def test_2_6_an_item_fills_the_context_before_the_output_does() -> None:
    item = {"n": 1, "k": "item"}
    assert apply_visit({}, visit('{"k": "output"}', merges_item=True), item) == {"n": 1, "k": "output"}
    assert apply_visit({}, visit("words", merges_item=False), item) == {}
    assert apply_visit({}, visit("words", merges_item=True), "no map") == {}


def test_2_2_of_a_list_its_maps_are_news_unless_it_is_split() -> None:
    result = [{"a": 1}, 5, {"a": 2, "b": 3}]
    assert extract_updates(result) == {"a": 2, "b": 3}
    assert extract_updates(result, splits=True) == {}
    assert extract_updates({"a": 1}, splits=True) == {"a": 1}


def test_2_7_an_output_that_is_no_text_is_its_own_result() -> None:
    assert parse_output({"a": "1"}) == {"a": "1"}
    assert parse_output('{"a": "1"}') == {"a": "1"}
    assert extract_updates([{"a": 1}]) == {"a": 1}


@pytest.mark.parametrize(("before", "after"), [(0, [2]), ("a", ["a", 2]), ([0], [0, 2]), ([], [2])])
def test_2_2_appending(before: Any, after: list[Any]) -> None:
    assert append_values({"k": before}, {"k": 2}) == {"k": after}


def test_2_2_the_input_seeds_the_context() -> None:
    given = {"a": 1}
    assert make_initial_context(given) == given
    assert make_initial_context(given) is not given
    assert make_initial_context("words", ["f.txt"]) == {"file_names": ["f.txt"]}
    assert make_initial_context(["a"]) == {}


def test_the_input_as_a_message() -> None:
    assert (format_input(None), format_input("hi"), format_input({"ü": 1})) == ("", "hi", '{"ü": 1}')
