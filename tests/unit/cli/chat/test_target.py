"""The targets of a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright.cli.chat.target import load_chat_target
from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.models import NO_MODELS
from statewright.messages import Message

CREW = """
from statewright import MessagesState, START, StateGraph
from statewright.agents import Agent, Network
from statewright.models import ScriptedModel

def echo(state):
    return {"messages": [("assistant", "You said " + state["messages"][-1].text)]}

graph = StateGraph(MessagesState).add_node("echo", echo).add_edge(START, "echo")
first = Agent("first", model=ScriptedModel(["one"], repeat_last=True))
second = Agent("second", model=ScriptedModel(["two"], repeat_last=True))
team = Network("team", agents=[first, second], router=lambda call_count: ["first", "second", None][call_count])
"""
FLOW = """
enable_summarization_node: false
tools: [{id: t, tool: my_tool}]
states: [{id: one, tool_id: t, next: {state_id: end}}]
"""


@pytest.fixture(autouse=True)
def crew(folder: Path) -> None:
    (folder / "crew.py").write_text(CREW, encoding="utf-8")
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")


def past_of(target: str) -> list[tuple[str, str]]:
    subject = load_chat_target(target, NO_MODELS)
    values = subject.app.invoke(subject.make_input("hello"))
    return [(message.role, message.text) for message in subject.past_messages(values)]


@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("crew.py:graph", [("user", "hello"), ("assistant", "You said hello")]),
        ("crew.py:first", [("user", "hello"), ("assistant", "one")]),
        ("crew.py:team", [("user", "hello"), ("assistant", "one"), ("assistant", "two")]),
    ],
)
def test_a_user_message_is_input_and_part_of_the_history(target: str, messages: list[tuple[str, str]]) -> None:
    assert past_of(target) == messages


@pytest.mark.parametrize(
    ("target", "names", "answers"),
    [
        ("crew.py:graph", False, False),
        ("crew.py:first", False, False),
        ("crew.py:team", True, False),
        ("flow.yaml", False, True),
    ],
)
def test_targets_with_several_speakers_or_answers_at_breakpoints(target: str, names: bool, answers: bool) -> None:
    subject = load_chat_target(target, NO_MODELS)
    assert (subject.has_several_speakers, subject.answers_breakpoints) == (names, answers)


def test_a_graph_without_messages_cannot_chat(flow: Path) -> None:
    with pytest.raises(UsageError, match=r"no field `messages`\. Run it with `statewright run"):
        load_chat_target(f"{flow}:graph", NO_MODELS)


@pytest.mark.parametrize(
    ("values", "is_over", "answer"),
    [
        ({"result": "done", "visits": [{"output": "done"}]}, True, "done"),
        ({"result": {"n": 1}, "visits": []}, True, '{\n  "n": 1\n}'),
        ({"result": None, "visits": []}, True, ""),
        ({"result": "of the run before", "visits": [{"output": "so far"}]}, False, "so far"),
    ],
)
def test_a_workflow_answers_with_its_result_or_its_last_output(
    values: dict[str, Any], is_over: bool, answer: str
) -> None:
    assert load_chat_target("flow.yaml", NO_MODELS).final_answer(values, is_over=is_over) == answer


def test_a_graph_over_messages_streams_its_answer() -> None:
    assert load_chat_target("crew.py:graph", NO_MODELS).final_answer({"messages": [Message("x")]}, is_over=True) == ""
