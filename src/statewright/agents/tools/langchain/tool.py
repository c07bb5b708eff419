"""Adapter from tools of LangChain to the tool port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from pydantic import ValidationError

from statewright.agents.tools.injected import injected_type_error, runnable_config
from statewright.agents.tools.langchain.answer import convert_answer, has_own_arun, with_preserved_answers
from statewright.agents.tools.langchain.signature import (
    aliases_of,
    argument_schema,
    config_parameters,
    injected_sources,
    schema_titles,
)
from statewright.agents.tools.tool import ToolContext, ToolOptions, WrongCall, check_name, describe_problems
from statewright.channels import MISSING
from statewright.langchain import to_langchain
from statewright.messages import Message
from statewright.models.coerce import is_instance_of
from statewright.runtime.concurrency.worker_threads import call_in_thread

_TOOL_CALL: Final = "tool_call"


class LangChainTool:
    """A tool of LangChain as a tool of ours. LangChain validates the arguments.

    Injected arguments are filled as LangGraph's ToolNode does, with messages of LangChain in the state. The answer to
    a model's call is a message or a Command.
    """

    def __init__(self, tool: Any) -> None:
        """Raises ToolError for an injected argument that nothing can fill."""
        self.name = check_name(tool.name)
        self.description: str = tool.description or ""
        self._injected = injected_sources(tool)
        self.parameters: Mapping[str, Any] = argument_schema(tool, self._injected)
        self.options = ToolOptions(return_direct=bool(getattr(tool, "return_direct", False)))
        self.in_order = any(source.changes_state for source in self._injected.values())
        self._is_async = _is_async(tool)
        self.is_plain = not self._is_async or getattr(tool, "func", None) is not None
        self.tool = tool
        """The tool of LangChain."""
        self._config_parameters = config_parameters(tool)
        self._aliases = aliases_of(tool)
        self._tool = with_preserved_answers(tool)

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Return the answer of the tool.

        Raises ToolError for arguments that it does not take, InvalidConfig for an injected argument that cannot be
        filled, and what the tool raises.
        """
        hidden = {name for injected in self._injected for name in (injected, self._aliases.get(injected, injected))}
        visible = {name: value for name, value in arguments.items() if name not in hidden}
        kwargs = {**visible, **self._injected_kwargs(context)}
        config: Any = runnable_config(context)
        call: Any = kwargs
        if context.tool_call_id is not None:
            call = {"name": self.name, "args": kwargs, "id": context.tool_call_id, "type": _TOOL_CALL}
        try:
            return convert_answer(await self._invoke(call, None if config is MISSING else config, context))
        except ValidationError as error:
            raise self._translate_error(error) from None

    async def _invoke(self, call: Any, config: Any, context: ToolContext) -> Any:
        if context.in_place:
            return self._tool.invoke(call, config)
        if self._is_async:
            return await self._tool.ainvoke(call, config)
        return await call_in_thread(partial(self._tool.invoke, call, config))

    def _injected_kwargs(self, context: ToolContext) -> dict[str, Any]:
        values: dict[str, Any] = {}
        seen = context
        if any(source.is_state for source in self._injected.values()):
            seen = replace(context, state=_langchain_state(context.state))
        for name, source in self._injected.items():
            value = source.value(self.name, name, seen if source.is_state else context)
            if name in self._config_parameters:
                value = {}  # a valid config for the schema; LangChain passes on the one of the call
            if value is not MISSING:
                values[self._aliases.get(name, name)] = value
        return values

    def _translate_error(self, error: Any) -> Exception:
        """Return the error for wrong arguments, or for injected values that do not fit; the tool's own as it is."""
        if error.title not in schema_titles(self.tool):
            return error
        hidden = {*self._injected, *map(self._aliases.get, self._injected)}
        errors = cast("list[Any]", error.errors())
        wrong_arguments = [problem for problem in errors if not problem["loc"] or problem["loc"][0] not in hidden]
        if not wrong_arguments:
            return injected_type_error(
                self.name, str(errors[0]["loc"][0]), "; ".join(problem["msg"] for problem in errors)
            )
        return WrongCall(f"Tool {self.name!r} was called with wrong arguments: {describe_problems(wrong_arguments)}.")

    def __repr__(self) -> str:
        return f"LangChainTool({self.name!r})"


def is_langchain_tool(value: object) -> bool:
    """Return whether a value is a tool of LangChain, without loading the package."""
    return is_instance_of(value, "BaseTool", "langchain_core.")


def _is_async(tool: Any) -> bool:
    """Return whether a tool has an asynchronous implementation of its own."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return has_own_arun(type(tool))


def _langchain_state(state: Any) -> Any:
    """Return the state as a dict, as LangGraph has it, with messages of LangChain."""
    if isinstance(state, Mapping):
        fields = cast("Mapping[str, Any]", state)
        return {name: _with_langchain_messages(field) for name, field in fields.items()}
    if hasattr(state, "format_history"):  # of a network
        data: Any = state.data
        values = cast("Mapping[str, Any]", data if isinstance(data, Mapping) else vars(data))
        return {**values, "messages": to_langchain(state.format_history())}
    return state


def _with_langchain_messages(value: Any) -> Any:
    if isinstance(value, Message):
        return to_langchain(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [to_langchain(item) if isinstance(item, Message) else item for item in items]
    return value
