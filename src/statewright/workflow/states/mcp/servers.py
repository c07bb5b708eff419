"""The servers of one compiled workflow: connected on first use, and released with the workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from statewright.agents import ToolContext, call_tool
from statewright.runtime.concurrency.worker_threads import call_in_thread
from statewright.workflow.states.language.model import McpServer as DeclaredServer
from statewright.workflow.states.mcp.resolve import ResolvedServer, ServerResolver

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer, McpTool, McpTools

T = TypeVar("T")


class ServerTool:
    """A tool of a server, for states and assistants, with secrets masked in its results."""

    def __init__(self, tool: McpTool, described: ResolvedServer) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self._tool = tool
        self._described = described

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        tool_context = replace(context, credentials=self._described.credentials)
        if not self._described.is_single:
            return await call_tool(self._tool, arguments, context=tool_context)
        async with _connection(self._described) as own:
            tool = await own.tool(self._tool.remote_name, server=self._described.server.name)
            return await call_tool(tool, arguments, context=tool_context)


class McpServers:
    """Provides the tools of servers. Equal configurations share a connection."""

    def __init__(self, descriptions: ServerResolver) -> None:
        self._descriptions = descriptions
        self._connected: dict[McpServer, McpTools] = {}

    async def tools(self, written: DeclaredServer, context: Mapping[str, Any]) -> list[ServerTool]:
        """Return all allowed tools of a server, named `<server>-<tool>`.

        Raises ToolError for a server that is not allowed, disabled, or not usable.
        """
        described = await self._resolve(written, context)
        if not described.is_single:
            return [
                ServerTool(tool, described)
                for tool in await _run_in_own_context(self._get_connection(described).tools())
            ]
        async with _connection(described) as mcp:
            return [ServerTool(tool, described) for tool in await mcp.tools()]

    async def tool(self, name: str, written: DeclaredServer, context: Mapping[str, Any]) -> ServerTool:
        """Return one tool by its name on the server. Raises ToolError if there is none, and what `tools` raises."""
        described = await self._resolve(written, context)
        server = described.server.name
        if not described.is_single:
            return ServerTool(
                await _run_in_own_context(self._get_connection(described).tool(name, server=server)), described
            )
        async with _connection(described) as mcp:
            return ServerTool(await mcp.tool(name, server=server), described)

    async def _resolve(self, written: DeclaredServer, context: Mapping[str, Any]) -> ResolvedServer:
        # On a worker thread, because DNS blocks.
        return await call_in_thread(lambda: self._descriptions.resolve(written, context))

    def _get_connection(self, described: ResolvedServer) -> McpTools:
        connected = self._connected.get(described.server)
        if connected is None:
            connected = self._connected.setdefault(described.server, _connection(described))
        return connected


def _connection(described: ResolvedServer) -> McpTools:
    from statewright.agents.mcp import McpTools  # imports the MCP client, which files without servers do not need

    return McpTools([described.server])


async def _run_in_own_context(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new context.

    A connection that it opens outlives the run that needed it first, and must not keep references to that run.
    """
    return await asyncio.create_task(coroutine, context=Context())
