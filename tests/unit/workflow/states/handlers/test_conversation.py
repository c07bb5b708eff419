"""Assistants with tools: calls of their models, and the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
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


def call_tools(*calls: tuple[str, dict[str, Any]]) -> Message:
    tool_calls = tuple(ToolCall(str(number), name, arguments) for number, (name, arguments) in enumerate(calls))
    return Message("", role="assistant", tool_calls=tool_calls)


def run(model: ScriptedModel, tool: Any = add) -> Any:
    return load_workflow(FLOW).compile(models=model, tools={"add": tool}).invoke({"input": "hi"})["result"]


def test_a_request_offers_the_existing_tools() -> None:
    model = ScriptedModel(["no"])
    assert run(model) == "no"
    (offered,) = model.requests[0].tools
    assert (offered.name, offered.description) == ("add", "Add two numbers.")
    assert offered.parameters["required"] == ["a", "b"]


def test_calls_are_made_and_their_results_sent_in_order() -> None:
    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "ten"])
    assert run(model) == "ten"
    answers = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [(message.content, message.tool_call_id) for message in answers] == [("3", "0"), ("7", "1")]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sub", {}, "Error: Tool 'sub' does not exist"),
        ("add", {"a": "x", "b": 1}, "Error: Tool 'add'"),
        ("nowhere", {}, "Error:"),
    ],
)
def test_an_invalid_call_is_reported_to_the_model(name: str, arguments: dict[str, Any], expected: str) -> None:
    model = ScriptedModel([call_tools((name, arguments)), "sorry"])
    assert run(model) == "sorry"
    assert str(model.requests[1].messages[-1].content).startswith(expected)


def test_an_error_of_a_tool_is_reported_to_the_model() -> None:
    def broken(a: int, b: int) -> int:
        raise ZeroDivisionError("by zero")

    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 0})), "sorry"])
    assert run(model, broken) == "sorry"
    assert "by zero" in str(model.requests[1].messages[-1].content)


def test_a_long_result_is_truncated_with_a_note() -> None:
    def long(a: int, b: int) -> str:
        return "x" * 100

    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 0})), "ok"])
    run(model, long)
    assert str(model.requests[1].messages[-1].content).startswith("x" * 40 + "\n[Cut off after 40 of 100")


def test_the_last_permitted_round_of_tool_calls_is_executed() -> None:
    rounds = [call_tools(("add", {"a": 1, "b": 2})) for _ in range(MAX_ROUNDS)]
    model = ScriptedModel([*rounds, "three"])
    assert run(model) == "three"


def test_the_rounds_of_tool_calls_are_limited() -> None:
    recorded: list[int] = []

    def recording_add(a: int, b: int) -> int:
        recorded.append(a)
        return a + b

    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 2}))], repeat_last=True)
    with pytest.raises(ModelAnswerInvalid, match=f"requested more than {MAX_ROUNDS} rounds of tool calls"):
        run(model, recording_add)
    assert len(recorded) == MAX_ROUNDS


# -- each step is saved, logged and retried separately


def build_app(
    model: Any, tools: dict[str, Any], state: str = "", assistant: str = "", more: str = "", saver: Any = None
) -> Any:
    text = f"""
enable_summarization_node: false
{more}
assistants: [{{id: a, system_prompt: p, tools: [{{name: add}}]{assistant}}}]
states: [{{id: s, assistant_id: a, task: add, {state}next: {{state_id: end}}}}]
"""
    return load_workflow(text).compile(models=model, tools=tools, checkpointer=saver or InMemorySaver())


def test_calls_of_models_and_tools_are_in_the_event_log() -> None:
    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 2})), "three"])
    app = build_app(model, {"add": add})
    app.invoke({"input": "hi"}, thread_id="t")
    assert app.checkpointer is not None
    kinds = [(event.kind, event.node) for event in app.checkpointer.events("t")]
    assert [kind for kind in kinds if kind[0].endswith("_called")] == [
        ("model_called", "model"),
        ("tool_called", "tools"),
        ("model_called", "model"),
    ]


def test_answers_and_results_are_streamed() -> None:
    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 2})), "it is three"])
    parts = build_app(model, {"add": add}).stream({"input": "hi"}, thread_id="t", stream_mode="messages")
    streamed = [(message.role, message.text) for message, _ in parts if message.text]
    assert streamed == [("tool", "3"), *[("assistant", word) for word in ("it", " is", " three")]]


def test_a_call_may_need_approval_without_repeating_the_others() -> None:
    recorded: list[int] = []

    def recording_add(a: int, b: int) -> int:
        recorded.append(a)
        return a + b

    guarded_add = ToolFunction(
        recording_add, name="add", options=ToolOptions(approve=lambda arguments, _: arguments["a"] == 1)
    )
    model = ScriptedModel([call_tools(("add", {"a": 0, "b": 1}), ("add", {"a": 1, "b": 1})), "done"])
    app = build_app(model, {"add": guarded_add})
    (question,) = app.invoke({"input": "hi"}, thread_id="t")["__interrupt__"]
    assert (question.value["tool"], recorded) == ("add", [0])
    assert app.invoke(Command(resume="yes"), thread_id="t")["result"] == "done"
    assert recorded == [0, 1]
    assert len(model.requests) == 2


def test_2_11_a_failed_model_call_is_retried_without_repeating_the_tools() -> None:
    recorded: list[int] = []

    def recording_add(a: int, b: int) -> int:
        recorded.append(a)
        return a + b

    busy = ModelUnavailable("busy", status=503)
    model = ScriptedModel([busy, call_tools(("add", {"a": 1, "b": 2})), busy, busy, "three"])
    state = "retry_policy: {initial_interval: 0, max_attempts: 3}, "
    app = build_app(model, {"add": recording_add}, state)
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == "three"
    assert recorded == [1]
    failing = ScriptedModel([busy] * 9)
    with pytest.raises(ModelUnavailable):
        build_app(failing, {"add": recording_add}, state).invoke({"input": "hi"}, thread_id="t")
    assert len(failing.requests) == 3


def test_loading_the_tools_of_a_resumed_call_is_retried_without_repeating_a_failed_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "unsteady_tools.py").write_text("""
from pathlib import Path

