"""The servers of one compiled workflow: connected when a tool of theirs is first wanted, released with the workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from statewright.agents import ToolContext, call_tool
from statewright.runtime.thread_calls import call_in_thread
from statewright.workflow.states.language.model import McpServer as Written
from statewright.workflow.states.mcp.resolve import Described, Descriptions

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer, McpTool, McpTools

T = TypeVar("T")


class ServerTool:
    """A tool of a server, as states and assistants call it: what is secret does not come back."""

    def __init__(self, tool: McpTool, described: Described) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self._tool = tool
        self._described = described

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        given = replace(context, credentials=self._described.credentials)
        if not self._described.is_single:
            return await call_tool(self._tool, arguments, context=given)
        async with _connection(self._described) as own:
            tool = await own.tool(self._tool.remote_name, server=self._described.server.name)
            return await call_tool(tool, arguments, context=given)


class McpServers:
    """Gives the tools of servers by how they are described; who describes one alike shares its connection."""

    def __init__(self, descriptions: Descriptions) -> None:
        self._descriptions = descriptions
        self._connected: dict[McpServer, McpTools] = {}

    async def tools(self, written: Written, context: Mapping[str, Any]) -> list[ServerTool]:
        """All tools of a server that may be used, named `<server>-<tool>`.

        Raises ToolError for a server that is not allowed, that is disabled, or that cannot be used.
        """
        described = await self._described(written, context)
        if not described.is_single:
            return [ServerTool(tool, described) for tool in await _apart(self._lasting(described).tools())]
        async with _connection(described) as mcp:
            return [ServerTool(tool, described) for tool in await mcp.tools()]

    async def tool(self, name: str, written: Written, context: Mapping[str, Any]) -> ServerTool:
        """One tool, by the name that its server knows. Raises ToolError if there is none, and what `tools` raises."""
        described = await self._described(written, context)
        server = described.server.name
        if not described.is_single:
            return ServerTool(await _apart(self._lasting(described).tool(name, server=server)), described)
        async with _connection(described) as mcp:
            return ServerTool(await mcp.tool(name, server=server), described)

    async def _described(self, written: Written, context: Mapping[str, Any]) -> Described:
        # Not on the loop: a host is looked up.
        return await call_in_thread(lambda: self._descriptions.described(written, context))

    def _lasting(self, described: Described) -> McpTools:
        connected = self._connected.get(described.server)
        if connected is None:
            connected = self._connected.setdefault(described.server, _connection(described))
        return connected


def _connection(described: Described) -> McpTools:
    from statewright.agents.mcp import McpTools  # a client of the protocol, which files without servers do not need

    return McpTools([described.server])


async def _apart(asked: Coroutine[Any, Any, T]) -> T:
    """The answer of a coroutine that runs in a context of its own.

    A connection that it opens lives on: it must not hold the run that was the first to want it.
    """
    return await asyncio.create_task(asked, context=Context())
