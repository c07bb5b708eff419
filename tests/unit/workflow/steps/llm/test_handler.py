"""State updates from answers."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.messages import Message
from statewright.models import ModelResponse
from statewright.workflow.steps import CheckedAnswer, StepFailed
from statewright.workflow.steps.llm.handler import make_result
from statewright.workflow.steps.model import LlmStep, PromptMessage


def make_step_result(text: str, **step: Any) -> Any:
    messages = (PromptMessage(role="user", content="x"),)
    llm_step = LlmStep(type="llm", name="a", model="m", messages=messages, **step)
    return make_result(CheckedAnswer(ModelResponse(Message(text, role="assistant")), llm_step))


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ({}, "Hi", {"a": "Hi"}),
        ({"output_key": "k"}, '{"x": 1}', {"k": '{"x": 1}'}),
        ({"response_format": "json"}, '{"x": 1}', {"x": 1}),
        ({"response_format": "json", "output_key": "k"}, "[1]", {"k": [1]}),
    ],
)
def test_answers_become_state_updates(step: dict[str, Any], text: str, expected: dict[str, Any]) -> None:
    step_result = make_step_result(text, **step)
    assert (step_result.status, step_result.state_updates, step_result.output) == ("completed", expected, expected)


@pytest.mark.parametrize(
    ("text", "message"), [("x", "the answer contains no JSON"), ("[1]", "answered with a JSON list")]
)
def test_a_json_answer_must_be_a_map(text: str, message: str) -> None:
    with pytest.raises(StepFailed, match=message) as failed:
        make_step_result(text, response_format="json")
    assert (failed.value.code, failed.value.is_final) == ("LLM_OUTPUT_INVALID", False)
