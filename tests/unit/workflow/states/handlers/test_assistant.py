"""States performed by a model: its requests and answers."""

from typing import Any

import pytest

from statewright.errors import BudgetExceeded, ExpressionError, ModelAnswerInvalid
from statewright.models import ModelRequest, ScriptedModel
from statewright.workflow.states import load_workflow

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


def run_requests(
    state: str, answers: list[Any] | None = None, run_input: Any = "hi", assistant: str = ""
) -> list[ModelRequest]:
    """Run a workflow with one state, and return the requests to its model."""
    text = f"""
enable_summarization_node: false
assistants: [{{id: a, system_prompt: be kind{assistant}}}]
states: [{{id: s, assistant_id: a, {state}next: {{state_id: end}}}}]
"""
    model = ScriptedModel(answers or ["ok"])
    load_workflow(text).compile(models=model).invoke({"input": run_input})
    return model.requests


def test_a_request_has_the_prompt_the_history_and_the_task() -> None:
    (request,) = run_requests("task: 'Do {{task}}', ", assistant=", model: fast, temperature: 0.5")
    assert (request.system, request.model, request.temperature) == ("be kind", "fast", 0.5)
    assert [message.text for message in request.messages] == ["hi", "Do hi"]
    assert request.output is None
    assert request.metadata["state"] == "s"


def test_1_5_a_missing_task_becomes_a_dash() -> None:
    (request,) = run_requests("")
    assert request.messages[-1].text == "-"


def test_2_8_the_model_gets_feedback_on_an_invalid_answer() -> None:
    first, second = run_requests(f"output_schema: '{SCHEMA}', ", ['{"n": "x"}', '{"n": 1}'])
    *_, answer, feedback = second.messages
    assert (answer.role, answer.text) == ("assistant", '{"n": "x"}')
    assert "integer" in feedback.text
    assert len(second.messages) == len(first.messages) + 2


def test_2_8_the_state_fails_after_three_invalid_answers() -> None:
    with pytest.raises(ModelAnswerInvalid, match="3 attempts"):
        run_requests(f"output_schema: '{SCHEMA}', ", ["[]", "[]", "[]", '{"n": 1}'])


def test_an_undefined_placeholder_of_the_output_schema_is_reported() -> None:
    text = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p}]
states: [{id: s, assistant_id: a, output_schema: "{{ missing }}", next: {state_id: end}}]
"""
    model = ScriptedModel(["ok"])
    events = [*load_workflow(text).compile(models=model).stream({"input": "hi"}, stream_mode="custom")]
    assert {"kind": "template", "event": "unresolved", "state": "s", "placeholder": "{{ missing }}"} in events
    assert "{{ missing }}" in str(model.requests[0].system)


def test_an_output_schema_that_cannot_be_rendered_names_its_state() -> None:
    with pytest.raises(ExpressionError, match="The output_schema of state 's'"):
        run_requests("output_schema: '{{ 1 / 0 }}', ")


def test_the_usage_of_models_counts_against_the_budget() -> None:
    from statewright import Budget

    text = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p}]
states: [{id: s, assistant_id: a, next: {state_id: s}}]
"""
    app = load_workflow(text).compile(models=ScriptedModel(["x" * 400], repeat_last=True))
    with pytest.raises(BudgetExceeded):
        app.invoke({"input": "hi"}, budget=Budget(max_tokens=250))
