"""Extracting JSON from answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import spend_at_most

from statewright.workflow.steps.llm.checks import extract_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1] ", [1]),
        ("3", 3),
        ('"x"', "x"),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Sure:\n```\n{"a": [1, 2]}\n```\nDone.', {"a": [1, 2]}),
        ('```python\nx = {}\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ('It is {"a": {"b": "}"}} I think', {"a": {"b": "}"}}),
        ("{not} but [1, 2]", [1, 2]),
        ('{{"a": 1}', {"a": 1}),
    ],
)
def test_json_is_extracted(text: str, expected: Any) -> None:
    assert extract_json(text) == expected


@pytest.mark.parametrize("text", ["", "no", "{", "{a: 1}", "```json\nno\n```"])
def test_text_without_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="the answer contains no JSON"):
        extract_json(text)


@pytest.mark.parametrize("text", ["[" * 200_000, "{" * 200_000, "```json\n" * 20_000, '{"a":' * 50_000])
def test_hostile_text_is_rejected_in_linear_time(text: str) -> None:
    with spend_at_most(), pytest.raises(ValueError, match="no JSON"):
        extract_json(text)


@given(
    st.dictionaries(st.text(), st.integers() | st.text()), st.text(alphabet="abc .:\n"), st.text(alphabet="abc .:\n")
)
def test_words_around_the_json_are_ignored(value: dict[str, Any], before: str, after: str) -> None:
    assert extract_json(f"{before}{json.dumps(value)}{after}") == value
