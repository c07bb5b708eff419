"""Tool states: a tool is called, and no model is asked.

What an author wrote for an argument counts. Only what is absent or null is taken from the context, under the argument's
own name: a model that answers with a key `path` does not choose a path that was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, cast

from statewright.agents import Tool, ToolContext, as_text, call_tool
from statewright.errors import ExpressionError, RoutingError, ToolError
from statewright.workflow.states.expressions.paths import at_path, at_pointer
from statewright.workflow.states.handlers.call import Call, Outcome, unresolved_reporter
from statewright.workflow.states.language.model import Tool as ToolModel
from statewright.workflow.states.mcp import McpServers
from statewright.workflow.states.templates import parse_template, render_values, rendered_off_loop
from statewright.workflow.states.tools import Integrations, ToolRegistry

CHARACTERS_A_TOKEN: Final = 4
_SHOWN: Final = 2_000
"""Characters of a result that a trace shows."""


class ToolPerformer:
    """Does the work of the states of one tool."""

    def __init__(
        self, tool: ToolModel, registry: ToolRegistry, integrations: Integrations, servers: McpServers
    ) -> None:
        self._tool = tool
        self._registry = registry
        self._integrations = integrations
        self._servers = servers

    async def perform(self, call: Call) -> Outcome:
        """Call the tool. Raises ToolError for what no second attempt would change, and what the tool raises."""
        written, tool = self._tool, await self._found(call)
        arguments = await arguments_for(written, tool, call)
        context = ToolContext(
            self._integrations.credentials(written.integration_alias),
            call.runtime.stream_writer,
            call.runtime.idempotency_key,
            runtime=call.runtime,
        )
        self._trace(call, context, "called", arguments=arguments)
        try:
            result = await shaped(written, await call_tool(tool, arguments, context=context), call.scope)
        except Exception as error:
            self._trace(call, context, "failed", error=f"{type(error).__name__}: {error}")
            raise
        self._trace(call, context, "answered", result=as_text(result)[:_SHOWN])
        return Outcome(result)

    async def _found(self, call: Call) -> Tool:
        server = self._tool.mcp_server
        if server is None:
            return self._registry.get(self._tool.tool)
        return await self._servers.tool(self._tool.tool, server, call.scope)

    def _trace(self, call: Call, context: ToolContext, event: str, **more: Any) -> None:
        if self._tool.trace:
            told = {"kind": "tool", "event": event, "state": call.state.id, "tool": self._tool.tool, **more}
            context.stream_writer(context.credentials.hidden_in(told))


async def arguments_for(written: ToolModel, tool: Tool, call: Call) -> dict[str, Any]:
    """What the tool is called with: what was written, with templates filled in, and the rest from the context.

    Raises RoutingError for an `input_key` that leads nowhere, ToolError for one that leads to no map.
    """
    context, scope = call.context, call.scope
    if written.input_key:
        context = scope = _part(written, call.context)
    given = call.state.tool_args or written.tool_args or {}
    arguments_written = {name: value for name, value in given.items() if value is not None}
    report = unresolved_reporter(call.runtime, call.state.id)
    try:
        arguments = await rendered_off_loop(
            lambda work: render_values(arguments_written, scope, report=report, work=work)
        )
    except ExpressionError as error:
        raise ExpressionError(f"The tool_args of state {call.state.id!r}: {error}") from error
    kept = getattr(tool, "never_from_context", ())
    for name in tool.parameters.get("properties", {}):
        if given.get(name) is None and name not in kept:
            arguments[name] = context.get(name)
    # Values of the context are shared by all branches and by every later reader: a tool gets a copy to change.
    return {name: deepcopy(value) for name, value in arguments.items() if value is not None}


def _part(written: ToolModel, context: Mapping[str, Any]) -> Mapping[str, Any]:
    found = at_path(dict(context), cast(str, written.input_key))
    if not isinstance(found, dict):
        raise ToolError(
            f"The input_key {written.input_key!r} of tool {written.id!r} leads to {as_text(found)[:100]!r}. "
            f"It must lead to a map, in which the arguments are looked up."
        )
    return cast("dict[str, Any]", found)


async def shaped(written: ToolModel, result: Any, scope: Mapping[str, Any]) -> Any:
    """What a state makes of a result: a part of it, with values filled in, as short as it has to be."""
    pointer = written.tool_result_json_pointer
    if pointer:
        try:
            result = at_pointer(result, pointer)
        except RoutingError as error:
            raise RoutingError(f"tool_result_json_pointer of tool {written.id!r}: {error}") from None
    if written.resolve_dynamic_values_in_response and isinstance(result, str):
        # The text comes from outside: it may name values, and do nothing else.
        template = parse_template(result, simple=True)
        result = await rendered_off_loop(lambda work: template.render(scope, work=work))
    return shortened(result, written)


def shortened(result: Any, written: ToolModel) -> Any:
    """A result of no more tokens than the tool may have, with a last line that says so."""
    limit, name = written.tokens_size_limit, "tokens_size_limit"
    if limit is None and written.mcp_server is not None:
        limit, name = written.mcp_server.settings.get("tools_tokens_size_limit"), "tools_tokens_size_limit"
    if limit is None:
        return result
    text, most = as_text(result), limit * CHARACTERS_A_TOKEN
    if len(text) <= most:
        return result
    told = f"the first {most} of {len(text)} characters, for a {name} of {limit}"
    return f"{text[:most]}\n[Cut off: {told}.]"
