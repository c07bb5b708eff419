"""Convert the answers of LangChain's tools to messages and Commands of ours.

LangChain converts every answer to a tool call to text unless it is of one of its own classes, so a Command of ours
would arrive as its repr. The tool is therefore called through a subclass of its class, which wraps such an answer. The
instance of the subclass shares the attributes of the original, so that a tool with memory keeps it in one place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, cast

from statewright.agents.tools.langchain.signature import config_parameters, with_exact_config
from statewright.graph import Command, Send, is_coroutine_function
from statewright.langchain import from_langchain, is_langchain_message
from statewright.messages import Message, ToolResult
from statewright.models.coerce import is_instance_of

_OURS: Final = (Command, Message, ToolResult)
_SLOTS: Final = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")


def convert_answer(answer: Any) -> Any:
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
    targets = [
        _convert_target(target) for target in cast("list[Any]", goto if isinstance(goto, list | tuple) else [goto])
    ]
    return Command(update=command.update, goto=targets, graph=command.graph)


def _convert_target(target: Any) -> Any:
    return target if isinstance(target, str | Send) else Send(target.node, target.arg)


# -- calling


def with_preserved_answers(tool: Any) -> Any:
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


def has_own_arun(kind: Any) -> bool:
    """Return whether a class of tools has an asynchronous implementation."""
    from langchain_core.tools import BaseTool

    base: Any = BaseTool
    return kind._arun is not base._arun


@functools.lru_cache(maxsize=256)
def _preserving_class(kind: Any) -> Any:
    """Return a subclass of a class of tools whose answers of our classes are wrapped."""
    methods: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    methods["_run"] = with_exact_config(_wrap(kind._run))
    if has_own_arun(kind):  # LangChain looks for it
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
