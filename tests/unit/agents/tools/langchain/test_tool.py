"""Tools of LangChain where tools of ours are wanted."""

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


async def late(word: str) -> str:
    """Say a word, later."""
    return f"{word}!"


def test_it_says_what_it_is_and_takes() -> None:
    made = LangChainTool(multiply)
    assert (made.name, made.description) == ("multiply", "Multiply two numbers.")
    assert made.parameters["required"] == ["a", "b"]


def test_an_agent_calls_it_and_is_told_of_wrong_arguments() -> None:
    said = StructuredTool.from_function(coroutine=late, name="late", description="Say a word.")
    asked = [
        ToolCall("1", "multiply", {"a": 6, "b": 7}),
        ToolCall("2", "multiply", {"a": "six", "b": 7}),
        ToolCall("3", "late", {"word": "now"}),
    ]
    state = create_agent(ScriptedModel([asked, "end"]), [multiply, said]).invoke({"messages": "go"})
    results = {message.tool_call_id: message for message in state["messages"] if message.role == "tool"}
    assert (results["1"].text, results["3"].text) == ("42", "now!")
    assert results["2"].metadata == {"status": "error"}
    assert "wrong arguments: a: " in results["2"].text
