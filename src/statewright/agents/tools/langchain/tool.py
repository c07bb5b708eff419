"""Adapter from tools of LangChain to the tool port.

LangChain converts every answer to a tool call to text unless it is of one of its own classes, so a Command of ours
would arrive as its repr. The tool is therefore called through a subclass of its class, which wraps such an answer. The
instance of the subclass shares the attributes of the original, so that a tool with memory keeps it in one place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import ValidationError

from statewright.agents.tools.injected import injected_type_error, runnable_config
from statewright.agents.tools.langchain.signature import (
    aliases_of,
    argument_schema,
    config_parameters,
    schema_titles,
    sources_of,
    with_exact_config,
)
from statewright.agents.tools.tool import ToolContext, ToolOptions, WrongCall, check_name, describe_problems
from statewright.channels import MISSING
from statewright.graph import Command, Send, is_coroutine_function
from statewright.langchain import from_langchain, is_langchain_message, to_langchain
from statewright.messages import Message, ToolResult
from statewright.models.coerce import is_instance_of
from statewright.runtime.concurrency.worker_threads import call_in_thread

_OURS: Final = (Command, Message, ToolResult)
_SLOTS: Final = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")


class LangChainTool:
    """A tool of LangChain as a tool of ours. LangChain validates the arguments.

    Injected arguments are filled as LangGraph's ToolNode does, with messages of LangChain in the state. The answer to
    a model's call is a message or a Command.
    """

    def __init__(self, tool: Any) -> None:
        """Raises ToolError for an injected argument that nothing can fill."""
        self.name = check_name(tool.name)
        self.description: str = tool.description or ""
        self._injected = sources_of(tool)
        self.parameters: Mapping[str, Any] = argument_schema(tool, self._injected)
        self.options = ToolOptions(return_direct=bool(getattr(tool, "return_direct", False)))
        self.in_order = any(source.changes_state for source in self._injected.values())
        self._is_async = _is_async(tool)
        self.is_plain = not self._is_async or getattr(tool, "func", None) is not None
        self.tool = tool
        """The tool of LangChain."""
        self._config_parameters = config_parameters(tool)
        self._aliases = aliases_of(tool)
        self._tool = _with_preserved_answers(tool)

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
            call = {"name": self.name, "args": kwargs, "id": context.tool_call_id, "type": "tool_call"}
        try:
            return _convert_answer(await self._invoke(call, None if config is MISSING else config, context))
        except ValidationError as error:
            raise self._translate_error(error) from None

    async def _invoke(self, call: Any, config: Any, context: ToolContext) -> Any:
        if context.in_place:
            return self._tool.invoke(call, config)
        if self._is_async:
            return await self._tool.ainvoke(call, config)
        return await call_in_thread(functools.partial(self._tool.invoke, call, config))

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
    """Return True for a tool of LangChain, without loading the package."""
    return is_instance_of(value, "BaseTool", "langchain_core.")


def _is_async(tool: Any) -> bool:
    """Return True if a tool has an asynchronous implementation of its own."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return _has_own_arun(type(tool))


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


# -- answers


def _convert_answer(answer: Any) -> Any:
    """Return the answer of a tool of LangChain, with messages and Commands of ours in the place of its own."""
    if hasattr(answer, "statewright_answer"):
        answer = answer.statewright_answer
    if isinstance(answer, list):
        return [_convert_part(part) for part in cast("list[Any]", answer)]
    return _convert_part(answer)


def _convert_part(answer: Any) -> Any:
    if is_langchain_message(answer):
        return from_langchain(answer)
    return _convert_command(answer) if is_instance_of(answer, "Command", "langgraph.") else answer


def _convert_command(command: Any) -> Command[Any]:
    goto: Any = command.goto
    targets = cast("list[Any]", goto if isinstance(goto, list | tuple) else [goto])
    converted = [target if isinstance(target, str | Send) else Send(target.node, target.arg) for target in targets]
    return Command(update=command.update, goto=converted, graph=command.graph)


# -- calls that keep answers of our classes


def _with_preserved_answers(tool: Any) -> Any:
    """Return an equivalent tool whose `invoke` keeps answers of our classes."""
    kind = _preserving_class(cast("Any", type(tool)))
    view = object.__new__(kind)
    for name in _SLOTS:
        object.__setattr__(view, name, getattr(tool, name))
    if config_parameters(tool) and hasattr(tool, "func"):
        # LangChain reads the annotations of these; the object has attributes of its own then.
        functions = {name: getattr(tool, name) for name in ("func", "coroutine") if getattr(tool, name) is not None}
        exact = {name: with_exact_config(_wrap_any(function)) for name, function in functions.items()}
        object.__setattr__(view, "__dict__", {**tool.__dict__, **exact})
    return view


def _wrap_any(function: Callable[..., Any]) -> Callable[..., Any]:
    return _wrap_async(function) if is_coroutine_function(function) else _wrap(function)


def _has_own_arun(kind: Any) -> bool:
    """Return True if a class of tools has an asynchronous implementation."""
    from langchain_core.tools import BaseTool

    base: Any = BaseTool
    return kind._arun is not base._arun


@functools.lru_cache(maxsize=256)
def _preserving_class(kind: Any) -> Any:
    """Return a subclass of a class of tools whose answers of our classes are wrapped."""
    methods: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    methods["_run"] = with_exact_config(_wrap(kind._run))
    if _has_own_arun(kind):  # LangChain looks for it
        methods["_arun"] = with_exact_config(_wrap_async(kind._arun))
    return type(kind)(kind.__name__, (kind,), methods)


def _wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return _preserve(function(*args, **kwargs))

    return run


def _wrap_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return _preserve(await function(*args, **kwargs))

    return run


def _preserve(answer: object) -> Any:
    parts: list[Any] = cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    return _holder_class()(answer) if any(isinstance(part, _OURS) for part in parts) else cast("Any", answer)


@functools.lru_cache(maxsize=1)
def _holder_class() -> Any:
    """Return a class of answers that LangChain passes through, as it does its own messages."""
    from langchain_core.messages.tool import ToolOutputMixin

    class Holder(ToolOutputMixin):
        def __init__(self, answer: Any) -> None:
            self.statewright_answer = answer

    return Holder