log = Path(__file__).with_suffix(".txt")
earlier = log.read_text() if log.exists() else ""
log.write_text(earlier + "import ")
if not earlier:
    raise ConnectionError("not reachable")

def add(a: int, b: int) -> int:
    log.write_text(log.read_text() + "call ")
    raise ConnectionError("not reachable either")
""")
    needs_approval = ToolFunction(add, name="add", options=ToolOptions(approve=True))
    model, saver = ScriptedModel([call_tools(("add", {"a": 1, "b": 2})), "sorry"]), InMemorySaver()
    state = "retry_policy: {initial_interval: 0, max_attempts: 3}, "
    build_app(model, {"add": needs_approval}, state, saver=saver).invoke({"input": "hi"}, thread_id="t")

    app = build_app(model, {"add": "unsteady_tools:add"}, state, saver=saver)
    assert app.invoke(Command(resume="yes"), thread_id="t")["result"] == "sorry"
    assert (tmp_path / "unsteady_tools.txt").read_text() == "import import call "


def test_2_8_an_invalid_answer_is_corrected_in_the_same_conversation() -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    model = ScriptedModel([call_tools(("add", {"a": 1, "b": 2})), '{"n": "x"}', '{"n": 3}'])
    app = build_app(model, {"add": add}, f"output_schema: '{schema}', ")
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == '{"n": 3}'
    roles = [message.role for message in model.requests[2].messages]
    assert roles == ["user", "user", "assistant", "tool", "assistant", "user"]
    assert "integer" in model.requests[2].messages[-1].text
    refusing = ScriptedModel(["[]"] * 4)
    with pytest.raises(ModelAnswerInvalid, match="after 3 attempts"):
        build_app(refusing, {"add": add}, f"output_schema: '{schema}', ").invoke({"input": "hi"}, thread_id="t")
    assert len(refusing.requests) == 3


def test_2_9_a_long_history_is_summarized_once() -> None:
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
    model = ScriptedModel(["1", "2", "in short", busy, call_tools(("add", {"a": 1, "b": 2})), "three"])
    app = load_workflow(text).compile(models=model, tools={"add": add})
    assert app.invoke({"input": "hi"})["result"] == "three"
    assert [request.metadata["state"] for request in model.requests] == ["one", "two", "summary", "s", "s", "s"]
    assert [message.text for message in model.requests[-1].messages[:3]] == ["hi", "in short", "add"]


def test_invalid_json_in_a_call_is_reported_to_the_model() -> None:
    wrong = Message("", role="assistant", tool_calls=(ToolCall("1", "add", {}, invalid='{"a": '),))
    model = ScriptedModel([wrong, "sorry"])
    app = build_app(model, {"add": add})
    assert app.invoke({"input": "hi"}, thread_id="t")["result"] == "sorry"
    assert "are not a JSON object" in model.requests[1].messages[-1].text


def test_each_item_of_an_iteration_has_its_own_conversation() -> None:
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
        return call_tools(("add", {"a": number, "b": 10}))

    script = {"split": '{"items": [1, 2, 3, 4, 5]}'}
    app = load_workflow(text).compile(models=ScriptedModel(answer), tools={"add": add}, script=script)
    context = app.invoke({"input": "hi"})["context"]
    assert context == {"items": [1, 2, 3, 4, 5], **{f"k{number}": number for number in range(11, 16)}}
