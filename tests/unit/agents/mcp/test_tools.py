"""The tools of several servers, without a server."""

import asyncio

import pytest

from statewright.agents.mcp import McpServer, McpTools
from statewright.errors import InvalidConfig, ToolError


def test_no_servers_have_no_tools() -> None:
    with McpTools([]) as tools:
        assert tools.load() == ()
        assert asyncio.run(tools.tools()) == ()


def test_servers_are_taken_in_every_form() -> None:
    made = McpServer.stdio("a", "x")
    assert McpTools([made]).servers == McpTools({"a": {"command": "x"}}).servers == (made,)


def test_what_is_described_wrongly_is_told_before_anything_is_started() -> None:
    with pytest.raises(InvalidConfig, match="2 servers have this name"):
        McpTools([McpServer.stdio("a", "x"), McpServer.stdio("a", "y")])
    with pytest.raises(InvalidConfig, match="on_unavailable is 'ignore'"):
        McpTools([], on_unavailable="ignore")  # type: ignore[arg-type]


def test_a_server_that_is_not_enabled_is_not_started() -> None:
    with McpTools([McpServer.stdio("a", "no-such-program", enabled=False)]) as tools:
        assert tools.load() == ()
        with pytest.raises(ToolError, match=r"MCP server 'a' .* is disabled"):
            asyncio.run(tools.tool("x", server="a"))


def test_closing_twice_is_closing_once() -> None:
    tools = McpTools([McpServer.stdio("a", "no-such-program")])
    for _ in range(2):
        tools.close()
        with pytest.raises(ToolError, match=r"are closed"):
            tools.load()


def test_it_is_shown_by_the_names_of_its_servers() -> None:
    assert repr(McpTools([McpServer.stdio("a", "x", env={"K": "s3cret"})])) == "McpTools(['a'])"
