"""Agents that hand a conversation over to each other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, StateGraph
from statewright.agents import AgentState, create_agent, tool
from statewright.agents.prebuilt.handoff import create_handoff_tool
from statewright.agents.prebuilt.supervisor import create_supervisor
from statewright.agents.prebuilt.swarm import create_swarm
from statewright.agents.tools import InjectedState, InjectedToolCallId
from statewright.channels import add_messages
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, UnknownTarget
from statewright.messages import Message, ToolCall
from statewright.models import ScriptedModel
from statewright.state import StateSchema

HI = {"messages": ["hi"]}
TO_A = create_handoff_tool(agent_name="a")
TO_B = create_handoff_tool(agent_name="b")


def agent(name: str, *script: Any, tools: Any = ()) -> Any:
    return create_agent(ScriptedModel(list(script)), tools, name=name)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_the_default_agent_starts() -> None:
    result = create_swarm([agent("a", "I am a."), agent("b")], default_active_agent="a").invoke(HI)

    assert (texts(result), result["active_agent"]) == (["hi", "I am a."], "a")


def test_a_handoff_passes_the_whole_conversation() -> None:
    second = ScriptedModel(["I am b."])
    app = create_swarm(
        [agent("a", ToolCall("1", "transfer_to_b"), tools=[TO_B]), create_agent(second, name="b")],
        default_active_agent="a",
    )
    result = app.invoke(HI)

    assert texts(result) == ["hi", "", "Handed over to b.", "I am b."]
    assert result["active_agent"] == "b"
    assert [message.text for message in second.requests[0].messages] == ["hi", "", "Handed over to b."]


def test_the_active_agent_is_kept_across_turns_of_a_thread(saver: Checkpointer) -> None:
    a = agent("a", ToolCall("1", "transfer_to_b"), "a again", tools=[TO_B])
    b = agent("b", "b one", "b two", ToolCall("2", "transfer_to_a"), tools=[TO_A])
    app = create_swarm([a, b], default_active_agent="a", checkpointer=saver)

    last = [texts(app.invoke(HI, thread_id="1"))[-1] for _ in range(3)]
    assert last == ["b one", "b two", "a again"]
    assert app.get_state(thread_id="1").values["active_agent"] == "a"
    assert app.get_state(thread_id="2").values.get("active_agent") is None


def test_a_caller_can_set_the_active_agent() -> None:
    app = create_swarm([agent("a"), agent("b", "I am b.")], default_active_agent="a")

    assert texts(app.invoke({**HI, "active_agent": "b"}))[-1] == "I am b."
    with pytest.raises(InvalidConfig, match=r"active_agent is 'bb'.*Did you mean 'b'"):
        app.invoke({**HI, "active_agent": "bb"})


def test_an_interrupt_is_resumed_in_the_active_agent(saver: Checkpointer) -> None:
    @tool(approve=True)
    def send() -> str:
        """Send."""
        return "sent"

    first = ScriptedModel([ToolCall("1", "transfer_to_b")])
    app = create_swarm(
        [create_agent(first, [TO_B], name="a"), agent("b", ToolCall("2", "send"), "done", tools=[send])],
        default_active_agent="a",
        checkpointer=saver,
    )

    waiting = app.invoke(HI, thread_id="1")
    assert [question.value["tool"] for question in waiting["__interrupt__"]] == ["send"]
    assert texts(asyncio.run(app.ainvoke(Command(resume=True), thread_id="1")))[-2:] == ["sent", "done"]
    assert len(first.requests) == 1


def test_only_the_first_of_several_handoffs_is_followed() -> None:
    to_c = create_handoff_tool(agent_name="c")
    calls = [ToolCall("1", "transfer_to_b"), ToolCall("2", "transfer_to_c")]
    app = create_swarm(
        [agent("a", calls, tools=[TO_B, to_c]), agent("b", "I am b."), agent("c")], default_active_agent="a"
    )
    result = app.invoke(HI)

    assert texts(result)[2:] == ["Handed over to b.", "Error: only one agent can take over, and b does.", "I am b."]
    assert result["messages"][3].metadata == {"status": "error"}


def test_tools_called_together_with_a_handoff_are_executed() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    calls = [ToolCall("1", "transfer_to_b"), ToolCall("2", "look")]
    app = create_swarm([agent("a", calls, tools=[TO_B, look]), agent("b", "I am b.")], default_active_agent="a")

    assert texts(app.invoke(HI)) == ["hi", "", "Handed over to b.", "seen", "I am b."]


def test_a_tool_can_hand_over_with_a_command_for_the_parent_graph() -> None:
    def go(state: Annotated[Any, InjectedState], call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Go to b."""
        messages = [*state["messages"], Message("gone", "tool", tool_call_id=call_id)]
        return Command(goto="b", graph=Command.PARENT, update={"messages": messages, "active_agent": "b"})

    app = create_swarm([agent("a", ToolCall("1", "go"), tools=[go]), agent("b", "I am b.")], default_active_agent="a")
    result = app.invoke(HI)
    assert (texts(result), result["active_agent"]) == (["hi", "", "gone", "I am b."], "b")


def test_the_structured_response_is_that_of_the_last_agent() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "title": "n"}
    first = create_agent(ScriptedModel([ToolCall("1", "transfer_to_b")]), [TO_B], response_format=form, name="a")
    second = create_agent(ScriptedModel(["ok", '{"n": 1}']), response_format=form, name="b")

    assert create_swarm([first, second], default_active_agent="a").invoke(HI)["structured_response"] == {"n": 1}


