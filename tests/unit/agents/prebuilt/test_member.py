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


def run(member: Member, values: dict[str, Any]) -> Any:
    """Call a member in a node of a group; return its answer and the state of the group."""
    answers: list[Any] = []

    async def node(state: Any) -> Any:
        answer_of_member = await member.call(state)
        answers.append(answer_of_member)
        return answer_of_member.to_subgraph_result(answer_of_member.messages)

    result = StateGraph(Group).add_node("n", node).add_edge(START, "n").compile().invoke(values)
    return answers[0], result


def test_updates_of_a_member_are_merged_once() -> None:
    answer = {"messages": [Message("new", "assistant")], "notes": ["b"], "topic": "y"}
    answer_of_member, result = run(
        Member(graph(answer), read_schema(Group)), {"messages": ["old"], "notes": ["a"], "topic": "x"}
    )

    assert [item.text for item in answer_of_member.messages] == ["new"]
    assert answer_of_member.last is not None
    assert answer_of_member.last.text == "new"
    assert [item.text for item in result["messages"]] == ["old", "new"]
    assert (result["notes"], result["topic"]) == (["a", "b"], "y")


def test_a_member_can_be_an_entrypoint() -> None:
    flow = entrypoint()(
        lambda state: {"messages": [Message("new", "assistant")], "notes": ["a"], "structured_response": "s"}
    )
    member = Member(flow, read_schema(Group), shares_response=False)
    _, result = run(member, {"messages": ["old"], "notes": ["a"]})

    assert [item.text for item in result["messages"]] == ["old", "new"]
    assert result["notes"] == ["a", "a"]
    assert "structured_response" not in result


def test_a_member_can_keep_its_structured_response() -> None:
    member = Member(graph({"structured_response": "s", "topic": "y"}), read_schema(Group), shares_response=False)
    _, result = run(member, {"messages": [], "topic": "x"})

    assert (result["topic"], "structured_response" in result) == ("y", False)


def test_removals_of_a_member_apply_to_the_group() -> None:
    member = Member(graph({"messages": [RemoveMessage("1")]}), read_schema(Group))
    answer_of_member, result = run(member, {"messages": [Message("old", id="1"), Message("kept", id="2")]})

    assert answer_of_member.last is None
    assert [item.text for item in result["messages"]] == ["kept"]


def test_only_new_messages_of_a_member_without_a_reducer_are_reported() -> None:
    class Plain(TypedDict):
        messages: list[Message]

    class Checked(BaseModel):
        messages: list[Message] = []

    answer = {"messages": [Message("old", id="1"), Message("new", "assistant", id="2")]}
    for member_graph in (graph(answer, Plain), graph(answer, Checked, validate="all")):
        answer_of_member, result = run(Member(member_graph, read_schema(Group)), {"messages": [Message("old", id="1")]})
        assert [item.text for item in answer_of_member.messages] == ["new"]
        assert [item.text for item in result["messages"]] == ["old", "new"]


def test_a_member_can_be_drawn_under_another_label() -> None:
    member = Member(graph({}), read_schema(Group))

    assert list(member.metadata()["boxes"]) == ["m"]
    assert member.metadata("step")["boxes"]["step"]() is member.graph.graph


def test_a_member_can_be_called_on_an_event_loop() -> None:
    member = Member(graph({"messages": ["new"]}), read_schema(Group))

    async def node(state: Any) -> Any:
        return (await member.call(state)).to_subgraph_result([])

    app = StateGraph(Group).add_node("n", node).add_edge(START, "n").compile()
    assert asyncio.run(app.ainvoke({"messages": ["old"]}))["messages"][0].text == "old"


def test_agents_are_returned_by_name() -> None:
    member_graph = graph({}, AgentState)

    assert check_agents([member_graph], owner="Team") == {"m": member_graph}


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
