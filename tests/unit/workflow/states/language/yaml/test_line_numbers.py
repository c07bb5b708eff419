"""The lines of a file on which the lines of a YAML text are written."""

import pytest

from statewright.errors import WorkflowError
from statewright.workflow.states import load_workflow
from statewright.workflow.states.language.yaml.read import read_document
from statewright.workflow.states.language.yaml.text import line_numbers, split_lines

BAD = "{{ u|nope }}"
HEAD = "enable_summarization_node: false\nassistants: [{id: a, system_prompt: x}]\n"


@pytest.mark.parametrize(
    "written",
    [
        f"|\n    one\n    two {BAD}\n",
        f"|-\n\n\n    two\n    three {BAD}\n",
        f"| # a comment\n    one\n    two {BAD}\n",
        f">\n    one\n    two\n\n    {BAD}\n",
        f">-\n\n    one\n    two\n\n\n      indented\n      more\n    three {BAD}\n",
        f'"one\n    two\\nthree\n\n    four {BAD}"\n',
        f'"one\\ntwo {BAD}"\n',
        f"'one\n    two\n\n    three {BAD}'\n",
        f"one\n    two\n\n    three {BAD}\n",
        f">\n    one\n    two\n\n    {{% if u %}}{BAD}{{% endif %}}\n",
        f'"{BAD}"\n',
    ],
)
@pytest.mark.parametrize("key", ["task", "tool_args"])
def test_5_a_problem_of_a_template_has_its_line(written: str, key: str) -> None:
    if key == "task":
        state = f"- id: s\n  assistant_id: a\n  task: {written}  next: {{state_id: end}}\n"
        source = f"{HEAD}states:\n{state}"
    else:
        state = f"- id: s\n  tool_id: t\n  tool_args:\n   x:\n   - {written}  next: {{state_id: end}}\n"
        source = f"{HEAD}tools:\n- {{id: t, tool: echo}}\nstates:\n{state}"
    try:
        problems = load_workflow(source).problems
    except WorkflowError as error:
        problems = error.problems

    lines = [problem.line for problem in problems if "'nope'" in problem.message]
    assert lines == [number for number, line in enumerate(source.splitlines(), 1) if "nope" in line]


@pytest.mark.parametrize(
    ("text", "written", "style", "numbers"),
    [
        ("one two", ["one", "two"], None, (5,)),
        ("one\ntwo\n", [">", " one", "", " two"], ">", (6, 8)),
        ("a\n\nb", ["'a", "", "", " b'"], "'", (5, 8, 8)),
        ("a\\n\nb", ['"a\\\\n\\nb"'], '"', (5, 5)),
        ("a\n\n", [">+", " a", ""], ">", (6,)),
        ("something\nelse", ["something else"], None, ()),
    ],
)
def test_lines_are_told_where_the_text_agrees(text: str, written: list[str], style: str, numbers: tuple[int]) -> None:
    assert line_numbers(text, written, 5, style) == numbers


def test_lines_end_as_yaml_ends_them() -> None:
    assert split_lines("a\r\nb\rc\nd\x0be\u2028f") == ["a", "b", "c", "d\x0be", "f"]


def test_only_texts_that_may_be_templates_are_measured() -> None:
    written = read_document('a: "x\n\n y"\nb: "{x\n\n y"\n').root
    assert written is not None
    assert isinstance(written.content, dict)
    assert written.content["a"].lines == ()
    assert written.content["b"].lines == (4, 6)
    assert written.content["b"].mark_of(2).line == 6
    assert written.content["b"].mark_of(9) == written.content["b"].at
