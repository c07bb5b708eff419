"""The tools of MCP servers, without starting one; tests/integration/workflow starts real ones."""

from __future__ import annotations

import asyncio

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.language.model import McpServer
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.mcp.resolve import ServerResolver
from statewright.workflow.states.tools import Integrations, ToolSettings


def test_forbidden_and_disabled_servers_are_not_started() -> None:
    servers = McpServers(ServerResolver(ToolSettings(), Integrations(), {}))
    with pytest.raises(ToolError, match="is not allowed"):
        asyncio.run(servers.tools(McpServer("m", config={"command": "sh"}), {}))
    with pytest.raises(ToolError, match="is disabled"):
        asyncio.run(servers.tool("t", McpServer("m", enabled=False), {}))


def test_a_missing_program_is_reported() -> None:
    settings = ToolSettings(mcp_commands=("no-such-program",))
    servers = McpServers(ServerResolver(settings, Integrations(), {}))
    for single in (False, True):
        server = McpServer("m", config={"command": "no-such-program", "single_usage": single})
        with pytest.raises(ToolError, match="could not be started"):
            asyncio.run(servers.tools(server, {}))
