"""The tools of an assistant, with their credentials and with limits on the length of their results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from statewright.agents import Tool, ToolContext, call_tool
from statewright.agents.loop.request import tool_specs
from statewright.agents.tools.calling import tool_options
from statewright.errors import ToolError
from statewright.messages import Message
from statewright.models import ToolSpec
from statewright.workflow.states.handlers.call import truncate
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.tools import Integrations, ToolRegistry


class CredentialedTool:
    """A tool that is called with the current credentials of an integration."""

    def __init__(self, tool: Tool, alias: str | None, integrations: Integrations) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self.options = tool_options(tool)
        self._tool = tool
        self._alias = alias
        self._integrations = integrations

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        tool_context = replace(context, credentials=self._integrations.credentials(self._alias))
        return await call_tool(self._tool, arguments, context=tool_context)


class ToolSet:
    """The tools for one execution of a state, with the maximum lengths of their results in tokens."""

    def __init__(self, tools: Sequence[Tool], token_limit: int, limits_by_name: Mapping[str, int | None]) -> None:
        """Collect the tools. Raises ToolError for a duplicate name.

        Results are truncated to `token_limit` tokens, or to the tool's limit in `limits_by_name` if that is smaller.
        """
        self.by_name: dict[str, Tool] = {}
        self._token_limit = token_limit
        self._limits_by_name = limits_by_name
        for tool in tools:
            if self.by_name.setdefault(tool.name, tool) is not tool:
                raise ToolError(f"An assistant has two tools {tool.name!r}. Rename one of them, or its MCP server.")

    @cached_property
    def specs(self) -> list[ToolSpec]:
        """The descriptions for the model."""
        return tool_specs(self.by_name.values())

    def truncate_result(self, result: Message) -> Message:
        """Truncate the result of a tool to its token limit, and append a line that says so."""
        tool_limit = self._limits_by_name.get(result.name or "")
        text = result.text
        truncated = truncate(text, min(self._token_limit, tool_limit or self._token_limit))
        return result if truncated is text else replace(result, content=truncated)


class AssistantTools:
    """All tools of an assistant. Unknown tools are left out; `statewright check` warns about them."""

    def __init__(
        self, assistant: Assistant, registry: ToolRegistry, integrations: Integrations, servers: McpServers
    ) -> None:
        self._aliases_by_tool = {tool.name: tool.integration_alias for tool in assistant.tools if tool.name in registry}
        self._enabled_servers = [server for server in assistant.mcp_servers if server.enabled]
        self._registry = registry
        self._integrations = integrations
        self._servers = servers
        self._token_limit = assistant.limit_tool_output_tokens

    def __bool__(self) -> bool:
        return bool(self._aliases_by_tool or self._enabled_servers)

    async def load(self, scope: Mapping[str, Any]) -> ToolSet:
        """Return the current tools. Placeholders in the settings of servers are filled in from `scope`.

        Raises ToolError if an MCP server cannot be used, or the module of a tool cannot be imported.
        """
        tools: list[Tool] = [
            CredentialedTool(self._registry.get(name), alias, self._integrations)
            for name, alias in self._aliases_by_tool.items()
        ]
        limits: dict[str, int | None] = {}
        for server in self._enabled_servers:
            server_tools = await self._servers.tools(server, scope)
            tools += server_tools
            limits |= dict.fromkeys(
                (tool.name for tool in server_tools), server.settings.get("tools_tokens_size_limit")
            )
        return ToolSet(tools, self._token_limit, limits)


class LazyToolSet:
    """The tools of one execution of a state, loaded on first use."""

    def __init__(self, tools: AssistantTools, scope: Mapping[str, Any]) -> None:
        self._tools = tools
        self._scope = scope
        self._tool_set: ToolSet | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> ToolSet:
        """Return the tools. Raises the errors of `AssistantTools.load`; the next call then tries again."""
        async with self._lock:
            if self._tool_set is None:
                self._tool_set = await self._tools.load(self._scope)
            return self._tool_set
