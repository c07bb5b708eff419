"""Graphs as members of a group."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import START, RemoveMessage, StateGraph, add_messages, entrypoint
from statewright.agents import AgentState
from statewright.agents.prebuilt.member import Member, check_agents
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.state import read_schema


class Group(TypedDict, total=False):
    messages: Annotated[list[Message], add_messages]
    notes: Annotated[list[str], operator.add]
    topic: str
    structured_response: str


def graph(answer: Any, schema: Any = Group, **options: Any) -> Any:
    return (
        StateGraph(schema).add_node("work", lambda state: answer).add_edge(START, "work").compile(name="m", **options)
    )


def run(member: Member, given: dict[str, Any]) -> Any:
    """What a group's graph has after a node has called the member and passed everything on."""
    seen: list[Any] = []

    async def node(state: Any) -> Any:
        said = await member.call(state)
        seen.append(said)
        return said.to_report(said.messages)

    result = StateGraph(Group).add_node("n", node).add_edge(START, "n").compile().invoke(given)
    return seen[0], result


def test_what_a_member_writes_is_merged_once() -> None:
    answer = {"messages": [Message("new", "assistant")], "notes": ["b"], "topic": "y"}
    said, result = run(Member(graph(answer), read_schema(Group)), {"messages": ["old"], "notes": ["a"], "topic": "x"})

    assert [item.text for item in said.messages] == ["new"]
    assert said.last is not None
    assert said.last.text == "new"
    assert [item.text for item in result["messages"]] == ["old", "new"]
    assert (result["notes"], result["topic"]) == (["a", "b"], "y")


def test_a_member_that_is_an_entrypoint_answers_what_its_function_returns() -> None:
    flow = entrypoint()(
        lambda state: {"messages": [Message("new", "assistant")], "notes": ["a"], "structured_response": "s"}
    )
    member = Member(flow, read_schema(Group), shares_response=False)
    _, result = run(member, {"messages": ["old"], "notes": ["a"]})

    assert [item.text for item in result["messages"]] == ["old", "new"]
    assert result["notes"] == ["a", "a"]
    assert "structured_response" not in result


def test_a_member_may_keep_its_structured_response() -> None:
    member = Member(graph({"structured_response": "s", "topic": "y"}), read_schema(Group), shares_response=False)
    _, result = run(member, {"messages": [], "topic": "x"})

    assert (result["topic"], "structured_response" in result) == ("y", False)


def test_a_member_that_removes_messages_removes_them_in_the_group() -> None:
    member = Member(graph({"messages": [RemoveMessage("1")]}), read_schema(Group))
    said, result = run(member, {"messages": [Message("old", id="1"), Message("kept", id="2")]})

    assert said.last is None
    assert [item.text for item in result["messages"]] == ["kept"]


def test_a_member_whose_messages_do_not_merge_is_told_by_what_is_new() -> None:
    class Plain(TypedDict):
        messages: list[Message]

    class Checked(BaseModel):
        messages: list[Message] = []

    answer = {"messages": [Message("old", id="1"), Message("new", "assistant", id="2")]}
    for member_graph in (graph(answer, Plain), graph(answer, Checked, validate="all")):
        said, result = run(Member(member_graph, read_schema(Group)), {"messages": [Message("old", id="1")]})
        assert [item.text for item in said.messages] == ["new"]
        assert [item.text for item in result["messages"]] == ["old", "new"]


def test_a_member_can_be_drawn_under_another_label() -> None:
    member = Member(graph({}), read_schema(Group))

    assert list(member.metadata()["boxes"]) == ["m"]
    assert member.metadata("step")["boxes"]["step"]() is member.graph.graph


def test_it_works_on_a_running_loop() -> None:
    member = Member(graph({"messages": ["new"]}), read_schema(Group))

    async def node(state: Any) -> Any:
        return (await member.call(state)).to_report([])

    app = StateGraph(Group).add_node("n", node).add_edge(START, "n").compile()
    assert asyncio.run(app.ainvoke({"messages": ["old"]}))["messages"][0].text == "old"


def test_agents_are_known_by_their_names() -> None:
    only = graph({}, AgentState)

    assert check_agents([only], owner="Team") == {"m": only}


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ([], "Team has no agents"),
        ([lambda state: state], "not a compiled graph"),
        ([graph({}, TypedDict("Other", {"x": int}))], "agent 'm' of Team has no field 'messages' \\(fields: x\\)"),
    ],
)
def test_only_compiled_graphs_are_accepted(agents: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        check_agents(agents, owner="Team")
