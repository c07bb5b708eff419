"""`state_processor_node`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import InvalidConfig, ModelError
from statewright.models import ScriptedModel
from statewright.workflow.states.engine.visit import ANSWER, ItemRef, Visit
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.nodes import NodeLimits, NodeResources

KIND = "state_processor_node"
VISITS = (
    Visit("1", "plan", "the plan", prompt="Make a plan."),
    Visit("2", "check-a", {"ok": True}),
    Visit("3", "check-b", "no", prompt="Check b."),
    Visit("4", ANSWER, "go on"),
    Visit("5", "own", "from an earlier turn"),
)


def with_model(*answers: str, limits: NodeLimits | None = None) -> tuple[ScriptedModel, NodeResources]:
    model = ScriptedModel(list(answers))
    return model, NodeResources(state_id="own", find_model=lambda name: model, limits=limits or NodeLimits())


def test_2_10_a_model_is_called_for_each_finished_state(
    run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    model, resources = with_model('{"a": 1}', '{"a": 2}', '{"a": 3}')
    outcome = run(KIND, {}, call_with(visits=VISITS, prompt="Judge it."), resources)
    texts = [request.messages[0].text for request in model.requests]
    assert texts == [
        "<step_task>\nMake a plan.\n</step_task>\n<step_output>\nthe plan\n</step_output>\n\nJudge it.",
        '<step_output>\n{"ok": true}\n</step_output>\n\nJudge it.',
        "<step_task>\nCheck b.\n</step_task>\n<step_output>\nno\n</step_output>\n\nJudge it.",
    ]
    assert (outcome.output, outcome.calls) == ("a: 1\n\na: 2\n\na: 3\n", 3)


def test_2_10_a_request_contains_the_item_of_the_branch(
    run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    model, resources = with_model("{}")
    visits = [
        Visit("1", "split", '{"files": ["a.py", {"n": 1}]}'),
        Visit("2", "each", "done", item=ItemRef("1", "files", 1)),
    ]
    run(KIND, {"state_id": "each"}, call_with(visits=visits), resources)
    text = model.requests[0].messages[0].text
    assert text == '<step_item>\n{"n": 1}\n</step_item>\n<step_output>\ndone\n</step_output>'


def test_2_10_states_are_selected_by_the_prefix_of_their_names(
    run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    model, resources = with_model("{}", "{}")
    run(KIND, {"state_id": "check"}, call_with(visits=VISITS), resources)
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("statuses", "expected"), [(["SUCCEEDED", "FAILED"], 3), (["FAILED"], 0), ("succeeded", 3), ([], 3)]
)
def test_2_10_states_are_selected_by_status(
    statuses: Any, expected: int, run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    model, resources = with_model("{}", "{}", "{}")
    outcome = run(KIND, {"states_status_filter": statuses}, call_with(visits=VISITS), resources)
    assert (len(model.requests), outcome.calls) == (expected, max(expected, 1))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"a": 1, "b": [true]}', "a: 1\nb: [true]\n"),
        ('Here it is:\n```json\n{"a": {"b": null}}\n```', 'a: {"b": null}\n'),
        ("no JSON at all", "result: no JSON at all\n"),
        ('["x", "y"]', 'result: ["x", "y"]\n'),
        ('{"items": 1}', "items: 1\n"),
    ],
)
def test_2_10_json_is_extracted_from_the_answer_and_printed(
    answer: str, expected: str, run: Callable[..., Any], call_with: Callable[..., Call]
) -> None:
    _, resources = with_model(answer)
    assert run(KIND, {}, call_with(visits=VISITS[:1]), resources).output == expected


def test_2_10_the_output_template_receives_the_items(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    _, resources = with_model('{"file": "a.py", "status": "ok"}', '{"file": "b.py", "status": "bad"}')
    template = "# {{ title }}\n{% for item in items %}- {{ item.file }}: {{ item.status | upper }}\n{% endfor %}"
    call = call_with({"title": "Files"}, visits=VISITS[:2])
    assert run(KIND, {"output_template": template}, call, resources).output == "# Files\n- a.py: OK\n- b.py: BAD\n"


def test_4_1_templates_in_answers_are_not_rendered(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    hostile = '{"a": "{{ secret }} {% for x in items %}x{% endfor %}", "{{ secret }}": 1}'
    _, resources = with_model(hostile)
    output = run(KIND, {}, call_with({"secret": "s3cret"}, visits=VISITS[:1]), resources).output
    assert output == "a: {{ secret }} {% for x in items %}x{% endfor %}\n{{ secret }}: 1\n"


def test_too_many_states_are_an_error(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    model, resources = with_model(limits=NodeLimits(questions=2))
    with pytest.raises(InvalidConfig, match="would call a model for 3 executions of states; at most 2"):
        run(KIND, {}, call_with(visits=VISITS), resources)
    assert model.requests == []


def test_the_error_for_a_missing_model_names_the_state(run: Callable[..., Any], call_with: Callable[..., Call]) -> None:
    assert run(KIND).output == ""
    with pytest.raises(ModelError, match="State 'own'"):
        run(KIND, {}, call_with(visits=VISITS))


def test_errors_are_found_before_the_run(faults_of: Any) -> None:
    config = {"state_id": 1, "output_template": ["x"], "states_status_filter": ["DONE"], "workflow_execution_id": "x"}
    assert faults_of(KIND, config) == [
        (("config", "states_status_filter"), True),
        (("config", "state_id"), True),
        (("config", "output_template"), True),
        (("config", "workflow_execution_id"), False),
    ]
