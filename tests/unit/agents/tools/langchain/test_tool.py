"""Tools of LangChain as tools of Statewright."""

from __future__ import annotations

from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as langchain_tool

from statewright.agents import create_agent
from statewright.agents.tools import LangChainTool
from statewright.messages import ToolCall
from statewright.models import ScriptedModel


@langchain_tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


async def say_later(word: str) -> str:
    """Say a word, later."""
    return f"{word}!"


def test_a_tool_has_its_name_description_and_parameters() -> None:
    langchain_tool_of = LangChainTool(multiply)
    assert (langchain_tool_of.name, langchain_tool_of.description) == ("multiply", "Multiply two numbers.")
    assert langchain_tool_of.parameters["required"] == ["a", "b"]


def test_an_agent_calls_the_tool_and_receives_validation_errors() -> None:
    later_tool = StructuredTool.from_function(coroutine=say_later, name="late", description="Say a word.")
    calls = [
        ToolCall("1", "multiply", {"a": 6, "b": 7}),
        ToolCall("2", "multiply", {"a": "six", "b": 7}),
        ToolCall("3", "late", {"word": "now"}),
    ]
    state = create_agent(ScriptedModel([calls, "end"]), [multiply, later_tool]).invoke({"messages": "go"})
    results = {message.tool_call_id: message for message in state["messages"] if message.role == "tool"}
    assert (results["1"].text, results["3"].text) == ("42", "now!")
    assert results["2"].metadata == {"status": "error"}
    assert "wrong arguments: a: " in results["2"].text
