"""States that a model does: what it is asked, and what is made of its answer."""

from typing import Any

import pytest

from statewright.errors import BudgetExceeded, ModelAnswerInvalid
from statewright.models import ModelRequest, ScriptedModel
from statewright.workflow.states import load_workflow

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


def asked(state: str, answers: list[Any] | None = None, given: Any = "hi", assistant: str = "") -> list[ModelRequest]:
    """The requests of a workflow of one state."""
    text = f"""
enable_summarization_node: false
assistants: [{{id: a, system_prompt: be kind{assistant}}}]
states: [{{id: s, assistant_id: a, {state}next: {{state_id: end}}}}]
"""
    model = ScriptedModel(answers or ["ok"])
    load_workflow(text).compile(models=model).invoke({"input": given})
    return model.requests


def test_a_model_gets_its_prompt_the_history_and_the_task() -> None:
    (request,) = asked("task: 'Do {{task}}', ", assistant=", model: fast, temperature: 0.5")
    assert (request.system, request.model, request.temperature) == ("be kind", "fast", 0.5)
    assert [message.text for message in request.messages] == ["hi", "Do hi"]
    assert request.output is None
    assert request.metadata["state"] == "s"


def test_1_5_without_a_task_it_is_told_a_dash() -> None:
    (request,) = asked("")
    assert request.messages[-1].text == "-"


def test_2_8_a_wrong_answer_is_told_what_is_wrong_with_it() -> None:
    first, second = asked(f"output_schema: '{SCHEMA}', ", ['{"n": "x"}', '{"n": 1}'])
    *_, answer, told = second.messages
    assert (answer.role, answer.text) == ("assistant", '{"n": "x"}')
    assert "integer" in told.text
    assert len(second.messages) == len(first.messages) + 2


def test_2_8_after_three_wrong_answers_the_state_fails() -> None:
    with pytest.raises(ModelAnswerInvalid, match="3 attempts"):
        asked(f"output_schema: '{SCHEMA}', ", ["[]", "[]", "[]", '{"n": 1}'])


def test_what_a_model_uses_up_counts_for_the_budget() -> None:
    from statewright import Budget

    text = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p}]
states: [{id: s, assistant_id: a, next: {state_id: s}}]
"""
    app = load_workflow(text).compile(models=ScriptedModel(["x" * 400], repeat_last=True))
    with pytest.raises(BudgetExceeded):
        app.invoke({"input": "hi"}, budget=Budget(max_tokens=250))
