"""Assistants with tools: what their models ask for is called, and what comes of it told to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statewright import Command, InMemorySaver
from statewright.agents import ToolFunction, ToolOptions
from statewright.errors import ModelAnswerInvalid, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow
from statewright.workflow.states.handlers.assistant import MAX_ROUNDS

FLOW = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: p, limit_tool_output_tokens: 10, tools: [{name: add}, {name: nowhere}]}]
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
    [
        ("sub", {}, "Error: Tool 'sub' does not exist"),
        ("add", {"a": "x", "b": 1}, "Error: Tool 'add'"),
        ("nowhere", {}, "Error:"),
    ],
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
    assert str(model.requests[1].messages[-1].content).startswith("x" * 40 + "\n[Cut off after 40 of 100")


def test_a_model_that_only_asks_is_stopped() -> None:
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2}))], repeat_last=True)
    with pytest.raises(ModelAnswerInvalid, match=f"called tools {MAX_ROUNDS} times"):
        run(model)


# -- each step is saved, watched and tried again by itself


def conversing(model: Any, tools: dict[str, Any], state: str = "", assistant: str = "", more: str = "") -> Any:
    text = f"""
enable_summarization_node: false
{more}
assistants: [{{id: a, system_prompt: p, tools: [{{name: add}}]{assistant}}}]
states: [{{id: s, assistant_id: a, task: add, {state}next: {{state_id: end}}}}]
"""
    return load_workflow(text).compile(models=model, tools=tools, checkpointer=InMemorySaver())


def test_calls_and_answers_are_in_the_log() -> None:
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2})), "three"])
    app = conversing(model, {"add": add})
    app.invoke({"input": "hi"}, thread_id="t")
    assert app.checkpointer is not None
    found = [(event.kind, event.node) for event in app.checkpointer.events("t")]
    assert [one for one in found if one[0].endswith("_called")] == [
        ("model_called", "model"),
        ("tool_called", "tools"),
        ("model_called", "model"),
    ]


def test_what_is_said_is_streamed() -> None:
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2})), "it is three"])
    parts = conversing(model, {"add": add}).stream({"input": "hi"}, thread_id="t", stream_mode="messages")
    said = [(message.role, message.text) for message, _ in parts if message.text]
    assert said == [("tool", "3"), *[("assistant", word) for word in ("it", " is", " three")]]


def test_a_call_may_have_to_be_approved_and_the_others_are_not_made_again() -> None:
    made: list[int] = []

    def kept(a: int, b: int) -> int:
        made.append(a)
        return a + b

    careful = ToolFunction(kept, name="add", options=ToolOptions(approve=lambda given, _: given["a"] == 1))
    model = ScriptedModel([asking(("add", {"a": 0, "b": 1}), ("add", {"a": 1, "b": 1})), "done"])
    app = conversing(model, {"add": careful})
    (question,) = app.invoke({"input": "hi"}, thread_id="t")["__interrupt__"]
    assert (question.value["tool"], made) == ("add", [0])
    assert app.invoke(Command(resume="yes"), thread_id="t")["result"] == "done"
    assert made == [0, 1]
    assert len(model.requests) == 2


def test_2_11_a_model_that_fails_in_the_middle_is_asked_again_alone() -> None:
    made: list[int] = []

    def kept(a: int, b: int) -> int:
        made.append(a)
        return a + b

    busy = ModelUnavailable("busy", status=503)
    model = ScriptedModel([busy, asking(("add", {"a": 1, "b": 2})), busy, busy, "three"])
    state = "retry_policy: {initial_interval: 0, max_attempts: 3}, "
    app = conversing(model, {"add": kept}, state)
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == "three"
    assert made == [1]
    failing = ScriptedModel([busy] * 9)
    with pytest.raises(ModelUnavailable):
        conversing(failing, {"add": kept}, state).invoke({"input": "hi"}, thread_id="t")
    assert len(failing.requests) == 3


def test_2_8_another_answer_is_asked_for_in_the_same_conversation() -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    model = ScriptedModel([asking(("add", {"a": 1, "b": 2})), '{"n": "x"}', '{"n": 3}'])
    app = conversing(model, {"add": add}, f"output_schema: '{schema}', ")
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == '{"n": 3}'
    roles = [message.role for message in model.requests[2].messages]
    assert roles == ["user", "user", "assistant", "tool", "assistant", "user"]
    assert "integer" in model.requests[2].messages[-1].text
    refusing = ScriptedModel(["[]"] * 4)
    with pytest.raises(ModelAnswerInvalid, match="after 3 attempts"):
        conversing(refusing, {"add": add}, f"output_schema: '{schema}', ").invoke({"input": "hi"}, thread_id="t")
    assert len(refusing.requests) == 3


def test_2_9_a_long_history_is_summed_up_once() -> None:
    text = """
enable_summarization_node: false
messages_limit_before_summarization: 2
assistants: [{id: plain, system_prompt: p}, {id: a, system_prompt: p, tools: [{name: add}]}]
states:
- {id: one, assistant_id: plain, next: {state_id: two}}
- {id: two, assistant_id: plain, next: {state_id: s}}
- {id: s, assistant_id: a, task: add, retry_policy: {initial_interval: 0}, next: {state_id: end}}
"""
    busy = ModelUnavailable("busy", status=503)
    model = ScriptedModel(["1", "2", "in short", busy, asking(("add", {"a": 1, "b": 2})), "three"])
    app = load_workflow(text).compile(models=model, tools={"add": add})
    assert app.invoke({"input": "hi"})["result"] == "three"
    assert [request.metadata["state"] for request in model.requests] == ["one", "two", "summary", "s", "s", "s"]
    assert [message.text for message in model.requests[-1].messages[:3]] == ["hi", "in short", "add"]


def test_what_a_model_writes_that_is_no_json_goes_back_to_it() -> None:
    wrong = Message("", role="assistant", tool_calls=(ToolCall("1", "add", {}, invalid='{"a": '),))
    model = ScriptedModel([wrong, "sorry"])
    app = conversing(model, {"add": add})
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == "sorry"
    assert "are not a JSON object" in model.requests[1].messages[-1].text


def test_each_item_of_an_iteration_has_a_conversation_of_its_own() -> None:
    text = """
enable_summarization_node: false
max_concurrency: 2
assistants: [{id: a, system_prompt: p, tools: [{name: add}]}]
states:
- {id: split, assistant_id: a, next: {state_id: s, iter_key: items}}
- {id: s, assistant_id: a, task: "add {{task}}", next: {state_id: end}}
"""

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return json.dumps({f"k{last.text}": int(last.text)})
        number = int(last.text.rpartition(" ")[2])
        return asking(("add", {"a": number, "b": 10}))

    script = {"split": '{"items": [1, 2, 3, 4, 5]}'}
    app = load_workflow(text).compile(models=ScriptedModel(answer), tools={"add": add}, script=script)
    context = app.invoke({"input": "hi"})["context"]
    assert context == {"items": [1, 2, 3, 4, 5], **{f"k{number}": number for number in range(11, 16)}}
