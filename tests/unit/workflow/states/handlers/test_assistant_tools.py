"""The tools of an assistant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from statewright.agents import ToolContext, create_tool, tool
from statewright.errors import MissingApiKey, ToolError
from statewright.messages import Message
from statewright.workflow.states.handlers.assistant_tools import AssistantTools, CredentialedTool, LazyToolSet, ToolSet
from statewright.workflow.states.language.model import Assistant, AssistantTool, McpServer
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.mcp.resolve import ServerResolver
from statewright.workflow.states.tools import Integrations, ToolRegistry

GIT = Integrations({"git": {"token": "env:GIT_TOKEN"}})


@tool(strict=True)
def who(context: ToolContext) -> str:
    """Who asks."""
    return f"{context.credentials.alias} with {context.credentials.get('token')}"


def assistant_tools(assistant: Assistant) -> AssistantTools:
    registry = ToolRegistry()
    registry.register(who)
    return AssistantTools(assistant, registry, GIT, McpServers(ServerResolver(registry.settings, GIT, {})))


def test_existing_tools_are_offered_and_missing_ones_omitted() -> None:
    tools = assistant_tools(Assistant("a", tools=(AssistantTool("who"), AssistantTool("nowhere"))))
    (spec,) = asyncio.run(tools.load({})).specs
    assert (spec.name, spec.description, spec.strict) == ("who", "Who asks.", True)
    assert tools
    assert not assistant_tools(Assistant("a", tools=(AssistantTool("nowhere"),)))
    assert not assistant_tools(Assistant("a", mcp_servers=(McpServer("m", enabled=False),)))


def test_4_1_11_a_tool_gets_its_credentials_and_its_result_hides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", "t0ken-t0ken")
    tools = asyncio.run(assistant_tools(Assistant("a", tools=(AssistantTool("who", "git"),))).load({}))
    assert asyncio.run(tools.by_name["who"].call({}, context=ToolContext())) == "git with ***"
    monkeypatch.delenv("GIT_TOKEN")
    with pytest.raises(MissingApiKey, match="GIT_TOKEN"):
        asyncio.run(CredentialedTool(who, "git", GIT).call({}, context=ToolContext()))


def test_two_tools_with_the_same_name_are_rejected() -> None:
    one, two = (create_tool(name="x", handler=lambda arguments: arguments) for _ in range(2))
    with pytest.raises(ToolError, match="two tools 'x'"):
        ToolSet([one, two], 10, {})


def test_the_smallest_limit_applies() -> None:
    tools = ToolSet([], 5, {"short": 2, "long": 99})
    truncated: Any = {
        name: tools.truncate_result(Message("x" * 30, role="tool", name=name)).text for name in ("short", "long")
    }
    assert truncated["short"] == "x" * 8 + "\n[Cut off after 8 of 30 characters.]"
    assert truncated["long"] == "x" * 20 + "\n[Cut off after 20 of 30 characters.]"
    assert tools.truncate_result(Message("x", role="tool", name="other")).text == "x"


def test_tools_are_loaded_once_per_execution() -> None:
    async def load_twice() -> bool:
        tool_set = LazyToolSet(assistant_tools(Assistant("a", tools=(AssistantTool("who"),))), {})
        first, second = await asyncio.gather(tool_set.load(), tool_set.load())
        return first is second

    assert asyncio.run(load_twice())
