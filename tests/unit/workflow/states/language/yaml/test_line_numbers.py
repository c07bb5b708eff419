"""The lines of a file from which the lines of a YAML string come."""

import pytest

from statewright.errors import WorkflowError
from statewright.workflow.states import load_workflow
from statewright.workflow.states.language.yaml.read import read_document
from statewright.workflow.states.language.yaml.text import compute_line_numbers, split_lines

INVALID_PLACEHOLDER = "{{ u|nope }}"
HEAD = "enable_summarization_node: false\nassistants: [{id: a, system_prompt: x}]\n"


@pytest.mark.parametrize(
    "scalar",
    [
        f"|\n    one\n    two {INVALID_PLACEHOLDER}\n",
        f"|-\n\n\n    two\n    three {INVALID_PLACEHOLDER}\n",
        f"| # a comment\n    one\n    two {INVALID_PLACEHOLDER}\n",
        f">\n    one\n    two\n\n    {INVALID_PLACEHOLDER}\n",
        f">-\n\n    one\n    two\n\n\n      indented\n      more\n    three {INVALID_PLACEHOLDER}\n",
        f'"one\n    two\\nthree\n\n    four {INVALID_PLACEHOLDER}"\n',
        f'"one\\ntwo {INVALID_PLACEHOLDER}"\n',
        f"'one\n    two\n\n    three {INVALID_PLACEHOLDER}'\n",
        f"one\n    two\n\n    three {INVALID_PLACEHOLDER}\n",
        f">\n    one\n    two\n\n    {{% if u %}}{INVALID_PLACEHOLDER}{{% endif %}}\n",
        f'"{INVALID_PLACEHOLDER}"\n',
    ],
)
@pytest.mark.parametrize("key", ["task", "tool_args"])
def test_5_a_problem_in_a_template_has_its_line(scalar: str, key: str) -> None:
    if key == "task":
        state = f"- id: s\n  assistant_id: a\n  task: {scalar}  next: {{state_id: end}}\n"
        source = f"{HEAD}states:\n{state}"
    else:
        state = f"- id: s\n  tool_id: t\n  tool_args:\n   x:\n   - {scalar}  next: {{state_id: end}}\n"
        source = f"{HEAD}tools:\n- {{id: t, tool: echo}}\nstates:\n{state}"
    try:
        problems = load_workflow(source).problems
    except WorkflowError as error:
        problems = error.problems

    lines = [problem.line for problem in problems if "'nope'" in problem.message]
    assert lines == [number for number, line in enumerate(source.splitlines(), 1) if "nope" in line]


@pytest.mark.parametrize(
    ("text", "source", "style", "numbers"),
    [
        ("one two", ["one", "two"], None, (5,)),
        ("one\ntwo\n", [">", " one", "", " two"], ">", (6, 8)),
        ("a\n\nb", ["'a", "", "", " b'"], "'", (5, 8, 8)),
        ("a\\n\nb", ['"a\\\\n\\nb"'], '"', (5, 5)),
        ("a\n\n", [">+", " a", ""], ">", (6,)),
        ("something\nelse", ["something else"], None, ()),
    ],
)
def test_line_numbers_are_given_only_if_the_text_agrees(
    text: str, source: list[str], style: str, numbers: tuple[int]
) -> None:
    assert compute_line_numbers(text, source, 5, style) == numbers


def test_lines_end_as_in_yaml() -> None:
    assert split_lines("a\r\nb\rc\nd\x0be\u2028f") == ["a", "b", "c", "d\x0be", "f"]


def test_line_numbers_are_computed_only_for_possible_templates() -> None:
    root = read_document('a: "x\n\n y"\nb: "{x\n\n y"\n').root
    assert root is not None
    assert isinstance(root.content, dict)
    assert root.content["a"].lines == ()
    assert root.content["b"].lines == (4, 6)
    assert root.content["b"].get_mark(2).line == 6
    assert root.content["b"].get_mark(9) == root.content["b"].at
