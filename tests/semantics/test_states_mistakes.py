"""Mistakes in workflow files: each is reported once, at its own line, with a helpful message."""

import pytest
from tests.semantics.mistakes import BASE, MISTAKES, Mistake

from statewright.workflow.states.language.parse import parse_workflow

DOUBLED = {"states in a tool": 3}
"""Mistakes that cause several problems: an item of the wrong list lacks the keys of that list."""


def test_the_file_without_mistakes_has_no_problems() -> None:
    parsed = parse_workflow(BASE)
    assert (parsed.problems, parsed.warnings) == ((), ())


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_1_8_a_mistake_is_reported_at_its_line_with_a_suggestion(mistake: Mistake) -> None:
    parsed = parse_workflow(mistake.text)
    problems = parsed.warnings if mistake.is_warning else parsed.problems
    assert (parsed.definition is None) is not mistake.is_warning
    assert mistake.words in f"{problems[0].message} {problems[0].suggestion}"
    assert problems[0].line == mistake.line


@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if not mistake.is_warning])
def test_1_8_a_mistake_is_reported_once(name: str) -> None:
    assert len(parse_workflow(MISTAKES[name].text).problems) == DOUBLED.get(name, 1)
