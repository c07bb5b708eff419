"""The adapter from LangChain tools to the tool port.

When LangChain makes a call that a model requested, it converts the answer to text unless the answer is an instance of a
LangChain class. A Command of ours would become its repr. Therefore the tool is called through an instance of a
generated subclass, which wraps answers of our classes in a LangChain class. This instance shares the attributes of the
original tool, so that the state of the tool exists only once.
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
from statewright.runtime.concurrency.thread_calls import call_in_thread

_PRESERVED_CLASSES: Final = (Command, Message, ToolResult)
"""The classes of answers that LangChain must not convert."""
_MODEL_SLOTS: Final = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")
"""The attributes that hold the state of a pydantic model."""


class LangChainTool:
    """A LangChain tool as a tool of Statewright. LangChain validates the arguments.

    Injected parameters get the same values as from LangGraph's ToolNode: messages in the state are LangChain's. The
    answer to a call that a model requested is a message or a Command. Raises ToolError for an injected parameter whose
    source is unknown.
    """

    def __init__(self, tool: Any) -> None:
        self.name = check_name(tool.name)
        self.description: str = tool.description or ""
        self._injected = sources_of(tool)
        self.parameters: Mapping[str, Any] = argument_schema(tool, self._injected)
        self.options = ToolOptions(return_direct=bool(getattr(tool, "return_direct", False)))
        self.in_order = any(source.changes_state for source in self._injected.values())
        self._is_async = _is_async(tool)
        self.is_plain = not self._is_async or getattr(tool, "func", None) is not None
        self.tool = tool
        """The original LangChain tool."""
        self._config_parameters = config_parameters(tool)
        self._aliases = aliases_of(tool)
        self._wrapper = _with_preserved_answers(tool)

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Return the answer of the tool.

        Raises ToolError for wrong arguments, InvalidConfig for an injected argument that cannot be filled, and the
        errors of the tool.
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
            return self._wrapper.invoke(call, config)
        if self._is_async:
            return await self._wrapper.ainvoke(call, config)
        return await call_in_thread(functools.partial(self._wrapper.invoke, call, config))

    def _injected_kwargs(self, context: ToolContext) -> dict[str, Any]:
        """Return the values of the injected parameters, by name or alias."""
        values: dict[str, Any] = {}
        langchain_context = context
        if any(source.is_state for source in self._injected.values()):
            langchain_context = replace(context, state=_langchain_state(context.state))
        for name, source in self._injected.items():
            value = source.resolve_value(self.name, name, langchain_context if source.is_state else context)
            if name in self._config_parameters:
                value = {}  # a placeholder that satisfies the schema; LangChain replaces it with the config of the call
            if value is not MISSING:
                values[self._aliases.get(name, name)] = value
        return values

    def _translate_error(self, error: Any) -> Exception:
        """Return our error if arguments or injected values are invalid; an error that the tool raised is unchanged."""
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
    """Return True for a LangChain tool, without importing LangChain."""
    return is_instance_of(value, "BaseTool", "langchain_core.")


def _is_async(tool: Any) -> bool:
    """Return True if a tool has an asynchronous implementation."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return _has_own_arun(type(tool))


def _langchain_state(state: Any) -> Any:
    """Return the state as a dict with LangChain messages, as in LangGraph."""
    if isinstance(state, Mapping):
        fields = cast("Mapping[str, Any]", state)
        return {name: _with_langchain_messages(field) for name, field in fields.items()}
    if hasattr(state, "format_history"):  # the State of a network
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
    """Return the unwrapped answer of a tool, with LangChain messages and LangGraph Commands converted to ours."""
    if hasattr(answer, "statewright_answer"):
        answer = answer.statewright_answer
    if isinstance(answer, list):
        return [_convert_item(item) for item in cast("list[Any]", answer)]
    return _convert_item(answer)


def _convert_item(answer: Any) -> Any:
    if is_langchain_message(answer):
        return from_langchain(answer)
    return _convert_command(answer) if is_instance_of(answer, "Command", "langgraph.") else answer


def _convert_command(command: Any) -> Command[Any]:
    goto: Any = command.goto
    targets = cast("list[Any]", goto if isinstance(goto, list | tuple) else [goto])
    converted = [target if isinstance(target, str | Send) else Send(target.node, target.arg) for target in targets]
    return Command(update=command.update, goto=converted, graph=command.graph)


# -- preserving answers of our classes


def _with_preserved_answers(tool: Any) -> Any:
    """Return an equivalent tool whose `invoke` wraps answers of our classes."""
    wrapper = object.__new__(_wrapper_class(cast("Any", type(tool))))
    for name in _MODEL_SLOTS:
        object.__setattr__(wrapper, name, getattr(tool, name))
    if config_parameters(tool) and hasattr(tool, "func"):
        # LangChain reads the annotations of these functions, so they are replaced by functions with other annotations.
        # Therefore this wrapper cannot share the attributes of the tool, but has a copy of them.
        functions = {name: getattr(tool, name) for name in ("func", "coroutine") if getattr(tool, name) is not None}
        replacements = {
            name: with_exact_config(_wrap(function, is_async=is_coroutine_function(function)))
            for name, function in functions.items()
        }
        object.__setattr__(wrapper, "__dict__", {**tool.__dict__, **replacements})
    return wrapper


def _has_own_arun(tool_class: Any) -> bool:
    """Return True if a tool class overrides `_arun`, and so has an asynchronous implementation."""
    from langchain_core.tools import BaseTool

    base: Any = BaseTool
    return tool_class._arun is not base._arun


@functools.lru_cache(maxsize=256)
def _wrapper_class(tool_class: Any) -> Any:
    """Return a subclass of a tool class whose methods `_run` and `_arun` wrap answers of our classes."""
    methods: dict[str, Any] = {"__module__": tool_class.__module__, "__doc__": tool_class.__doc__}
    methods["_run"] = with_exact_config(_wrap(tool_class._run, is_async=False))
    if _has_own_arun(tool_class):  # LangChain looks for an override of this method
        methods["_arun"] = with_exact_config(_wrap(tool_class._arun, is_async=True))
    return type(tool_class)(tool_class.__name__, (tool_class,), methods)


def _wrap(function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """Return a function, or with `is_async` a coroutine function, that calls `function` and wraps its answer."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return _wrap_answer(function(*args, **kwargs))

    @functools.wraps(function)
    async def arun(*args: Any, **kwargs: Any) -> Any:
        return _wrap_answer(await function(*args, **kwargs))

    return arun if is_async else run


def _wrap_answer(answer: object) -> Any:
    """Wrap an answer that is an instance of our classes or a list with one; return any other answer unchanged."""
    items: list[Any] = cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    must_wrap = any(isinstance(item, _PRESERVED_CLASSES) for item in items)
    return _wrapped_answer_class()(answer) if must_wrap else cast("Any", answer)


@functools.lru_cache(maxsize=1)
def _wrapped_answer_class() -> Any:
    """Return a class whose instances LangChain accepts as answers of tools, and does not convert."""
    from langchain_core.messages.tool import ToolOutputMixin

    class WrappedAnswer(ToolOutputMixin):
        def __init__(self, answer: Any) -> None:
            self.statewright_answer = answer

    return WrappedAnswer