def test_a_supervisor_in_a_swarm_handles_its_own_handoffs() -> None:
    model = ScriptedModel([ToolCall("1", "transfer_to_deep"), "team done"])
    team = create_supervisor([agent("deep", "found")], model=model, name="team")

    assert texts(create_swarm([team], default_active_agent="team").invoke(HI))[-1] == "team done"


def test_a_swarm_in_a_swarm_has_an_active_agent_of_its_own(saver: Checkpointer) -> None:
    to_team = create_handoff_tool(agent_name="team")
    a = agent("a", ToolCall("1", "transfer_to_team"), tools=[to_team])
    deep = agent(
        "deep", ToolCall("2", "transfer_to_deeper"), "deep again", tools=[create_handoff_tool(agent_name="deeper")]
    )
    team = create_swarm([deep, agent("deeper", "I am deeper.")], default_active_agent="deep", name="team")
    app = create_swarm([a, team], default_active_agent="a", checkpointer=saver)

    first, second = (app.invoke(HI, thread_id="1") for _ in range(2))
    assert (texts(first)[-1], first["active_agent"]) == ("I am deeper.", "team")
    assert (texts(second)[-1], second["active_agent"]) == ("deep again", "team")


def test_a_swarm_can_be_drawn_streamed_and_used_as_a_node() -> None:
    app = create_swarm(
        [agent("a", ToolCall("1", "transfer_to_b"), tools=[TO_B]), agent("b", "I am b.")], default_active_agent="a"
    )
    arrows = {(edge.source.split(":")[-1], edge.target.split(":")[-1]) for edge in app.get_graph().edges}
    assert {("a", "b"), ("b", "a")} <= arrows

    outer = StateGraph(AgentState).add_node("swarm", app).add_edge(START, "swarm").compile()
    parts = [part for _, part in outer.stream(HI, stream_mode="messages", subgraphs=True)]
    assert {("b", "I"), ("b", " am"), ("b", " b.")} <= {(chunk.name, chunk.text) for chunk, _ in parts}


def test_a_handoff_to_an_unknown_agent_at_runtime_raises_unknown_target() -> None:
    metadata = {"handoff": {"to": "bb"}}

    def leave(state: Any) -> Any:
        calls = (ToolCall("1", "go"),)
        return {
            "messages": [Message("", "assistant", tool_calls=calls), Message("", "tool", None, "go", (), "1", metadata)]
        }

    graph = StateGraph(AgentState).add_node("leave", leave).add_edge(START, "leave").compile(name="a")
    with pytest.raises(UnknownTarget, match=r"'a' returned a handoff to 'bb'.*Did you mean 'b'"):
        create_swarm([graph, agent("b")], default_active_agent="a").invoke(HI)


def test_a_node_that_hands_over_to_its_own_agent_raises_unknown_target() -> None:
    message = Message("", "tool", tool_call_id="1", metadata={"handoff": {"to": "a"}})
    graph = StateGraph(AgentState).add_node("leave", lambda state: {"messages": [message]}).add_edge(START, "leave")
    with pytest.raises(UnknownTarget, match="'a' returned a handoff to 'a'"):
        create_swarm([graph.compile(name="a"), agent("b")], default_active_agent="a").invoke(HI)


def test_a_schema_that_is_passed_does_not_change() -> None:
    schema = StateSchema({"messages": add_messages})
    create_swarm([agent("a")], default_active_agent="a", state_schema=schema)
    create_supervisor([agent("a")], model=ScriptedModel(["done"]), state_schema=schema)
    assert schema.keys == ("messages",)


@dataclass
class InstanceState:
    messages: Annotated[list[Message], add_messages] = field(default_factory=list[Message])


@pytest.mark.parametrize("schema", [InstanceState, list[Message]])
@pytest.mark.parametrize(
    ("create", "owner"),
    [
        (lambda schema: create_agent(ScriptedModel([]), name="a", state_schema=schema), "agent 'a'"),
        (lambda schema: create_swarm([agent("a")], default_active_agent="a", state_schema=schema), "swarm 'swarm'"),
    ],
)
def test_a_state_that_is_not_a_mapping_is_refused(create: Any, owner: str, schema: Any) -> None:
    with pytest.raises(InvalidConfig, match=f"The state_schema of {owner} is '.*', which is not a mapping"):
        create(schema)


def test_a_custom_state_gets_the_fields_that_it_lacks() -> None:
    class State(TypedDict, total=False):
        x: int

    result = create_swarm([agent("a", "I am a.")], default_active_agent="a", state_schema=State).invoke({**HI, "x": 1})
    assert (texts(result)[-1], result["x"], result["active_agent"]) == ("I am a.", 1, "a")


@pytest.mark.parametrize(
    ("agents", "default", "message"),
    [
        ([], "a", "Swarm 'swarm' has no agents"),
        ([agent("a")], "aa", "default_active_agent of .* is 'aa'.*Did you mean 'a'"),
        ([agent("a"), agent("a")], "a", "two agents named 'a'"),
        ([agent("a", tools=[TO_B])], "a", "'transfer_to_b' of agent 'a' hands over to 'b', which is not an agent"),
        ([agent("a", tools=[TO_A])], "a", "hands over to the agent itself"),
        (None, "a", "None of type NoneType, which is not a compiled graph"),
    ],
)
def test_invalid_definitions_are_refused(agents: Any, default: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        create_swarm(agents, default_active_agent=default)
