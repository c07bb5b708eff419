"""The positions of values in a text in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.data.problems import format_json_path
from statewright.errors import WorkflowError
from statewright.workflow.steps import read_definition
from statewright.workflow.steps.json_positions import find_positions

TEXT = """{
  "name": "mail", "version": "1",
  "steps": [
    {"type": "task", "name": "a\\"]", "handler": "h"},
    {"type": "task",
     "name": "b", "hander": "h"}
  ]
}"""


def test_each_value_has_its_position_and_each_member_that_of_its_key() -> None:
    positions = find_positions(TEXT)
    assert positions[""] == (1, 1)
    assert (positions["version"], positions["steps[0]"], positions["steps[1].name"]) == ((2, 19), (4, 5), (6, 6))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_every_path_of_a_document_has_a_position(value: Any) -> None:
    positions = find_positions(json.dumps(value, indent=1))
    assert {format_json_path(path) for path in _paths(value, ())} == set(positions)


def _paths(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in _paths(item, (*path, key)))]


@pytest.mark.parametrize("document", [TEXT, TEXT.encode(), TEXT.encode("utf-16")])
def test_problems_of_a_text_have_lines_and_a_missing_key_that_of_its_object(document: str | bytes) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_definition(document)
    lines = [(problem.path, problem.line) for problem in caught.value.problems]
    assert lines == [("steps[1]", 5), ("steps[1].hander", 6)]


def test_problems_of_a_decoded_document_have_no_lines() -> None:
    with pytest.raises(WorkflowError) as caught:
        read_definition(json.loads(TEXT))
    assert {problem.line for problem in caught.value.problems} == {0}
