"""Section 2.3 of the states language, from the file to the run: reported problems and their lines."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from tests.work import count_work

from statewright.errors import ExpressionError, WorkflowError
from statewright.workflow.states import load_workflow
from statewright.workflow.states.expressions.evaluation import WorkLimitExceeded
from statewright.workflow.states.templates import parse_template

HEAD = "enable_summarization_node: false\nassistants: [{id: a, system_prompt: p}]\n"


def two_states(task: str) -> str:
    return f"""{HEAD}
states:
- {{id: s, assistant_id: a, task: t, next: {{state_id: e}}}}
- id: e
  assistant_id: a
  task: {json.dumps(task)}
  next: {{state_id: end}}
"""


def run(driver: Any, task: str, context: Any, **options: Any) -> Any:
    app = load_workflow(two_states(task)).compile(script={"s": json.dumps(context), "e": "done"}, **options)
    return driver.invoke(app, {})


def test_2_3_templates_can_call_methods_of_strings(driver: Any) -> None:
    task = "{% for f in files %}{{ f.rsplit('/', 1)[0] }} {% endfor %}"
    assert run(driver, task, {"files": ["a/b.py", "c/d.py"]})["visits"][1]["prompt"] == "a c "


@pytest.mark.parametrize(
    "task",
    [
        "{% for f in files %}{{ f + 1 }}{% endfor %}",
        "{{ files + 1 }}",
        "{{ files | sum }}",
        "{% if x is odd %}{{ files[0] / 0 }}{% else %}{{ 1 / 0 }}{% endif %}",
    ],
)
def test_2_3_a_failing_template_fails_the_state_without_a_retry(driver: Any, task: str) -> None:
    with pytest.raises(
        ExpressionError, match=r"The task of state 'e': Line 2 of the template cannot be rendered: "
    ) as raised:
        run(driver, f"first\n{task}", {"files": ["a"]})
    assert "attempt 1" in "".join(raised.value.__notes__)


def test_2_3_an_undefined_placeholder_is_reported_as_an_event_and_a_warning(
    driver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    workflow = load_workflow(two_states("{{known}} {{nope}} {{ known + nope.x }}"))
    app = workflow.compile(script={"s": '{"known": 1}', "e": "done"})
    with caplog.at_level(logging.WARNING, logger="statewright"):
        events = driver.stream(app, {}, stream_mode="custom")
    unresolved = [
        {"kind": "template", "event": "unresolved", "state": "e", "placeholder": p}
        for p in ("{{nope}}", "{{ known + nope.x }}")
    ]
    assert events == unresolved
    assert [record.getMessage() for record in caplog.records if "{{nope}}" in record.getMessage()] == [
        "State 'e': the placeholder {{nope}} is undefined and was left unchanged."
    ]


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("  task: |\n    first\n    {% if x %}\n  next: {state_id: end}", 7, "Unexpected end of template"),
        (
            "  task: |\n    first\n    {% if x %}{{ x | jion }}{% endif %}\n  next: {state_id: end}",
            7,
            "The filter 'jion'",
        ),
        ("  task: '{% for x %}'\n  next: {state_id: end}", 5, "Expected token 'in'"),
        ("  next: {state_id: end}\n  output_schema: '{% if x %}'", 6, "Unexpected end of template"),
    ],
)
def test_1_8_invalid_blocks_are_problems_at_their_line(source: str, line: int, message: str) -> None:
    text = f"assistants: [{{id: a, system_prompt: p}}]\nstates:\n- id: s\n  assistant_id: a\n{source}\n"
    with pytest.raises(WorkflowError) as raised:
        load_workflow(text)
    (problem,) = raised.value.problems
    assert message in problem.message
    assert problem.line == line


def test_1_8_blocks_in_arguments_are_checked_at_any_depth() -> None:
    text = (
        "assistants: [{id: a, system_prompt: p}]\n"
        "tools:\n- {id: t, tool: x, tool_args: {a: [{b: '{% if %}'}]}}\n"
        "states:\n- {id: s, tool_id: t, tool_args: {c: ['{{ x y }}']}, next: {state_id: end}}\n"
    )
    with pytest.raises(WorkflowError) as raised:
        load_workflow(text)
    assert [problem.path for problem in raised.value.problems] == ["tools[0].tool_args.a[0].b"]


def test_1_8_unsupported_placeholders_are_warnings_at_their_line() -> None:
    text = f"""{HEAD}states:
- id: s
  assistant_id: a
  task: |
    {{{{ x | jion }}}}
    {{{{ .Values.image }}}} of a chart
  next: {{state_id: end}}
"""
    first, second = load_workflow(text).problems
    assert (first.line, second.line) == (7, 8)
    assert "The filter 'jion'" in first.message
    assert "Did you mean 'join'?" in first.suggestion
    assert "is left as written" in second.message


def test_1_8_unresolved_tasks_are_not_checked() -> None:
    text = f"""{HEAD}states:
- id: s
  assistant_id: a
  resolve_dynamic_values_in_prompt: false
  task: "{{% if x"
  next: {{state_id: end}}
"""
    assert load_workflow(text).problems == ()


LARGE: dict[str, Any] = {
    "big": {str(n): n for n in range(300)},
    "list": list(range(300)),
    "text": "some words of a text " * 50,
    "deep": [[[n] * 10] * 10 for n in range(10)],
}
BODIES = (
    "{% set x = list + list %}",
    "{% set x = dict(big) %}",
    "{% set x = range(200) %}",
    "{% set ns.x = [ns.x, list] %}",
    "{% set ns.l = ns.l ~ text %}",
    "{% set _ = ns.a.append(i) %}",
    "{% set _ = ns.a.extend(list) %}",
    "{{ big | dictsort | length }}",
    "{{ list | sort(reverse=true) | first }}",
    "{{ list | map('string') | join(',') | length }}",
    "{{ list | select('odd') | list | length }}",
    "{{ list | batch(7) | list | length }}",
    "{{ deep | tojson | length }}",
    "{{ deep | unique | list | length }}",
    "{{ text | upper | title | wordcount }}",
    "{{ text | wordwrap(20) | length }}",
    "{{ text | indent(4) | truncate(10) }}",
    "{{ text.split() | groupby(0) | length }}",
    "{{ text.replace('o', 'oo').rsplit('t', 3) | length }}",
    "{% if deep == deep[:] %}{% endif %}",
    "{% if list in deep %}{% endif %}",
    "{% for j in list %}{% endfor %}",
    "{% for k, v in big.items() %}{{ k }}{% endfor %}",
    "{% set x %}{{ text }}{% endset %}",
    "{% filter upper %}{{ text }}{% endfilter %}",
    "{{ ns.x }}",
)
WORK = 100_000
EVENTS_PER_UNIT = 6
"""The most lines and calls for each unit of work."""


@pytest.mark.parametrize("body", BODIES)
def test_4_1_every_operation_is_charged_for_its_work(body: str) -> None:
    """Each operation is repeated in a very long loop: the work done is in proportion to the budget."""
    template = parse_template(
        "{% set ns = namespace(x=[], l='', a=[]) %}{% for i in range(90000) %}" + body + "{% endfor %}"
    )
    assert template.errors == ()

    def render() -> None:
        with pytest.raises(WorkLimitExceeded):
            template.render(LARGE, work=WORK)

    render()
    assert count_work(render) <= EVENTS_PER_UNIT * WORK
