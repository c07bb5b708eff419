"""Call tools, for workflows (`call_tool`) or at the request of models (`answer_call`).

`call_tool` returns plain JSON in which credentials are masked. An exception of the tool is raised unchanged, with a
note that names the tool, so that retry policies can decide by the type of the exception. See
`docs/decisions/0026-tools.md`.

The result of a call that a model requested is always a message. Wrong arguments, exceptions, timeouts, and answers that
cannot be written as JSON are reported to the model, which may try something else. Only errors of the run itself are
raised.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, NotRequired, TypedDict, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

from statewright.agents.tools.answers import as_text, content_parts, read_iterators
from statewright.agents.tools.tool import Credentials, HttpError, Tool, ToolContext, ToolOptions, WrongCall, status_of
from statewright.data.encodable import encodable_text
from statewright.data.mappings import without_none
from statewright.errors import InternalError, RunError, SerdeError, StorageError, ToolError, add_note, suggestion
from statewright.graph import Runtime
from statewright.messages import Message, ToolCall, ToolResult, encodable_message
from statewright.redaction import full_text
from statewright.runtime import get_runtime, interrupt, part_of_attempt


async def call_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: ToolContext, kept: tuple[type, ...] = ()
) -> Any:
    """Call a tool and return its answer as text or plain JSON. Answers of the types in `kept` are returned unchanged.

    An iterator is replaced by a list of its values, and a message by its content unless `kept` has Message. Raises
    ToolError for a wrong call, and the errors of the tool. Secrets in an error are masked, see `mask_error`.
    """
    masked_error: Exception | None = None
    try:
        answer = await tool.call(arguments, context=context)
        if isinstance(answer, kept):
            return answer
        answer = await read_iterators(tool.name, answer, in_place=context.in_place)
        content = answer.content if isinstance(answer, Message) else answer
        return context.credentials.hidden_in(as_json(tool.name, content))
    except Exception as error:
        masked_error = mask_error(error, context.credentials)
        if masked_error is None:
            if not isinstance(error, ToolError):
                add_note(error, f"Raised by tool {tool.name!r}.")
            raise
    # Raised after the `except` block, so that the original error, which contains a secret, does not become the context
    # of the masked error.
    add_note(masked_error, f"Raised by tool {tool.name!r}.")
    raise masked_error


def as_json(tool: str, answer: Any) -> Any:
    """Convert the answer of the tool named `tool` to text or plain JSON.

    Dataclasses and pydantic models become mappings; NaN and infinities become None. Raises ToolError for values that
    JSON cannot express.
    """
    if isinstance(answer, str):
        return encodable_text(str(answer))
    if answer is None or isinstance(answer, bool | int):
        return answer
    try:
        return json.loads(to_json(answer, inf_nan_mode="null", bytes_mode="utf8"))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(
            f"Tool {tool!r} returned a {type(answer).__name__}, which cannot be written as JSON: {error}. "
            f"Return strings, numbers, lists and mappings."
        ) from error


def mask_error(error: Exception, credentials: Credentials) -> Exception | None:
    """Return an equivalent error with its secrets masked; None if it contains no secret.

    Retry policies treat it like the original, because it preserves HTTP statuses, and the types of connection and
    timeout errors. Other errors become ToolErrors.
    """
    if not credentials.appear_in(full_text(error)):
        return None
    text = credentials.hidden_in(f"{type(error).__name__}: {error}")
    if (status := status_of(error)) is not None:
        return HttpError(text, status=status, retry_after=getattr(error, "retry_after", None))
    for error_class in (ConnectionError, TimeoutError):
        if isinstance(error, error_class):
            return error_class(text)
    return ToolError(text)


# -- calls that a model requested

T = TypeVar("T")
_RUN_FAULTS: Final = (RunError, StorageError, InternalError)
"""Errors of the run itself, which are not reported to models."""
_YES: Final = frozenset({"y", "yes", "approve", "approved", "accept", "ok", "true"})
"""The texts that approve a call."""
RESULTS: Final = (Message, ToolResult)
"""The types of tool answers that already have the form of a call's result, and are not converted to JSON."""
MAX_LOGGED_ERROR: Final = 200
"""Maximum characters of an error in the log of the run."""


