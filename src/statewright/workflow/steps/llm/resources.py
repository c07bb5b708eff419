"""The models and tools of LLM steps, which definitions refer to by name.

A definition only describes a tool. The implementation is looked up by name in the tools that were passed to
`compile_steps`, then in the task handlers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from statewright.agents.tools import Tool, ToolContext, ToolFunction
from statewright.agents.tools.calling import tool_options
from statewright.agents.tools.function import call_function
from statewright.errors import InvalidConfig, ToolError
from statewright.models import ChatModel, as_chat_model
from statewright.models.coerce import is_langchain_model
from statewright.workflow.steps.execution import StepExecution
from statewright.workflow.steps.handlers import Handler, bind_step
from statewright.workflow.steps.model import LlmStep, LlmTool
from statewright.workflow.steps.result import read_result

# -- models

StepModelOptions = Mapping[str, Any] | Callable[[str], Any] | ChatModel | str | None
"""Models by the names that steps use, with `default` for all other names; or a function that returns the model with a
name, or None; or one model for all steps. A model is a chat model, a LangChain model, or a name such as
`openai:gpt-5`."""
_PROVIDERS: Final = {"gpt-": "openai", "o1-": "openai", "o3-": "openai", "o4-": "openai", "claude-": "anthropic"}
"""Providers, by prefixes of the names of their models."""


class StepModels:
    """Finds the models that steps name. A model is connected when it is looked up by `find`."""

    def __init__(self, models: StepModelOptions = None) -> None:
        self._find = _make_finder(models)

    def has(self, name: str) -> bool:
        """Return whether a model has this name. Connecting it may still fail."""
        return self._find(name) is not None

    def find(self, name: str) -> ChatModel | None:
        """Return the model with this name; None if no model has it.

        Raises MissingApiKey or ModelError if the model cannot be connected, and InvalidConfig for an object that is not
        a model.
        """
        model = self._find(name)
        return as_chat_model(model) if model is not None else None


def _make_finder(models: StepModelOptions) -> Callable[[str], Any]:
    if models is None:
        return qualify_model_name
    if isinstance(models, Mapping):
        by_name = cast("Mapping[str, Any]", models)
        return lambda name: by_name.get(name) or by_name.get("default") or qualify_model_name(name)
    if isinstance(models, str | ChatModel) or is_langchain_model(models) or not callable(models):
        return lambda _: models
    return models


def qualify_model_name(name: str) -> str | None:
    """Return the name of a model with its provider; None if the name does not reveal the provider."""
    if ":" in name:
        return name
    provider = next((provider for prefix, provider in _PROVIDERS.items() if name.startswith(prefix)), None)
    return f"{provider}:{name}" if provider is not None else None


# -- tools

StepTools = Mapping[str, Any] | Iterable[Any] | None
"""Tools or functions, as a list, or in a mapping by their names in definitions."""
ToolFactory = Callable[[StepExecution], Tool]
"""Returns the tool for one execution of a step."""


def read_tools(tools: StepTools) -> Mapping[str, Any]:
    """Return tools by name.

    A mapping is returned unchanged, because reading its values may import them. They are converted when they are used.
    Raises InvalidConfig for an object that is not a tool, and ToolError for a function with unsupported parameters.
    """
    if isinstance(tools, Mapping):
        return cast("Mapping[str, Any]", tools)
    return {tool.name: tool for tool in map(as_tool, tools or ())}


def as_tool(tool: Any, name: str | None = None) -> Tool:
    """Return a tool unchanged, or converted from a function. Raises the same errors as `read_tools`."""
    if hasattr(tool, "call") and hasattr(tool, "parameters"):
        return cast(Tool, tool)
    if callable(tool):
        return ToolFunction(tool, name=name)
    raise InvalidConfig(f"The tool {name or ''!r} is {tool!r}. Pass a function or a tool.")


class DeclaredTool:
    """A tool under the name in the definition, which may also override its description and its parameters."""

    def __init__(self, definition: LlmTool, tool: Tool) -> None:
        self.name = definition.name
        self.description = definition.description or tool.description
        self.parameters: Mapping[str, Any] = definition.parameters or tool.parameters
        self.options = tool_options(tool)
        self._tool = tool

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        return await self._tool.call(arguments, context=context)


class TaskTool:
    """A task handler as a tool. The handler receives the arguments as its `config`, and its `output` is the result."""

    def __init__(self, definition: LlmTool, handler: Handler, step: LlmStep, execution: StepExecution) -> None:
        self.name = definition.name
        self.description = definition.description or inspect.getdoc(handler) or ""
        self.parameters: Mapping[str, Any] = definition.parameters or {"type": "object", "properties": {}}
        self._handler = handler
        self._step = step
        self._execution = execution

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        step_context = self._execution.make_context(
            arguments, idempotency_key=context.idempotency_key, runtime=context.runtime
        )
        call = bind_step(self._handler, self._step)
        result = read_result(await call_function(lambda: call(step_context), self._handler), self.name)
        if result.status == "waiting":
            raise ToolError(
                f"The handler {self.name!r} returned 'waiting', which tools do not support. Make it a separate step."
            )
        if result.status == "failed":
            raise ToolError(result.error.message if result.error is not None else f"{self.name} failed.")
        return result.output if result.output is not None else result.state_updates or None
