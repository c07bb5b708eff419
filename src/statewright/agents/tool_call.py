"""One call of a tool that a model asked for: whatever comes of it becomes a message that answers the call.

A call that is wrong, a tool that raises, that takes too long or answers what cannot be written as JSON: the model is
told, and may ask in another way. Only faults of the run itself are raised: they concern whoever runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, NotRequired, TypedDict, TypeVar, cast

from statewright.agents.tools import Tool, ToolContext, ToolOptions, WrongCall, as_text, call_tool
from statewright.errors import InternalError, RunError, StorageError, ToolError, suggestion
from statewright.messages import Message, ToolCall
from statewright.runtime import get_runtime, interrupt, part_of_attempt

T = TypeVar("T")
_CALLS: Final = attrgetter("tool_calls")
_ANSWERS_TO: Final = attrgetter("tool_call_id")
_NOT_FOR_MODELS: Final = (RunError, StorageError, InternalError)
_YES: Final = frozenset({"y", "yes", "approve", "approved", "accept", "ok", "true"})
SHOWN: Final = 200
"""Characters of an error that the log keeps."""


class ModelRetry(Exception):
    """Raised by a tool: tells the model what to do otherwise, and lets it try again."""


async def guarded(call: Awaitable[T], asked: ToolCall) -> T:
    """What a call gives. What a tool does to end more than itself is an error of the tool."""
    try:
        return await call
    except SystemExit as error:
        raise ToolError(f"Tool {asked.name!r} wanted to end the program (exit code {error.code!r}).") from error
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        raise ToolError(f"Tool {asked.name!r} was cancelled, though nobody cancelled its call.") from error


def _is_being_cancelled() -> bool:
    """Whether somebody has asked the present task to stop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop: nothing here can be cancelled
        return False
    return task is not None and task.cancelling() > 0