class ModelRetry(Exception):
    """An error that a tool raises to tell the model what to correct in its next attempt."""


async def run_guarded(answer: Awaitable[T], call: ToolCall) -> T:
    """Await and return the answer of a tool call.

    Raises ToolError if the tool raises SystemExit, or cancels itself although its task is not being cancelled.
    """
    try:
        return await answer
    except SystemExit as error:
        raise ToolError(f"Tool {call.name!r} tried to exit the program (exit code {error.code!r}).") from error
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        raise ToolError(f"Tool {call.name!r} cancelled itself: its call was not cancelled.") from error


def _is_being_cancelled() -> bool:
    """Return True if the current task is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop, so nothing can be cancelled
        return False
    return task is not None and task.cancelling() > 0


async def answer_call(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Message:
    """Make a call and return its result as a message. If the call fails, the message has `{"status": "error"}` in its
    metadata.

    Only errors of the run itself are raised, such as a lost lease or an exhausted budget.
    """
    try:
        answer = await run_tool_call(call, tools, context, kept=RESULTS)
    except Exception as error:
        return failure_message(call, context, error)
    return answer_message(call, context, answer)


def answer_message(call: ToolCall, context: ToolContext, answer: Any) -> Message:
    """Return the answer of a tool as a message, which has the id of the call.

    Images and audio become parts of the message; everything else becomes text. An answer that is a message keeps its
    content. The call is recorded in the log of the run.
    """
    if isinstance(answer, ToolResult):
        answer = answer.to_message()
    if not isinstance(answer, Message):
        _record_call(call, context, None)
        content = f"{call.name} was executed." if answer is None else content_parts(answer) or as_text(answer)
        return _result_message(call, content)
    is_error = (answer.metadata or {}).get("status") == "error"
    _record_call(call, context, answer.text if is_error else None)
    message = Message(answer.content, "tool", answer.id, answer.name or call.name, (), call.id, answer.metadata)
    return encodable_message(message)


def failure_message(call: ToolCall, context: ToolContext, error: Exception, text: str | None = None) -> Message:
    """Return the message that reports an error to the model: `text`, or by default the text of the error.

    The call is recorded in the log of the run. An error of the run itself is raised instead.
    """
    if isinstance(error, _RUN_FAULTS):
        raise error
    if text is None:
        describe = _error_text if isinstance(error, ModelRetry | ToolError) else _describe_error
        text = f"Error: {describe(error)}"
    _record_call(call, context, text)
    return _result_message(call, text, {"status": "error"})


async def run_tool_call(
    call: ToolCall, tools: Mapping[str, Tool], context: ToolContext, *, kept: tuple[type, ...] = ()
) -> Any:
    """Make a call, after approval if that is required, and return the answer; for `kept` see `call_tool`.

    Raises WrongCall for an invalid or refused call, ToolError if it takes longer than the tool's timeout, and the
    errors of the tool.
    """
    if call.invalid is not None:
        excerpt = call.invalid[:MAX_LOGGED_ERROR]
        raise WrongCall(f"The arguments of tool {call.name!r} are not a JSON object: {excerpt!r}.")
    tool = tools.get(call.name)
    if tool is None:
        raise WrongCall(f"Tool {call.name!r} does not exist. {suggestion(call.name, tools, noun='Tools')}")
    options = tool_options(tool)
    arguments = _approved_arguments(call, tool, context) if options.approve else call.arguments
    if options.timeout is None:
        return await run_guarded(call_tool(tool, arguments, context=context, kept=kept), call)
    with part_of_attempt() as part:
        limit = asyncio.timeout(options.timeout)
        try:
            async with limit:
                call_context = context
                # The call is a nested attempt of its own, so it needs the runtime of that attempt.
                if part is not None and context.runtime is not None:
                    runtime = get_runtime()
                    call_context = replace(context, runtime=runtime, stream_writer=runtime.stream_writer)
                return await run_guarded(call_tool(tool, arguments, context=call_context, kept=kept), call)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the tool itself raised it
            if part is not None:
                part.abandoned = True  # a plain function continues on its thread, but its later steps are rejected
            raise ToolError(
                f"Tool {call.name!r} took longer than {options.timeout} seconds and was abandoned."
            ) from error


def check_saveable(call: ToolCall, update: Any, runtime: Runtime[Any]) -> None:
    """Raise ToolError for an update that cannot be saved, so that the error is reported to the model."""
    try:
        runtime.check_saveable(update)
    except SerdeError as error:
        raise ToolError(f"Tool {call.name!r} wrote a value to the state that cannot be saved: {error}") from error


def tool_options(tool: Tool) -> ToolOptions:
    """Return the options of a tool; the default options for a tool that has none."""
    return getattr(tool, "options", None) or ToolOptions()


def _describe_error(error: BaseException) -> str:
    """Return the type and the text of an error. For an exception group, the errors in it are described too."""
    text = _error_text(error)
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(_describe_error, inner))}"
    class_name = type(cast("object", error)).__name__
    return f"{class_name}: {text}" if text else class_name


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # raised by `__str__` of a user-defined class
        return ""


def _result_message(
    call: ToolCall, content: str | list[dict[str, Any]], metadata: dict[str, Any] | None = None
) -> Message:
    message = Message(content, role="tool", name=call.name, tool_call_id=call.id, metadata=metadata)
    return encodable_message(message)


def _record_call(call: ToolCall, context: ToolContext, error: str | None) -> None:
    """Record a call in the log of the run, if there is one; `error` is the text of a failure."""
    if context.runtime is not None and context.runtime.is_recorded:
        agent = getattr(context.agent, "name", None)
        excerpt = error[:MAX_LOGGED_ERROR] if error is not None else None
        event = without_none({"tool": call.name, "call": call.id, "agent": agent, "error": excerpt})
        context.runtime.record("tool_called", event)


# -- approval


def _approved_arguments(call: ToolCall, tool: Tool, context: ToolContext) -> Mapping[str, Any]:
    """Ask for approval if the call needs it, and return the arguments with which to make the call.

    The question shows the arguments as the tool will get them, for example true for the string "true" if the tool takes
    a bool. Raises WrongCall if the arguments are invalid or the call is refused.
    """
    validate = getattr(tool, "checked", None)
    arguments: Mapping[str, Any] = validate(call.arguments) if validate is not None else call.arguments
    is_required = tool_options(tool).approve
    if callable(is_required):
        is_required = is_required(arguments, context)
    if not is_required:
        return call.arguments
    question = {"kind": "approval", "tool": call.name, "arguments": dict(arguments), "tool_call_id": call.id}
    decision = interrupt(question, key=f"approve {call.id}", schema=bool | str | ApprovalDecision)
    is_approved, replacement, reason = read_decision(decision)
    if not is_approved:
        raise WrongCall(f"The call of {call.name!r} was refused{f': {reason}' if reason else ''}.")
    return call.arguments if replacement is None else replacement


class ApprovalDecision(TypedDict):
    """The answer to the question whether a call is approved."""

    approved: bool
    arguments: NotRequired[dict[str, Any]]
    """The arguments to use in place of the model's."""
    reason: NotRequired[str]
    """The reason for a refusal, which is reported to the model."""


def read_decision(answer: Any) -> tuple[bool, Mapping[str, Any] | None, str]:
    """Return whether a call is approved, the arguments that replace the model's or None, and the reason for a refusal.

    The answer is a bool, an ApprovalDecision, or text. A text such as "yes" approves the call; any other text is the
    reason for a refusal.
    """
    if isinstance(answer, str):
        is_approved = answer.strip().lower() in _YES
        return is_approved, None, "" if is_approved else answer.strip()
    if isinstance(answer, Mapping):
        decision = cast("Mapping[str, Any]", answer)
        return decision.get("approved") is True, decision.get("arguments"), str(decision.get("reason") or "")
    return answer is True, None, ""
