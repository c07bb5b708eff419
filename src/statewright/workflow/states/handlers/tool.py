"""Tool states, which call a tool without a model.

Arguments in the workflow file take precedence. Only arguments that are absent or null there are read from the context,
by their names. So a model that answers with a key `path` cannot override a path in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final, cast

from statewright.agents import Tool, ToolContext, as_text, call_tool
from statewright.data.mappings import without_none
from statewright.errors import RoutingError, ToolError
from statewright.workflow.states.expressions.paths import get_at_path, get_at_pointer
from statewright.workflow.states.handlers.call import Call, Outcome, render_for_state, truncate
from statewright.workflow.states.language.model import Tool as ToolDefinition
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.templates import parse_template, render_off_loop, render_values
from statewright.workflow.states.tools import Integrations, ToolRegistry

_TRACE_LIMIT: Final = 2_000
"""Maximum characters of a result in a trace."""


class ToolStateHandler:
    """Calls one tool."""

    def __init__(
        self, tool: ToolDefinition, registry: ToolRegistry, integrations: Integrations, servers: McpServers
    ) -> None:
        self._tool = tool
        self._registry = registry
        self._integrations = integrations
        self._servers = servers

    async def perform(self, call: Call) -> Outcome:
        """Call the tool. Raises ToolError for permanent failures, and any error that the tool raises."""
        definition, tool = self._tool, await self._find_tool(call)
        arguments = await build_arguments(definition, tool, call)
        context = ToolContext(
            self._integrations.credentials(definition.integration_alias),
            call.runtime.stream_writer,
            call.runtime.idempotency_key,
            runtime=call.runtime,
        )
        self._trace(call, context, "called", arguments=arguments)
        try:
            result = await shape_result(definition, await call_tool(tool, arguments, context=context), call.scope)
        except Exception as error:
            self._trace(call, context, "failed", error=f"{type(error).__name__}: {error}")
            raise
        self._trace(call, context, "answered", result=as_text(result)[:_TRACE_LIMIT])
        return Outcome(result)

    async def _find_tool(self, call: Call) -> Tool:
        server = self._tool.mcp_server
        if server is None:
            return self._registry.get(self._tool.tool)
        return await self._servers.tool(self._tool.tool, server, call.scope)

    def _trace(self, call: Call, context: ToolContext, event: str, **details: Any) -> None:
        if self._tool.trace:
            payload = {"kind": "tool", "event": event, "state": call.state.id, "tool": self._tool.tool, **details}
            context.stream_writer(context.credentials.hidden_in(payload))


async def build_arguments(definition: ToolDefinition, tool: Tool, call: Call) -> dict[str, Any]:
    """Return the arguments of a call: those that the file contains, rendered, and all others from the context.

    Raises RoutingError if the `input_key` does not exist, and ToolError if its value is not a map.
    """
    context, scope = call.context, call.scope
    if definition.input_key:
        context = scope = _select_input(definition, call.context)
    declared = call.state.tool_args or definition.tool_args or {}
    templates = without_none(declared)
    render = partial(render_values, templates, scope)
    arguments: dict[str, Any] = await render_for_state("tool_args", call.state.id, call.runtime, render)
    protected = getattr(tool, "never_from_context", ())
    for name in tool.parameters.get("properties", {}):
        if declared.get(name) is None and name not in protected:
            arguments[name] = context.get(name)
    # Copies, because a tool may modify its arguments, and values of the context are shared with other states.
    return {name: deepcopy(value) for name, value in arguments.items() if value is not None}


def _select_input(definition: ToolDefinition, context: Mapping[str, Any]) -> Mapping[str, Any]:
    value = get_at_path(dict(context), cast(str, definition.input_key))
    if not isinstance(value, dict):
        raise ToolError(
            f"The input_key {definition.input_key!r} of tool {definition.id!r} refers to {as_text(value)[:100]!r}. "
            f"It must refer to a map with the arguments."
        )
    return cast("dict[str, Any]", value)


async def shape_result(definition: ToolDefinition, result: Any, scope: Mapping[str, Any]) -> Any:
    """Apply the settings of a tool to its result: select a part, render placeholders, truncate."""
    pointer = definition.tool_result_json_pointer
    if pointer:
        try:
            result = get_at_pointer(result, pointer)
        except RoutingError as error:
            raise RoutingError(f"The tool_result_json_pointer of tool {definition.id!r}: {error}") from None
    if definition.resolve_dynamic_values_in_response and isinstance(result, str):
        # The text is untrusted: only placeholders that refer to values are rendered.
        template = parse_template(result, simple=True)
        result = await render_off_loop(lambda work: template.render(scope, work=work))
    return truncate_result(result, definition)


def truncate_result(result: Any, definition: ToolDefinition) -> Any:
    """Truncate a result to the token limit of the tool, and append a line that says so."""
    limit, setting = definition.tokens_size_limit, "tokens_size_limit"
    if limit is None and definition.mcp_server is not None:
        limit, setting = definition.mcp_server.settings.get("tools_tokens_size_limit"), "tools_tokens_size_limit"
    if limit is None:
        return result
    text = as_text(result)
    truncated = truncate(text, limit, f" because {setting} is {limit}")
    return result if truncated is text else truncated
