"""Tools of LLM steps: descriptions from the definition, bound to the functions that implement them.

Functions are looked up in the tools that the workflow was compiled with, then in the task handlers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

from statewright.agents.tools import Tool, ToolContext, ToolFunction, ToolOptions
from statewright.agents.tools.function import call_function
from statewright.errors import InvalidConfig, ToolError
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.handlers import Handler, takes_step
from statewright.workflow.steps.model import LlmStep, LlmTool
from statewright.workflow.steps.result import read_result

ToolsGiven = Mapping[str, Any] | Iterable[Any] | None
"""Tools or functions, as a list or by the names that definitions use."""


class ToolSource(Protocol):
    """The implementation of a tool, shared by all executions."""

    def bind(self, execution: StepExecution) -> Tool: ...


def read_tools(tools: ToolsGiven) -> Mapping[str, Tool]:
    """Return the tools by name; tools of a map are created on demand.

    Raises InvalidConfig for an object that is not a tool, ToolError for a function without usable parameters.
    """
    if isinstance(tools, Mapping):
        return NamedTools(cast("Mapping[str, Any]", tools))
    return {tool.name: tool for tool in (_as_tool(item, None) for item in tools or ())}


class NamedTools(Mapping[str, Tool]):
    """Tools by the names that definitions use, each created on demand, as it may have to be imported."""

    def __init__(self, tools: Mapping[str, Any]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> Tool:
        return _as_tool(self._tools[name], name)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def _as_tool(tool: Any, name: str | None) -> Tool:
    if hasattr(tool, "call") and hasattr(tool, "parameters"):
        return cast(Tool, tool)
    if callable(tool):
        return ToolFunction(tool, name=name)
    raise InvalidConfig(f"The tool {name or ''!r} is {tool!r}. Pass a function or a tool.")


class DeclaredTool:
    """A tool whose description and parameters the definition may override."""

    def __init__(self, declared: LlmTool, tool: Tool) -> None:
        self.name = declared.name
        self.description = declared.description or tool.description
        self.parameters: Mapping[str, Any] = declared.parameters or tool.parameters
        self.options: ToolOptions = getattr(tool, "options", None) or ToolOptions()
        self._tool = tool

    def bind(self, execution: StepExecution) -> Tool:
        return self

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        return await self._tool.call(arguments, context=context)


class HandlerToolSource:
    """A task handler used as a tool: the arguments are its `config`, and its `output` is the result."""

    def __init__(self, declared: LlmTool, handler: Handler, step: LlmStep) -> None:
        self.declared = declared
        self.handler = handler
        self.step = step

    def bind(self, execution: StepExecution) -> Tool:
        return HandlerTool(self, execution)


class HandlerTool:
    """A task handler as a tool of one execution."""

    def __init__(self, source: HandlerToolSource, execution: StepExecution) -> None:
        self.name = source.declared.name
        self.description = source.declared.description or inspect.getdoc(source.handler) or ""
        self.parameters: Mapping[str, Any] = source.declared.parameters or {"type": "object", "properties": {}}
        self._source = source
        self._execution = execution

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        handler = self._source.handler
        step_context = self._execution.context(
            arguments, idempotency_key=context.idempotency_key, runtime=context.runtime
        )
        call = _make_call(handler, step_context, self._source.step)
        result = read_result(await call_function(call, handler), self.name)
        if result.status == "waiting":
            raise ToolError(
                f"The handler {self.name!r} returned 'waiting', which tools do not support. Make it a step of its own."
            )
        if result.status == "failed":
            raise ToolError(result.error.message if result.error is not None else f"{self.name} failed.")
        return result.output if result.output is not None else result.state_updates or None


def _make_call(handler: Handler, context: Any, step: LlmStep) -> Callable[[], Any]:
    return (lambda: handler(context, step)) if takes_step(handler) else (lambda: handler(context))