async def answer_call(asked: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Message:
    """The message that answers a call; a failure is one too, with `metadata={"status": "error"}`.

    Raises what the runtime itself raises: a lost thread, a budget that is used up.
    """
    try:
        answer = await call_asked(asked, tools, context)
    except Exception as error:
        return failed_call(asked, context, error)
    return answered_call(asked, context, answer)


def answered_call(asked: ToolCall, context: ToolContext, answer: Any) -> Message:
    """The message that says what a tool has answered."""
    return _told(asked, context, f"{asked.name} was executed." if answer is None else as_text(answer))


def failed_call(asked: ToolCall, context: ToolContext, error: Exception, said: str | None = None) -> Message:
    """The message that tells a model why its call failed. Raises the error if it concerns whoever runs the graph."""
    if isinstance(error, _NOT_FOR_MODELS):
        raise error
    return _told(asked, context, said if said is not None else _said(error), failed=True)


async def call_asked(
    asked: ToolCall, tools: Mapping[str, Tool], context: ToolContext, *, kept: tuple[type, ...] = ()
) -> Any:
    """What a tool answers to a call, approved if it has to be. Raises ToolError, and what the tool raises."""
    if asked.invalid is not None:
        raise WrongCall(f"The arguments of tool {asked.name!r} are no JSON object: {asked.invalid[:SHOWN]!r}.")
    tool = tools.get(asked.name)
    if tool is None:
        raise WrongCall(f"There is no tool {asked.name!r}. {suggestion(asked.name, tools, noun='Tools')}")
    options = options_of(tool)
    arguments = _approved(asked, tool, context) if options.approve else asked.arguments
    if options.timeout is None:
        return await guarded(call_tool(tool, arguments, context=context, kept=kept), asked)
    with part_of_attempt() as part:
        limit = asyncio.timeout(options.timeout)
        try:
            async with limit:
                own = _own_context(context) if part is not None else context
                return await guarded(call_tool(tool, arguments, context=own, kept=kept), asked)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the tool's own
            if part is not None:
                part.abandoned = True  # a plain function keeps running: its later steps are rejected
            raise ToolError(
                f"Tool {asked.name!r} took longer than {options.timeout} seconds and was given up."
            ) from error


def _own_context(context: ToolContext) -> ToolContext:
    """Return the context with a runtime bound to the nested attempt of this call."""
    if context.runtime is None:
        return context
    runtime = get_runtime()
    return replace(context, runtime=runtime, stream_writer=runtime.stream_writer)


def options_of(tool: Tool) -> ToolOptions:
    """How a tool is called; a tool without options has the usual ones."""
    return getattr(tool, "options", None) or ToolOptions()


def _said(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:  # whatever the class of a user does
        text = ""
    if isinstance(error, ModelRetry | ToolError):
        return f"Error: {text}"
    return f"Error: {type(error).__name__}: {text}" if text else f"Error: {type(error).__name__}"


def _told(asked: ToolCall, context: ToolContext, content: str, *, failed: bool = False) -> Message:
    """The message, and the event of the call in the log."""
    if context.runtime is not None and context.runtime.is_recorded:
        agent = getattr(context.agent, "name", None)
        told = {"tool": asked.name, "call": asked.id, "agent": agent, "error": content[:SHOWN] if failed else None}
        context.runtime.record("tool_called", {key: value for key, value in told.items() if value is not None})
    status = {"status": "error"} if failed else None
    return Message(content, role="tool", name=asked.name, tool_call_id=asked.id, metadata=status)


# -- approval


def _approved(asked: ToolCall, tool: Tool, context: ToolContext) -> Mapping[str, Any]:
    """The arguments with which a call may be made. Raises ToolError for those that do not fit, and if nobody agrees.

    Whoever is asked sees the arguments as the tool will understand them: text that counts as true is shown as true.
    """
    check = getattr(tool, "checked", None)
    arguments: Mapping[str, Any] = check(asked.arguments) if check is not None else asked.arguments
    wanted = options_of(tool).approve
    if callable(wanted):
        wanted = wanted(arguments, context)
    if not wanted:
        return asked.arguments
    question = {"kind": "approval", "tool": asked.name, "arguments": dict(arguments), "tool_call_id": asked.id}
    decision = interrupt(question, key=f"approve {asked.id}", schema=bool | str | Decision)
    agrees, others, reason = read_decision(decision)
    if not agrees:
        raise WrongCall(f"The call of {asked.name!r} was refused{f': {reason}' if reason else ''}.")
    return asked.arguments if others is None else others


class Decision(TypedDict):
    """What is decided about a call."""

    approved: bool
    arguments: NotRequired[dict[str, Any]]
    """Others than the model wrote."""
    reason: NotRequired[str]
    """Why not: told to the model."""


def read_decision(answer: Any) -> tuple[bool, Mapping[str, Any] | None, str]:
    """What was decided about a call: whether it is made, with which other arguments, and the reason if not.

    Said by a truth value; by text, where anything but a yes is a refusal and its reason; or by a mapping with
    `approved`, and perhaps `arguments` and `reason`.
    """
    if isinstance(answer, str):
        agrees = answer.strip().lower() in _YES
        return agrees, None, "" if agrees else answer.strip()
    if isinstance(answer, Mapping):
        decision = cast("Mapping[str, Any]", answer)
        return decision.get("approved") is True, decision.get("arguments"), str(decision.get("reason") or "")
    return answer is True, None, ""


def in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Messages with the results of each answer's calls in the order in which it asked for them."""
    ordered: list[Message] = []
    places: Mapping[str | None, int] = {}
    for are_results, group in groupby(messages, key=lambda message: message.role == "tool"):
        found = list(group)
        if are_results:
            found.sort(key=lambda message, asked=places: asked.get(message.tool_call_id, len(asked)))
        else:
            places = {call.id: place for place, call in enumerate(found[-1].tool_calls)}
        ordered.extend(found)
    return ordered


def without_gaps(messages: Sequence[Message]) -> Sequence[Message]:
    """A conversation as providers take it: calls that were never made, since a run was left, are answered so."""
    asked = [call.id for call in chain.from_iterable(map(_CALLS, messages))]
    given = list(map(_ANSWERS_TO, messages))
    if len(asked) == len(given) - given.count(None) and set(given).issuperset(asked):  # nearly always; quickly told
        return messages
    complete: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            waiting.pop(message.tool_call_id or "", None)
        elif waiting:
            complete.extend(map(_never_made, waiting.values()))
            waiting = {}
        complete.append(message)
        if message.tool_calls:
            waiting = {call.id: call for call in message.tool_calls}
    return [*complete, *map(_never_made, waiting.values())]


def _never_made(asked: ToolCall) -> Message:
    content = "Error: this call was not made."
    return Message(content, role="tool", name=asked.name, tool_call_id=asked.id, metadata={"status": "error"})
