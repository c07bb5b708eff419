"""Templates: the expected texts were produced by the original JavaScript function."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.workflow.steps.template import render, to_text

INPUT = {"a": "x", "n": None, "z": 0, "f": False, "o": {"k": 1}, "arr": [1, 2]}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{input.a}}", "x"),
        ("{{input.missing}}", ""),
        ("{{input.n}}", ""),
        ("{{input.missing.sub}}", "{{input.missing.sub}}"),
        ("{{input.n.sub}}", "{{input.n.sub}}"),
        ("{{input.a.length}}", "{{input.a.length}}"),
        ("{{input.z.q}}", "{{input.z.q}}"),
        ("{{input.arr.0}}", "1"),
        ("{{input.arr.length}}", ""),
        ("{{input.arr.2}}", ""),
        ("{{input.arr.00}}", ""),
        ("{{input.arr}}", "[1, 2]"),
        ("{{input.o}}", '{"k": 1}'),
        ("{{input}}", '{"a": "x", "n": null, "z": 0, "f": false, "o": {"k": 1}, "arr": [1, 2]}'),
        ("{{input.z}} / {{input.f}}", "0 / false"),
        ("{{env.x}} {{companyName}}", "{{env.x}} {{companyName}}"),
        ("{{ input.a }}{{input.a-b}}{{.input}}", "{{ input.a }}{{input.a-b}}{{.input}}"),
        ("{{state.}}", ""),
        ("{{state}}", "{}"),
        ("{{{input.a}}}", "{x}"),
        ("Dear {{input.a}}, {{input.a}}!", "Dear x, x!"),
        ("", ""),
    ],
)
def test_templates_render_as_in_javascript(template: str, expected: str) -> None:
    assert render(template, INPUT, {}) == expected


def test_values_are_not_rendered_as_templates() -> None:
    state = {"a": "{{input.secret}}"}
    assert render("{{state.a}}", {"secret": "s"}, state) == "{{input.secret}}"
    assert render("{{state.a}}", {}, {"a": r"$& \1 \g<0>"}) == r"$& \1 \g<0>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (None, ""),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (-2.50, "-2.5"),
        (100.0, "100"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (0.00001, "0.00001"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (10**30, "1" + "0" * 30),
        ("ünï", "ünï"),
        (["ü"], '["ü"]'),
        ([], "[]"),
    ],
)
def test_values_are_formatted_as_in_javascript(value: Any, expected: str) -> None:
    """Numbers are formatted like `String(value)` in JavaScript."""
    assert to_text(value) == expected


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_text_without_placeholders_is_unchanged_and_nothing_raises(template: str, state: dict[str, str]) -> None:
    assert isinstance(render(template, state, state), str)
    if "{{" not in template:
        assert render(template, state, state) == template


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_formatted_numbers_parse_back_to_themselves(value: float) -> None:
    assert float(to_text(value)) == value
