"""Call a tool, for a workflow (`call_tool`) or as a model requested it (`answer_call`).

The answer of `call_tool` is plain JSON without credentials. A tool's exception is raised unchanged, with a note that
names the tool: retry policies decide by its type. See `docs/decisions/0026-tools.md`.

The answer to a model's call is always a message. Wrong arguments, exceptions, timeouts and answers that cannot be
written as JSON are reported to the model, which may try another way. Only faults of the run itself are raised.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, NotRequired, TypedDict, TypeVar, cast

from statewright.agents.tools.answers import as_text, content_parts, read_iterators
from statewright.agents.tools.credentials import Credentials
from statewright.agents.tools.tool import HttpError, Tool, ToolContext, ToolOptions, WrongCall
from statewright.encodable import encodable_text
from statewright.errors import InternalError, RunError, StorageError, ToolError, add_note, suggestion
from statewright.messages import Message, ToolCall, ToolResult, encodable_message
from statewright.redaction import text_of
from statewright.runtime import get_runtime, interrupt, part_of_attempt


async def call_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: ToolContext, kept: tuple[type, ...] = ()
) -> Any:
    """What a tool answers: text, or a value of JSON. Answers of the types in `kept` are given as they are.

    What a generator yields is a list. Of a message the content counts where messages are not kept.

    Raises ToolError for a call that is wrong, and what the tool itself raises.
    """
    clean: Exception | None = None
    try:
        answer = await tool.call(arguments, context=context)
        if isinstance(answer, kept):
            return answer
        answer = await read_iterators(tool.name, answer, in_place=context.in_place)
        content = answer.content if isinstance(answer, Message) else answer
        return context.credentials.hidden_in(as_json(tool.name, content))
    except Exception as error:
        clean = mask_error(error, context.credentials)
        if clean is None:
            if not isinstance(error, ToolError):
                add_note(error, f"Raised by tool {tool.name!r}.")
            raise
    # Outside of the handler: the error that told too much must not hang on as the context of this one.
    add_note(clean, f"Raised by tool {tool.name!r}.")
    raise clean


def as_json(tool: str, answer: Any) -> Any:
    """An answer as text or as plain JSON: dataclasses and models become maps, what is not finite None.

    Raises ToolError for what JSON cannot say.
    """
    if isinstance(answer, str):
        return encodable_text(str(answer))
    if answer is None or isinstance(answer, bool | int):
        return answer
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return json.loads(to_json(answer, inf_nan_mode="null", bytes_mode="utf8"))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(
            f"Tool {tool!r} answered a {type(answer).__name__}, which cannot be written as JSON: {error}. "
            f"Answer with text, numbers, lists and maps."
        ) from error


def mask_error(error: Exception, credentials: Credentials) -> Exception | None:
    """Return an error that says the same without the secrets in it; None if it contains none.

    It is of a kind that the retry policy treats alike: a broken connection stays one, a status is kept.
    """
    if not credentials.appear_in(text_of(error)):
        return None
    text = credentials.hidden_in(f"{type(error).__name__}: {error}")
    status = getattr(error, "status", None)
    status = getattr(getattr(error, "response", None), "status_code", None) if status is None else status
    if isinstance(status, int):
        return HttpError(text, status=status, retry_after=getattr(error, "retry_after", None))
    for kind in (ConnectionError, TimeoutError):
        if isinstance(error, kind):
            return kind(text)
    return ToolError(text)


# -- calls of a model

T = TypeVar("T")
_NOT_FOR_MODELS: Final = (RunError, StorageError, InternalError)
_YES: Final = frozenset({"y", "yes", "approve", "approved", "accept", "ok", "true"})
RESULTS: Final = (Message, ToolResult)
"""Answers of tools that are kept as they are."""
MAX_LOGGED_ERROR: Final = 200
"""Characters of an error that the log keeps."""


class ModelRetry(Exception):
    """Raised by a tool: tells the model what to do otherwise, and lets it try again."""


async def run_guarded(call: Awaitable[T], asked: ToolCall) -> T:
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
        answer = await run_tool_call(asked, tools, context, kept=RESULTS)
    except Exception as error:
        return failure_message(asked, context, error)
    return answer_message(asked, context, answer)


def answer_message(asked: ToolCall, context: ToolContext, answer: Any) -> Message:
    """Return the message with the answer of a tool; one that is a message already is bound to the call.

    Images and audio are parts of the message, everything else is text.
    """
    if isinstance(answer, ToolResult):
        answer = answer.to_message()
    if not isinstance(answer, Message):
        _record_call(asked, context, None)
        content = f"{asked.name} was executed." if answer is None else content_parts(answer) or as_text(answer)
        return _result_message(asked, content)
    failed = (answer.metadata or {}).get("status") == "error"
    _record_call(asked, context, answer.text if failed else None)
    message = Message(answer.content, "tool", answer.id, answer.name or asked.name, (), asked.id, answer.metadata)
    return encodable_message(message)


def failure_message(asked: ToolCall, context: ToolContext, error: Exception, said: str | None = None) -> Message:
    """The message that tells a model why its call failed. Raises the error if it concerns whoever runs the graph."""
    if isinstance(error, _NOT_FOR_MODELS):
        raise error
    text = said if said is not None else _failure_text(error)
    _record_call(asked, context, text)
    return _result_message(asked, text, {"status": "error"})


async def run_tool_call(
    asked: ToolCall, tools: Mapping[str, Tool], context: ToolContext, *, kept: tuple[type, ...] = ()
) -> Any:
    """What a tool answers to a call, approved if it has to be. Raises ToolError, and what the tool raises."""
    if asked.invalid is not None:
        raise WrongCall(
            f"The arguments of tool {asked.name!r} are no JSON object: {asked.invalid[:MAX_LOGGED_ERROR]!r}."
        )
    tool = tools.get(asked.name)
    if tool is None:
        raise WrongCall(f"There is no tool {asked.name!r}. {suggestion(asked.name, tools, noun='Tools')}")
    options = tool_options(tool)
    arguments = _approved_arguments(asked, tool, context) if options.approve else asked.arguments
    if options.timeout is None:
        return await run_guarded(call_tool(tool, arguments, context=context, kept=kept), asked)
    with part_of_attempt() as part:
        limit = asyncio.timeout(options.timeout)
        try:
            async with limit:
                own = _nested_context(context) if part is not None else context
                return await run_guarded(call_tool(tool, arguments, context=own, kept=kept), asked)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the tool's own
            if part is not None:
                part.abandoned = True  # a plain function keeps running: its later steps are rejected
            raise ToolError(
                f"Tool {asked.name!r} took longer than {options.timeout} seconds and was given up."
            ) from error


def _nested_context(context: ToolContext) -> ToolContext:
    """Return the context with a runtime bound to the nested attempt of this call."""
    if context.runtime is None:
        return context
    runtime = get_runtime()
    return replace(context, runtime=runtime, stream_writer=runtime.stream_writer)


def tool_options(tool: Tool) -> ToolOptions:
    """How a tool is called; a tool without options has the usual ones."""
    return getattr(tool, "options", None) or ToolOptions()


def _failure_text(error: Exception) -> str:
    return (
        f"Error: {_error_text(error)}"
        if isinstance(error, ModelRetry | ToolError)
        else f"Error: {_describe_error(error)}"
    )


def _describe_error(error: BaseException) -> str:
    """The type and the text of an error, with those of the errors that a group holds."""
    text = _error_text(error)
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(_describe_error, inner))}"
    kind = type(cast("object", error)).__name__
    return f"{kind}: {text}" if text else kind


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # whatever the class of a user does
        return ""


def _result_message(
    asked: ToolCall, content: str | list[dict[str, Any]], metadata: dict[str, Any] | None = None
) -> Message:
    message = Message(content, role="tool", name=asked.name, tool_call_id=asked.id, metadata=metadata)
    return encodable_message(message)


def _record_call(asked: ToolCall, context: ToolContext, error: str | None) -> None:
    """Add the event of a call to the log of the run, if there is one."""
    if context.runtime is not None and context.runtime.is_recorded:
        agent = getattr(context.agent, "name", None)
        failure = error[:MAX_LOGGED_ERROR] if error is not None else None
        event = {"tool": asked.name, "call": asked.id, "agent": agent, "error": failure}
        context.runtime.record("tool_called", {key: value for key, value in event.items() if value is not None})


# -- approval


def _approved_arguments(asked: ToolCall, tool: Tool, context: ToolContext) -> Mapping[str, Any]:
    """The arguments with which a call may be made. Raises ToolError for those that do not fit, and if nobody agrees.

    Whoever is asked sees the arguments as the tool will understand them: text that counts as true is shown as true.
    """
    check = getattr(tool, "checked", None)
    arguments: Mapping[str, Any] = check(asked.arguments) if check is not None else asked.arguments
    wanted = tool_options(tool).approve
    if callable(wanted):
        wanted = wanted(arguments, context)
    if not wanted:
        return asked.arguments
    question = {"kind": "approval", "tool": asked.name, "arguments": dict(arguments), "tool_call_id": asked.id}
    decision = interrupt(question, key=f"approve {asked.id}", schema=bool | str | ApprovalDecision)
    agrees, others, reason = read_decision(decision)
    if not agrees:
        raise WrongCall(f"The call of {asked.name!r} was refused{f': {reason}' if reason else ''}.")
    return asked.arguments if others is None else others


class ApprovalDecision(TypedDict):
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
