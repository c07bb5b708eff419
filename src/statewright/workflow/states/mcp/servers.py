"""The MCP servers of one compiled workflow, which are connected on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from statewright.agents import ToolContext, call_tool
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.workflow.states.language.model import McpServer as DeclaredServer
from statewright.workflow.states.mcp.resolve import ResolvedServer, ServerResolver

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer, McpTool, McpTools

T = TypeVar("T")


class ServerTool:
    """A tool of a server. Secrets of the server are masked in its results."""

    def __init__(self, tool: McpTool, resolved: ResolvedServer) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self._tool = tool
        self._resolved = resolved

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        tool_context = replace(context, credentials=self._resolved.credentials)
        if not self._resolved.is_single_use:
            return await call_tool(self._tool, arguments, context=tool_context)
        async with _make_connection(self._resolved) as mcp:
            tool = await mcp.tool(self._tool.remote_name, server=self._resolved.server.name)
            return await call_tool(tool, arguments, context=tool_context)


class McpServers:
    """Provides the tools of servers. Servers with equal configurations share a connection."""

    def __init__(self, resolver: ServerResolver) -> None:
        self._resolver = resolver
        self._connections: dict[McpServer, McpTools] = {}

    async def tools(self, declaration: DeclaredServer, context: Mapping[str, Any]) -> list[ServerTool]:
        """Return all allowed tools of a server, named `<server>-<tool>`.

        Raises ToolError for a server that is disabled, not allowed, or cannot be used.
        """
        resolved = await self._resolve(declaration, context)
        return [ServerTool(tool, resolved) for tool in await self._request(resolved, lambda mcp: mcp.tools())]

    async def tool(self, name: str, declaration: DeclaredServer, context: Mapping[str, Any]) -> ServerTool:
        """Return one tool by its name on the server. Raises ToolError if it does not exist, or as `tools` does."""
        resolved = await self._resolve(declaration, context)
        server = resolved.server.name
        return ServerTool(await self._request(resolved, lambda mcp: mcp.tool(name, server=server)), resolved)

    async def _resolve(self, declaration: DeclaredServer, context: Mapping[str, Any]) -> ResolvedServer:
        # On a worker thread, because DNS blocks.
        return await call_in_thread(lambda: self._resolver.resolve(declaration, context))

    async def _request(self, resolved: ResolvedServer, request: Callable[[McpTools], Coroutine[Any, Any, T]]) -> T:
        """Send a request over the shared connection to a server, or over a new connection for a single-use server."""
        if resolved.is_single_use:
            async with _make_connection(resolved) as mcp:
                return await request(mcp)
        mcp = self._connections.get(resolved.server)
        if mcp is None:
            mcp = self._connections.setdefault(resolved.server, _make_connection(resolved))
        # The request runs in a new context, because the first request opens the connection, which outlives the run and
        # must not keep references to it.
        return await asyncio.create_task(request(mcp), context=Context())


def _make_connection(resolved: ResolvedServer) -> McpTools:
    from statewright.agents.mcp import McpTools  # imports the MCP client, which workflows without servers do not need

    return McpTools([resolved.server])
