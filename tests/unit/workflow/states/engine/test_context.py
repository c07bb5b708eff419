"""2.2: how a visit changes the context. The rows of the matrix are in `tests/semantics/test_states_context.py`."""

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


def test_2_2_a_result_replaces_the_values_of_its_keys() -> None:
    assert apply_visit({"a": {"x": 1}, "b": 1}, visit('{"a": {"y": 2}}'), None) == {"a": {"y": 2}, "b": 1}


def test_contexts_are_not_changed_in_place() -> None:
    before = {"k": [1], "u": 1}
    for effects in (
        {},
        {"appends_values": True},
        {"clears_context": True},
        {"reset_keys": ("u",)},
        {"output_key": "k"},
    ):
        apply_visit(before, visit('{"k": 2}', **effects), None)
    assert before == {"k": [1], "u": 1}


def test_2_6_the_item_is_merged_into_the_context_before_the_output() -> None:
    item = {"n": 1, "k": "item"}
    assert apply_visit({}, visit('{"k": "output"}', merges_item=True), item) == {"n": 1, "k": "output"}
    assert apply_visit({}, visit("words", merges_item=False), item) == {}
    assert apply_visit({}, visit("words", merges_item=True), "no map") == {}


def test_2_2_the_maps_of_a_list_update_the_context_unless_it_is_split() -> None:
    result = [{"a": 1}, 5, {"a": 2, "b": 3}]
    assert extract_updates(result) == {"a": 2, "b": 3}
    assert extract_updates(result, splits=True) == {}
    assert extract_updates({"a": 1}, splits=True) == {"a": 1}


def test_2_7_an_output_other_than_text_is_its_own_result() -> None:
    assert parse_output({"a": "1"}) == {"a": "1"}
    assert parse_output('{"a": "1"}') == {"a": "1"}
    assert extract_updates([{"a": 1}]) == {"a": 1}


@pytest.mark.parametrize(("before", "after"), [(0, [2]), ("a", ["a", 2]), ([0], [0, 2]), ([], [2])])
def test_2_2_append_makes_lists(before: Any, after: list[Any]) -> None:
    assert append_values({"k": before}, {"k": 2}) == {"k": after}


def test_2_2_the_input_initializes_the_context() -> None:
    value = {"a": 1}
    assert make_initial_context(value) == value
    assert make_initial_context(value) is not value
    assert make_initial_context("words", ["f.txt"]) == {"file_names": ["f.txt"]}
    assert make_initial_context(["a"]) == {}


def test_the_input_is_formatted_as_a_message() -> None:
    assert (format_input(None), format_input("hi"), format_input({"ü": 1})) == ("", "hi", '{"ü": 1}')
