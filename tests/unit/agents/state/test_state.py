"""The state of a network: its data, its turns, and its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright.agents import Agent, AgentResult, Network, State
from statewright.agents.state.state import user_turn
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.messages import Message
from statewright.models import ScriptedModel

AT = datetime(2026, 1, 2, tzinfo=UTC)


def result(name: str, text: str) -> AgentResult:
    return AgentResult(agent_name=name, messages=[Message(text, role="assistant")], created_at=AT)


@dataclass
class Edit:
    filename: str
    on: date


@dataclass
class Plain:
    done: bool = False
    edits: list[Edit] = field(default_factory=list[Edit])
    seen: set[str] = field(default_factory=set[str])


class Model(BaseModel):
    done: bool = False
    edits: list[Edit] = []
    seen: set[str] = set()


class Typed(TypedDict):
    done: bool
    edits: list[Edit]
    seen: set[str]


def endless_list() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


EDITS = [Edit("a.py", date(2026, 1, 2))]


def test_turns_include_the_user_and_results_do_not() -> None:
    state: State[Any] = State(results=[user_turn(Message("hi")), result("a", "x"), result("b", "y")])
    assert [turn.agent_name for turn in state.turns] == ["user", "a", "b"]
    assert [result.agent_name for result in state.results] == ["a", "b"]
    assert [result.agent_name for result in state.results_from(1)] == ["b"]
    assert state.results_from(5) == []


def test_lists_of_a_state_are_copies() -> None:
    state: State[Any] = State(messages=["m"], results=[result("a", "x")])
    state.messages.clear()
    state.turns.clear()
    state.results.clear()
    assert (len(state.messages), len(state.turns)) == (1, 1)


def test_results_are_added_and_replaced() -> None:
    state: State[Any] = State()
    state.append_result(result("a", "x"))
    assert [result.text for result in state.results] == ["x"]
    state.set_results(iter([result("b", "y")]))
    assert [result.text for result in state.results] == ["y"]


def test_the_history_contains_messages_and_then_results() -> None:
    state: State[Any] = State(messages=["seed"], results=[user_turn(Message("hi")), result("a", "x")])
    assert [message.text for message in state.format_history()] == ["seed", "hi", "x"]
    formatted = state.format_history(lambda one: [Message(f"{one.agent_name}: {one.text}".upper())])
    assert [message.text for message in formatted] == ["seed", "USER: HI", "A: X"]


def test_messages_can_have_any_form() -> None:
    state: State[Any] = State(messages=["text", ("assistant", "pair"), {"role": "user", "content": "dict"}])
    assert [(message.role, message.text) for message in state.messages] == [
        ("user", "text"),
        ("assistant", "pair"),
        ("user", "dict"),
    ]
    with pytest.raises(InvalidUpdateError):
        State(messages=[3])


def test_a_clone_is_independent() -> None:
    state: State[Any] = State({"files": ["a"]}, messages=["m"], thread_id="t")
    other = state.clone()
    other.data.files.append("b")
    other.append_result(result("a", "x"))
    assert (state.data.files, state.results) == (["a"], [])
    assert (other.data.files, other.thread_id, len(other.messages)) == (["a", "b"], "t", 1)


@pytest.mark.parametrize("source", [Plain, Model, Typed])
def test_a_state_survives_a_round_trip_through_json(source: Any) -> None:
    values = {"done": True, "edits": EDITS, "seen": {"a"}}
    schema = source if source is Typed else None
    before: State[Any] = State(
        source(**values),
        schema=schema,
        messages=["seed"],
        results=[user_turn(Message("hi", id="u")), result("a", "x")],
        thread_id="t-1",
    )
    written = json.loads(json.dumps(before.to_json()))
    after = State.from_json(written, source)
    assert written["threadId"] == "t-1"
    assert (after.data.done, after.data.edits, after.data.seen) == (True, EDITS, {"a"})
    assert after.thread_id == "t-1"
    assert after.turns == before.turns
    assert after.messages == before.messages
    assert after.to_json() == before.to_json()


def test_a_state_without_a_class_is_read_as_plain_json() -> None:
    before: State[Any] = State({"plan": {"edits": [1, None, "x"]}, "on": date(2026, 1, 2)})
    after = State.from_json(json.loads(json.dumps(before.to_json())))
    assert dict(after.data) == {"plan": {"edits": [1, None, "x"]}, "on": "2026-01-02"}
    assert after.thread_id is None


def test_json_of_other_libraries_can_be_read() -> None:
    written = {
        "data": {"done": True},
        "_messages": [{"role": "user", "content": "seed"}],
        "_results": [{"agentName": "a", "output": [], "toolCalls": [], "createdAt": "2026-01-01T00:00:00Z"}],
    }
    state = State.from_json(written)
    assert (dict(state.data), [message.text for message in state.messages], len(state.results)) == (
        {"done": True},
        ["seed"],
        1,
    )


@pytest.mark.parametrize(
    "written",
    [
        None,
        "text",
        [],
        {"data": 3},
        {"data": [1]},
        {"messages": 3},
        {"results": 3},
        {"results": [1]},
        {"results": [None]},
        {"results": [{"agentName": "a"}]},
        {"results": [{"agentName": "a", "messages": [], "createdAt": "yesterday"}]},
        {"results": [{"agentName": "a", "messages": [], "createdAt": "2026-01-01", "usage": {"apples": 1}}]},
    ],
)
def test_an_invalid_state_is_refused(written: Any) -> None:
    with pytest.raises(InvalidConfig):
        State.from_json(written)


@pytest.mark.parametrize("data", [{"done": "perhaps"}, {"edits": [{"filename": "a"}]}])
def test_data_that_does_not_fit_the_class_is_refused(data: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"done|edits"):
        State.from_json({"data": data}, Model)


@pytest.mark.parametrize(
    ("value", "written"),
    [(float("nan"), None), (float("inf"), None), ({"deep": [float("nan")]}, {"deep": [None]})],
)
def test_nan_and_infinity_become_null(value: Any, written: Any) -> None:
    data = State({"odd": value}).to_json()
    assert json.loads(json.dumps(data, allow_nan=False))["data"]["odd"] == written


@pytest.mark.parametrize("value", [b"\xff\xfe", object(), lambda: None, endless_list()])
def test_values_that_are_not_json_are_named_in_the_error(value: Any) -> None:
    with pytest.raises(InvalidConfig, match="'odd'"):
        State({"fine": 1, "odd": value}).to_json()


def test_a_conversation_can_continue_from_its_json() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model=model)
    network: Network[Any] = agent.alone(state={"turn": 0})
    first = network.run("hello")
    restored = State.from_json(json.loads(json.dumps(first.state.to_json())))
    second = network.run("and now?", state=restored)
    assert [message.text for message in model.requests[1].messages] == ["hello", "one", "and now?"]
    assert [result.text for result in second.results] == ["one", "two"]
    assert [result.text for result in restored.results] == ["one"]
