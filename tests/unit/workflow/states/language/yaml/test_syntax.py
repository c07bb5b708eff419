"""Complaints of the parser, with advice."""

import pytest

from statewright.workflow.states.language.yaml.read import read_document


@pytest.mark.parametrize(
    ("text", "place", "advice"),
    [
        ("a: 'x", (1, 4), "quote"),
        ("a:\n\tb: 1", (2, 1), "spaces"),
        ("a: b: c", (1, 5), "quotes"),
        ("a: [1, 2", None, "bracket"),
        ("a: @x", (1, 4), "quotes"),
        ("- a\nb: 1", (2, 1), "column"),
        ('a: "\\q"', None, "backslash"),
        ("a: 1\n b: 2", None, "indentation"),
    ],
)
def test_1_8_broken_yaml_is_shown_with_its_place(text: str, place: tuple[int, int] | None, advice: str) -> None:
    (found,) = read_document(text).problems
    assert found.message.startswith("This is not valid YAML")
    assert advice in found.suggestion
    assert place in (None, (found.line, found.column))
