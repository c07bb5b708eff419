"""A node that makes the tool calls requested by the last message of a conversation, each as a separate task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from statewright.agents.agent import as_tool
from statewright.agents.tools import Tool, ToolContext, WrongCall
from statewright.agents.tools.calling import (
    RESULTS,
    answer_message,
    check_saveable,
    failure_message,
    run_tool_call,
    tool_options,
)
from statewright.errors import InternalError, InvalidConfig, InvalidUpdateError
from statewright.graph import END, Command, Runtime, Send
from statewright.messages import Message, ToolCall, as_message
from statewright.runtime.concurrency.private_loop import run_on_this_thread

T = TypeVar("T")

ErrorHandling = bool | str | Callable[[Exception], str] | type[Exception] | tuple[type[Exception], ...]
"""The handling of exceptions that tools raise. True reports them to the model, and False raises them. A string is the
text to report instead; a function gets the exception and returns the text to report. With exception types, only
exceptions of these types are reported, and others are raised."""
_SPECIAL_ANSWERS: Final = (Command, *RESULTS)
"""The types of tool answers that are not converted to text."""


class ToolNode:
    """A node that makes tool calls concurrently.

    Its input is a state whose last message has tool calls, or a single ToolCall from a Send. `messages_key` is the
    field of the state with the messages. A tool may return text, JSON values, a message, or a Command. Each call is
    retried separately. For `handle_tool_errors` see ErrorHandling; invalid calls are always reported to the model.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        *,
        name: str = "tools",
        handle_tool_errors: ErrorHandling = True,
        messages_key: str = "messages",
    ) -> None:
        self.name = name
        self.messages_key = messages_key
        self._tools = tuple(tools)
        self.tools_by_name: Mapping[str, Tool] = _tools_by_name(map(as_tool, self._tools))
        self._error_handling = handle_tool_errors

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Make the requested call, and return an update with its result, and the Commands that the tool returned.

        If there is not exactly one requested call, return a Command that starts a task of this node for each.
        """
        call = self._single_call(state, runtime)
        return call if isinstance(call, Command) else await self._call_tool(call, runtime)

    def sync(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Like `__call__`, for the sync driver: plain functions are called on the current thread."""
        call = self._single_call(state, runtime)
        if isinstance(call, Command):
            return call
        tool = self.tools_by_name.get(call.name)
        if tool is None or (getattr(tool, "is_plain", False) and tool_options(tool).timeout is None):
            return _run_without_waiting(self._call_tool(call, runtime, in_place=True))
        return run_on_this_thread(self._call_tool, call, runtime, control=runtime.control)

    def _single_call(self, state: Any, runtime: Runtime[Any]) -> ToolCall | Command[Any]:
        """Return the call to make; if there is not exactly one, a Command that starts a task for each."""
        if isinstance(state, ToolCall):
            return state
        calls = requested_calls(state, self.messages_key)
        if len(calls) == 1:
            return calls[0]
        return Command(goto=[Send(runtime.execution_info.node, call) for call in calls])

    async def _call_tool(self, call: ToolCall, runtime: Runtime[Any], in_place: bool = False) -> Any:
        context = ToolContext.for_call(call, runtime, state=runtime.state, tools=self._tools, in_place=in_place)
        try:
            answer = await run_tool_call(call, self.tools_by_name, context, kept=(*_SPECIAL_ANSWERS, list))
            for command in _commands_in(answer):
                check_saveable(call, command.update, runtime)
        except Exception as error:
            return self._update([self._handle_error(call, context, error)])
        return self._convert_answer(call, context, answer)

    def _handle_error(self, call: ToolCall, context: ToolContext, error: Exception) -> Message:
        """Return the message that reports an error to the model, or raise the error."""
        handling = self._error_handling
        if isinstance(error, WrongCall):
            return failure_message(call, context, error)
        has_types = isinstance(handling, type | tuple)
        if handling is False or (has_types and not isinstance(error, cast("type[Exception]", handling))):
            raise error
        text = handling if isinstance(handling, str) else None
        if not has_types and callable(handling):  # an exception type is callable too
            text = handling(error)
        return failure_message(call, context, error, text)

    def _convert_answer(self, call: ToolCall, context: ToolContext, answer: Any) -> Any:
        """Convert a tool's answer to an update with the call's result, followed by the Commands in the answer.

        A list with Commands or messages consists of several answers; any other list is a single answer.
        """
        items = cast("list[Any]", answer) if isinstance(answer, list) else []
        answers: list[Any] = items if any(isinstance(item, _SPECIAL_ANSWERS) for item in items) else [answer]
        commands = _commands_in(answer)
        messages = [answer_message(call, context, item) for item in answers if not isinstance(item, Command)]
        if not messages and not any(self._answers_call(call, command) for command in commands):
            messages = [answer_message(call, context, None)]
        if not commands:
            return self._update(messages)
        return [*([self._update(messages)] if messages else []), *commands]

    def _answers_call(self, call: ToolCall, command: Command[Any]) -> bool:
        """Return True if the update of a Command contains the result of the call."""
        update = command.update
        messages = cast("Mapping[str, Any]", update).get(self.messages_key) if isinstance(update, Mapping) else None
        items = cast("list[Any]", messages) if isinstance(messages, list) else []
        return any(getattr(message, "tool_call_id", None) == call.id for message in map(as_message, items))

    def _update(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {self.messages_key: list(messages)}


def _commands_in(answer: Any) -> list[Command[Any]]:
    items = cast("list[Any]", answer) if isinstance(answer, list) else [answer]
    return [item for item in items if isinstance(item, Command)]


def _tools_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    by_name: dict[str, Tool] = {}
    for tool in tools:
        if by_name.setdefault(tool.name, tool) is not tool:
            raise InvalidConfig(f"Two tools are named {tool.name!r}. Rename one of them.")
    return by_name


def _run_without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return returned.value
    coroutine.close()
    raise InternalError("The call of a tool that is a plain function had to wait.")


def requested_calls(state: Any, messages_key: str = "messages") -> Sequence[ToolCall]:
    """Return the tool calls in the last message of a state, or of a list of messages.

    Raises InvalidUpdateError if there is no message.
    """
    value: Any = cast("Mapping[str, Any]", state).get(messages_key) if isinstance(state, Mapping) else state
    messages = cast("list[Any]", value if isinstance(value, list) else getattr(value, messages_key, None) or [])
    if not messages:
        raise InvalidUpdateError(f"{messages_key!r} has no messages, so there are no tool calls to make.")
    last = as_message(messages[-1])
    return last.tool_calls if isinstance(last, Message) else ()


def tools_condition(state: Any, messages_key: str = "messages") -> str:
    """Return the node to run after the model: `tools` if the model requested tool calls, else END."""
    return "tools" if requested_calls(state, messages_key) else END
