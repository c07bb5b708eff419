"""Tools of assistants: offered to the model, called for it, and their failures told to it."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow
from statewright.workflow.states.performers.assistant import MOST_ROUNDS

FLOW = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p, limit_tool_output_tokens: 5, tools: [{name: add}, {name: nowhere}]}]
states: [{id: s, assistant_id: a, task: add, next: {state_id: end}}]
"""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def asking(*calls: tuple[str, dict[str, Any]]) -> Message:
    tool_calls = tuple(ToolCall(str(number), name, given) for number, (name, given) in enumerate(calls))
    return Message("", role="assistant", tool_calls=tool_calls)


def run(model: ScriptedModel, tool: Any = add) -> Any:
    return load_workflow(FLOW).compile(models=model, tools={"add": tool}).invoke({"input": "hi"})["result"]


def test_a_model_is_offered_the_tools_that_are_there() -> None:
    model = ScriptedModel(["no"])
    assert run(model) == "no"
    (offered,) = model.requests[0].tools
    assert (offered.name, offered.description) == ("add", "Add two numbers.")
    assert offered.parameters["required"] == ["a", "b"]


def test_what_it_asks_for_is_called_and_answered_in_order() -> None:
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "ten"])
    assert run(model) == "ten"
    answers = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [(message.content, message.tool_call_id) for message in answers] == [("3", "0"), ("7", "1")]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [("sub", {}, "Error: There is no"), ("add", {"a": "x", "b": 1}, "Error: Tool 'add'"), ("nowhere", {}, "Error:")],
)
def test_what_is_wrong_about_a_call_goes_back_to_the_model(name: str, given: dict[str, Any], said: str) -> None:
    model = ScriptedModel([asking((name, given)), "sorry"])
    assert run(model) == "sorry"
    assert str(model.requests[1].messages[-1].content).startswith(said)


def test_what_a_tool_raises_goes_back_to_the_model() -> None:
    def broken(a: int, b: int) -> int:
        raise ZeroDivisionError("by zero")

    model = ScriptedModel([asking(("add", {"a": 1, "b": 0})), "sorry"])
    assert run(model, broken) == "sorry"
    assert "by zero" in str(model.requests[1].messages[-1].content)


def test_a_long_answer_is_cut_and_says_so() -> None:
    def long(a: int, b: int) -> str:
        return "x" * 100

    model = ScriptedModel([asking(("add", {"a": 1, "b": 0})), "ok"])
    run(model, long)
    assert str(model.requests[1].messages[-1].content).startswith("x" * 20 + "\n[Cut off after 20 of 100")


def test_a_model_that_only_asks_is_stopped() -> None:
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2}))], repeat_last=True)
    with pytest.raises(ModelAnswerInvalid, match=f"asked for tools {MOST_ROUNDS} times"):
        run(model)
