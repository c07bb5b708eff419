"""How a placeholder is read."""

from typing import Any

import pytest

from statewright.workflow.states.items import MISSING
from statewright.workflow.states.templates.placeholder import LENGTH_LIMIT, read_placeholder, with_default


@pytest.mark.parametrize(
    ("source", "steps", "filters"),
    [
        ("{{a}}", ("a",), ()),
        ("{{ a.b[0]['c|d'] }}", ("a", "b", 0, "c|d"), ()),
        ("{{ a | join(', ') | upper }}", ("a",), (("join", (", ",)), ("upper", ()))),
        ("{{ a|default('|)', true) }}", ("a",), (("default", ("|)", True)),)),
        ("{{ a|upper() }}", ("a",), (("upper", ()),)),
        ("{{ a|nope }}", None, ()),
        ("{{ a|join(b) }}", None, ()),
        ("{{ a|join( }}", None, ()),
        ("{{ a + b }}", None, ()),
        ("{{ " + "a" * (LENGTH_LIMIT + 1) + " }}", None, ()),
        ("{{}}", None, ()),
    ],
)
def test_2_3_a_path_and_filters_are_read(source: str, steps: Any, filters: Any):
    placeholder = read_placeholder(source)

    assert placeholder.steps == steps
    assert placeholder.filters == filters
    assert placeholder.source == source


def test_2_3_its_value_keeps_its_type():
    assert read_placeholder("{{a.b}}").value({"a": {"b": [1]}}) == [1]
    assert read_placeholder("{{a.b}}").value({}) is MISSING
    assert read_placeholder("{{a.b}}").text({}) == "{{a.b}}"


def test_2_3_the_default_is_for_what_is_not_there():
    assert with_default(MISSING, "d") == "d"
    assert with_default("", "d") == ""
    assert with_default("", "d", True) == "d"
    assert with_default(None, "d") is None
