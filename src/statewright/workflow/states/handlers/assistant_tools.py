"""The tools of an assistant as its model is offered them: with credentials, and answers that are not too long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from statewright.agents import Tool, ToolContext, ToolOptions, call_tool
from statewright.errors import ToolError
from statewright.messages import Message
from statewright.models import ToolSpec
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.tools import Integrations, ToolRegistry

CHARACTERS_A_TOKEN: Final = 4


class WithCredentials:
    """A tool that is given the values of an integration, as they are when it is called."""

    def __init__(self, tool: Tool, alias: str | None, integrations: Integrations) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self.options: ToolOptions = getattr(tool, "options", None) or ToolOptions()
        self._tool = tool
        self._alias = alias
        self._integrations = integrations

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        given = replace(context, credentials=self._integrations.credentials(self._alias))
        return await call_tool(self._tool, arguments, context=given)


class Offered:
    """The tools for one execution of a state. Raises ToolError for two of one name."""

    def __init__(self, tools: Sequence[Tool], longest: int, longest_by_name: Mapping[str, int | None]) -> None:
        self.by_name: dict[str, Tool] = {}
        self._longest = longest
        self._longest_by_name = longest_by_name
        for tool in tools:
            if self.by_name.setdefault(tool.name, tool) is not tool:
                raise ToolError(f"An assistant has two tools {tool.name!r}. Rename a tool, or the MCP server it is of.")

    @cached_property
    def specs(self) -> list[ToolSpec]:
        """What the model is told of them."""
        return [_spec(tool) for tool in self.by_name.values()]

    def shortened(self, answer: Message) -> Message:
        """The answer of a tool with no more tokens than it may have, and a last line that says so."""
        own = self._longest_by_name.get(answer.name or "")
        most = min(self._longest, own or self._longest) * CHARACTERS_A_TOKEN
        text = answer.text
        if len(text) <= most:
            return answer
        return replace(answer, content=f"{text[:most]}\n[Cut off after {most} of {len(text)} characters.]")


class OfferedTools:
    """All that one assistant may call. What is nowhere is not offered; `check` warns of it."""

    def __init__(
        self, assistant: Assistant, registry: ToolRegistry, integrations: Integrations, servers: McpServers
    ) -> None:
        self._aliases = {tool.name: tool.integration_alias for tool in assistant.tools if tool.name in registry}
        self._described = [server for server in assistant.mcp_servers if server.enabled]
        self._registry = registry
        self._integrations = integrations
        self._servers = servers
        self._longest = assistant.limit_tool_output_tokens

    def __bool__(self) -> bool:
        return bool(self._aliases or self._described)

    async def offered(self, scope: Mapping[str, Any]) -> Offered:
        """The tools as they are now, for a state that sees `scope`.

        Raises ToolError for a server or a module that cannot be used.
        """
        tools: list[Tool] = [
            WithCredentials(self._registry.get(name), alias, self._integrations)
            for name, alias in self._aliases.items()
        ]
        longest: dict[str, int | None] = {}
        for server in self._described:
            found = await self._servers.tools(server, scope)
            tools += found
            longest |= dict.fromkeys((tool.name for tool in found), server.settings.get("tools_tokens_size_limit"))
        return Offered(tools, self._longest, longest)


class OfferedOnce:
    """The tools of one execution of a state, found out when they are first wanted."""

    def __init__(self, tools: OfferedTools, scope: Mapping[str, Any]) -> None:
        self._tools = tools
        self._scope = scope
        self._found: Offered | None = None
        self._lock = asyncio.Lock()

    async def found(self) -> Offered:
        """The tools. Raises what `OfferedTools.offered` raises, and tries anew the next time."""
        async with self._lock:
            if self._found is None:
                self._found = await self._tools.offered(self._scope)
            return self._found


def _spec(tool: Tool) -> ToolSpec:
    options: ToolOptions | None = getattr(tool, "options", None)
    return ToolSpec(tool.name, tool.description, tool.parameters, options.strict if options is not None else None)
