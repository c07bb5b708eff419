"""What an answer does to the state."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.messages import Message
from statewright.models import ModelResponse
from statewright.workflow.steps import CheckedAnswer, StepFailed
from statewright.workflow.steps.llm.handler import make_result
from statewright.workflow.steps.model import LlmStep, PromptMessage


def result(text: str, **step: Any) -> Any:
    messages = (PromptMessage(role="user", content="x"),)
    asked = LlmStep(type="llm", name="a", model="m", messages=messages, **step)
    return make_result(CheckedAnswer(ModelResponse(Message(text, role="assistant")), asked))


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ({}, "Hi", {"a": "Hi"}),
        ({"output_key": "k"}, '{"x": 1}', {"k": '{"x": 1}'}),
        ({"response_format": "json"}, '{"x": 1}', {"x": 1}),
        ({"response_format": "json", "output_key": "k"}, "[1]", {"k": [1]}),
    ],
)
def test_updates(step: dict[str, Any], text: str, expected: dict[str, Any]) -> None:
    found = result(text, **step)
    assert (found.status, found.state_updates, found.output) == ("completed", expected, expected)


@pytest.mark.parametrize(("text", "said"), [("x", "it contains no JSON"), ("[1]", "answered with a JSON list")])
def test_no_map(text: str, said: str) -> None:
    with pytest.raises(StepFailed, match=said) as failed:
        result(text, response_format="json")
    assert (failed.value.code, failed.value.is_final) == ("LLM_OUTPUT_INVALID", False)
