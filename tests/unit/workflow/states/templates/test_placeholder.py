"""Parsing of placeholders."""

from typing import Any

import pytest

from statewright.workflow.states.templates.placeholder import LENGTH_LIMIT, PlaceholderParser
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing


@pytest.mark.parametrize(
    ("source", "path", "filters"),
    [
        ("{{a}}", ("a",), ()),
        ("{{ a.b[0]['c|d'] }}", ("a", "b", 0, "c|d"), ()),
        ("{{ a | join(', ') | upper }}", ("a",), (("join", (", ",)), ("upper", ()))),
        ("{{ a|default('|)', true) }}", ("a",), (("default", ("|)", True)),)),
        ("{{ a|upper() }}", ("a",), (("upper", ()),)),
        ("{{ a['x + y'] }}", ("a", "x + y"), ()),
        ("{{ $a.b-c }}", (), ()),
        ("{{ a|nope }}", (), ()),
        ("{{ a|join(b) }}", (), ()),
        ("{{ a|join( }}", (), ()),
        ("{{ a+b }}", (), ()),
        ("{{ 1.5 }}", (), ()),
        ("{{ " + "a" * (LENGTH_LIMIT + 1) + " }}", (), ()),
        ("{{}}", (), ()),
    ],
)
def test_2_3_paths_and_filters_are_parsed(source: str, path: Any, filters: Any) -> None:
    placeholder = PlaceholderParser(simple=True).parse(source)

    assert placeholder.path == path
    assert placeholder.filters == filters
    assert placeholder.source == source
    assert placeholder.step is None


def test_2_3_other_placeholders_are_expressions() -> None:
    assert PlaceholderParser().parse("{{ a + b }}").step is not None
    assert PlaceholderParser().parse("{{ a + b }}").names == {"a", "b"}
    assert PlaceholderParser().parse("{{ a|nope }}", line=7).problems[0].line == 1
    assert PlaceholderParser().parse("{{ a|nope }}").step is None


def test_2_3_the_value_of_a_placeholder_keeps_its_type() -> None:
    assert PlaceholderParser().parse("{{a.b}}").evaluate(Rendering({"a": {"b": [1]}})) == [1]
    missing = PlaceholderParser().parse("{{ a.b }}").evaluate(Rendering({}))
    assert isinstance(missing, Missing)
    assert missing.path == "a.b"
