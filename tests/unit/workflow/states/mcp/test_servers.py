"""The tools of servers, without one that is started; with real ones in tests/integration/workflow."""

from __future__ import annotations

import asyncio

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.language.model import McpServer
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.mcp.resolve import ServerResolver
from statewright.workflow.states.tools import Integrations, ToolSettings


def test_nothing_is_started_that_is_not_allowed_or_disabled() -> None:
    servers = McpServers(ServerResolver(ToolSettings(), Integrations(), {}))
    with pytest.raises(ToolError, match="is not allowed"):
        asyncio.run(servers.tools(McpServer("m", config={"command": "sh"}), {}))
    with pytest.raises(ToolError, match="is disabled"):
        asyncio.run(servers.tool("t", McpServer("m", enabled=False), {}))


def test_a_program_that_is_not_there_is_told() -> None:
    settings = ToolSettings(mcp_commands=("no-such-program",))
    servers = McpServers(ServerResolver(settings, Integrations(), {}))
    for single in (False, True):
        server = McpServer("m", config={"command": "no-such-program", "single_usage": single})
        with pytest.raises(ToolError, match="could not be started"):
            asyncio.run(servers.tools(server, {}))
