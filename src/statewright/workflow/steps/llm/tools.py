"""The tools of a step: what the definition tells the model of them, and the functions that do the work.

Functions are found among the tools that the workflow was compiled with, and then among the handlers of tasks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

from statewright.agents.tools import Tool, ToolContext, ToolFunction, ToolOptions
from statewright.agents.tools.function import call_function
from statewright.errors import InvalidConfig, ToolError
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.handlers import Handler, takes_step
from statewright.workflow.steps.model import LlmStep, LlmTool
from statewright.workflow.steps.result import read_result

ToolsGiven = Mapping[str, Any] | Iterable[Any] | None
"""Tools or functions, in a list, or by the names that definitions use."""


class ToolSource(Protocol):
    """What does the work of a tool, once for all executions."""

    def bound(self, execution: Execution) -> Tool: ...


def read_tools(given: ToolsGiven) -> Mapping[str, Tool]:
    """The tools by name; those of a map are made when they are asked for.

    Raises InvalidConfig for what is none, ToolError for one whose arguments cannot be told.
    """
    if isinstance(given, Mapping):
        return NamedTools(cast("Mapping[str, Any]", given))
    return {tool.name: tool for tool in (_as_tool(one, None) for one in given or ())}


class NamedTools(Mapping[str, Tool]):
    """Tools by the names that definitions use, each made when it is asked for: it may have to be imported."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def __getitem__(self, name: str) -> Tool:
        return _as_tool(self._given[name], name)

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _as_tool(given: Any, name: str | None) -> Tool:
    if hasattr(given, "call") and hasattr(given, "parameters"):
        return cast(Tool, given)
    if callable(given):
        return ToolFunction(given, name=name)
    raise InvalidConfig(f"The tool {name or ''!r} is {given!r}. Give a function or a tool.")


class GivenTool:
    """A tool with the words of the definition, where it has some."""

    def __init__(self, declared: LlmTool, tool: Tool) -> None:
        self.name = declared.name
        self.description = declared.description or tool.description
        self.parameters: Mapping[str, Any] = declared.parameters or tool.parameters
        self.options: ToolOptions = getattr(tool, "options", None) or ToolOptions()
        self._tool = tool

    def bound(self, execution: Execution) -> Tool:
        return self

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        return await self._tool.call(arguments, context=context)


class HandlerSource:
    """A handler of tasks as a tool: its `config` are the arguments, and what it answers as `output` is the result."""

    def __init__(self, declared: LlmTool, handler: Handler, step: LlmStep) -> None:
        self.declared = declared
        self.handler = handler
        self.step = step

    def bound(self, execution: Execution) -> Tool:
        return BoundHandler(self, execution)


class BoundHandler:
    """A handler as a tool of one execution."""

    def __init__(self, source: HandlerSource, execution: Execution) -> None:
        self.name = source.declared.name
        self.description = source.declared.description or inspect.getdoc(source.handler) or ""
        self.parameters: Mapping[str, Any] = source.declared.parameters or {"type": "object", "properties": {}}
        self._source = source
        self._execution = execution

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        handler = self._source.handler
        given = self._execution.context(arguments, idempotency_key=context.idempotency_key, runtime=context.runtime)
        result = read_result(await call_function(_call_of(handler, given, self._source.step), handler), self.name)
        if result.status == "waiting":
            raise ToolError(f"The handler {self.name!r} wants to wait, which no tool can. Make it a step of its own.")
        if result.status == "failed":
            raise ToolError(result.error.message if result.error is not None else f"{self.name} failed.")
        return result.output if result.output is not None else result.state_updates or None


def _call_of(handler: Handler, context: Any, step: LlmStep) -> Callable[[], Any]:
    return (lambda: handler(context, step)) if takes_step(handler) else (lambda: handler(context))
