"""The tools of several servers, without a server."""

import asyncio

import pytest

from statewright.agents.mcp import McpServer, McpTools
from statewright.errors import InvalidConfig, ToolError


def test_without_servers_there_are_no_tools() -> None:
    with McpTools([]) as tools:
        assert tools.load() == ()
        assert asyncio.run(tools.tools()) == ()


def test_servers_are_accepted_in_every_form() -> None:
    server = McpServer.stdio("a", "x")
    assert McpTools([server]).servers == McpTools({"a": {"command": "x"}}).servers == (server,)


def test_invalid_options_are_refused_before_a_server_starts() -> None:
    with pytest.raises(InvalidConfig, match="2 servers have this name"):
        McpTools([McpServer.stdio("a", "x"), McpServer.stdio("a", "y")])
    with pytest.raises(InvalidConfig, match="on_unavailable is 'ignore'"):
        McpTools([], on_unavailable="ignore")  # type: ignore[arg-type]


def test_a_disabled_server_is_not_started() -> None:
    with McpTools([McpServer.stdio("a", "no-such-program", enabled=False)]) as tools:
        assert tools.load() == ()
        with pytest.raises(ToolError, match=r"MCP server 'a' .* is disabled"):
            asyncio.run(tools.tool("x", server="a"))


def test_tools_can_be_closed_twice() -> None:
    tools = McpTools([McpServer.stdio("a", "no-such-program")])
    for _ in range(2):
        tools.close()
        with pytest.raises(ToolError, match=r"are closed"):
            tools.load()


def test_the_repr_shows_the_names_of_the_servers() -> None:
    assert repr(McpTools([McpServer.stdio("a", "x", env={"K": "s3cret"})])) == "McpTools(['a'])"
