"""Agents as graphs and as nodes: tools, a scripted model, a network."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, CompiledGraph, Message, StateGraph, ToolCall
from statewright.agents import Agent, AgentState, create_agent, tool
from statewright.models import ModelRequest, ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="look_up", timeout=10)
async def look(word: str) -> str:
    """Look a word up."""
    return word.upper()


class State(TypedDict):
    messages: list[Message]


def shorten(state: AgentState) -> dict[str, Any]:
    return {"llm_input_messages": state["messages"][-3:]}


def say(request: ModelRequest) -> str:
    return f"{len(request.messages)} messages"


def main() -> None:
    model = ScriptedModel([[ToolCall(id="1", name="add", arguments={"a": 1, "b": 2})], "It is 3."])
    app: CompiledGraph = create_agent(model, [add, look], prompt="Be brief.", pre_model_hook=shorten)
    result = app.invoke({"messages": "What is 1 + 2?"})
    assert result["messages"][-1].text == "It is 3."
    helper = create_agent(ScriptedModel(say), name="helper")
    graph = StateGraph(AgentState).add_node("helper", helper).add_edge(START, "helper").compile()
    assert graph.invoke({"messages": "hi"})["messages"][-1].text.endswith("messages")
    assert Agent(name="clerk", model=ScriptedModel(["Yes."])).run("Well?").text == "Yes."
