"""Parsing whole files."""

import json
from pathlib import Path

import pytest
from tests.work import count_work

from statewright.errors import WorkflowError
from statewright.workflow.states.language.parse import parse_workflow

SHARED = Path(__file__).parents[6] / "shared"
TEMPLATES = sorted((SHARED / "templates" / "states").glob("*.yaml"))
SPLIT = {"aice_java_migration_template.yaml", "workflow_sonar_issues_resolver_java_template.yaml"}
AUTONOMOUS = {"workflow_autonomous_template.yaml"}

INVALID_TEXT = """\
recursion_limit: 0
states:
  - id: a
    assistant_id: ghost
    next: {condition: {expression: "x ==", then: b, otherwise: nowhere}}
  - id: b
    next: {state_id: end, state_id: a}
assistants: []
"""


def test_1_8_all_problems_are_reported_at_once_in_the_order_of_the_phases() -> None:
    parsed = parse_workflow(INVALID_TEXT)
    assert parsed.definition is None
    assert [(problem.line, problem.path) for problem in parsed.problems] == [
        (7, ""),
        (1, "recursion_limit"),
        (6, "states[1]"),
        (4, "states[0].assistant_id"),
        (5, "states[0].next.condition.otherwise"),
        (5, "states[0].next.condition.expression"),
    ]


def test_expect_raises_with_all_problems_and_the_source() -> None:
    with pytest.raises(WorkflowError, match=r"flow\.yaml has 6 problems") as caught:
        parse_workflow(INVALID_TEXT, source="flow.yaml").expect()
    assert len(caught.value.problems) == 6
    assert "In 'states[1]' (line 6, column 5): State 'b' has none of the keys" in str(caught.value)


def test_invalid_yaml_is_one_problem() -> None:
    assert len(parse_workflow("states: [").problems) == 1


def test_parsing_a_large_file_takes_limited_work() -> None:
    lines = [f"- id: s{i}\n  assistant_id: a\n  task: |\n{'    some text' * 90}\n" for i in range(24)]
    transitions = [
        f"  next: {{switch: {{default: s{i}, cases: [{{condition: x > {i}, state_id: end}}]}}}}\n" for i in range(24)
    ]
    text = "assistants: [{id: a, system_prompt: p}]\nstates:\n" + "".join(
        map("".join, zip(lines, transitions, strict=True))
    )
    assert parse_workflow(text).problems == ()
    assert count_work(lambda: parse_workflow(text)) < 200_000  # lines and calls; the limit is twice the usual number


@pytest.mark.skipif(not TEMPLATES, reason="no template files of workflows here")
@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_3_real_templates_load_except_those_that_break_the_rules(file: Path) -> None:
    parsed = parse_workflow(file.read_bytes(), source=file.name)
    if file.name in SPLIT:
        assert ["Split it into two states" in problem.suggestion for problem in parsed.problems] == [True]
    elif file.name in AUTONOMOUS:
        assert ["mode: Sequential" in problem.suggestion for problem in parsed.problems] == [True]
    else:
        assert parsed.problems == ()
        assert parsed.definition is not None


@pytest.mark.skipif(not (SHARED / "cases" / "states.json").exists(), reason="no cases of workflows here")
def test_the_workflows_of_all_cases_load() -> None:
    for case in json.loads((SHARED / "cases" / "states.json").read_text()):
        states = (
            case["states"]
            .replace("task: t,", "task: t, assistant_id: a,")
            .replace("task: '", "assistant_id: a, task: '")
        )
        head = f"{case['extra']}\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n"
        assert parse_workflow(head + states).problems == (), case["id"]
