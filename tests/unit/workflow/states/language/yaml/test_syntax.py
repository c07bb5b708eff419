"""Syntax errors of the parser, with advice."""

import pytest

from statewright.workflow.states.language.yaml.read import read_document


@pytest.mark.parametrize(
    ("text", "position", "advice"),
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
def test_1_8_invalid_yaml_is_reported_with_its_position(
    text: str, position: tuple[int, int] | None, advice: str
) -> None:
    (problem,) = read_document(text).problems
    assert problem.message.startswith("This is not valid YAML")
    assert advice in problem.suggestion
    assert position in (None, (problem.line, problem.column))
