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

from pydantic_core import PydanticSerializationError, to_json

from statewright.agents.tools.answers import as_text, content_parts, read_iterators
from statewright.agents.tools.tool import Credentials, HttpError, Tool, ToolContext, ToolOptions, WrongCall, status_of
from statewright.data.encodable import encodable_text
from statewright.errors import InternalError, RunError, SerdeError, StorageError, ToolError, add_note, suggestion
from statewright.graph import Runtime
from statewright.messages import Message, ToolCall, ToolResult, encodable_message
from statewright.redaction import text_of
from statewright.runtime import get_runtime, interrupt, part_of_attempt


async def call_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: ToolContext, kept: tuple[type, ...] = ()
) -> Any:
    """Call a tool and return its answer as text or JSON. Answers of the types in `kept` are returned unchanged.

    The values of a generator become a list. A message is replaced by its content unless messages are kept.

    Raises ToolError for a wrong call, and the errors of the tool itself.
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
    # Outside of the handler: the error with the secret must not become the context of this one.
    add_note(masked_error, f"Raised by tool {tool.name!r}.")
    raise masked_error


def as_json(tool: str, answer: Any) -> Any:
    """Convert an answer to text or plain JSON: dataclasses and models become maps, numbers that are not finite None.

    Raises ToolError for values that JSON cannot express.
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
            f"Return text, numbers, lists and maps."
        ) from error


def mask_error(error: Exception, credentials: Credentials) -> Exception | None:
    """Return an equivalent error with its secrets masked; None if it contains none.

    The retry policy treats it like the original: connection errors and HTTP statuses are kept.
    """
    if not credentials.appear_in(text_of(error)):
        return None
    text = credentials.hidden_in(f"{type(error).__name__}: {error}")
    if (status := status_of(error)) is not None:
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
"""Types of answers that are not converted to JSON."""
MAX_LOGGED_ERROR: Final = 200
"""Maximum characters of an error in the log."""


class ModelRetry(Exception):
    """Raised by a tool to tell the model what to correct, and let it try again."""


async def run_guarded(answer: Awaitable[T], call: ToolCall) -> T:
    """Await the answer of a call, and convert SystemExit and stray cancellations to ToolErrors."""
    try:
        return await answer
    except SystemExit as error:
        raise ToolError(f"Tool {call.name!r} tried to exit the program (exit code {error.code!r}).") from error
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        raise ToolError(f"Tool {call.name!r} cancelled itself: its call was not cancelled.") from error


def _is_being_cancelled() -> bool:
    """Return True if the current task was asked to stop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop, so nothing can be cancelled
        return False
    return task is not None and task.cancelling() > 0


async def answer_call(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Message:
    """Make a call and return the message that answers it; for a failure, with `metadata={"status": "error"}`.

    Raises errors of the runtime itself: a lost lease, an exhausted budget.
    """
    try:
        answer = await run_tool_call(call, tools, context, kept=RESULTS)
    except Exception as error:
        return failure_message(call, context, error)
    return answer_message(call, context, answer)


def answer_message(call: ToolCall, context: ToolContext, answer: Any) -> Message:
    """Return the message with the answer of a tool; an answer that is a message is bound to the call.

    Images and audio become parts of the message, everything else text.
    """
    if isinstance(answer, ToolResult):
        answer = answer.to_message()
    if not isinstance(answer, Message):
        _record_call(call, context, None)
        content = f"{call.name} was executed." if answer is None else content_parts(answer) or as_text(answer)
        return _result_message(call, content)
    failed = (answer.metadata or {}).get("status") == "error"
    _record_call(call, context, answer.text if failed else None)
    message = Message(answer.content, "tool", answer.id, answer.name or call.name, (), call.id, answer.metadata)
    return encodable_message(message)


def failure_message(call: ToolCall, context: ToolContext, error: Exception, text: str | None = None) -> Message:
    """Return the message that reports a failed call to the model. Raises errors of the run itself."""
    if isinstance(error, _NOT_FOR_MODELS):
        raise error
    if text is None:
        describe = _error_text if isinstance(error, ModelRetry | ToolError) else _describe_error
        text = f"Error: {describe(error)}"
    _record_call(call, context, text)
    return _result_message(call, text, {"status": "error"})


async def run_tool_call(
    call: ToolCall, tools: Mapping[str, Tool], context: ToolContext, *, kept: tuple[type, ...] = ()
) -> Any:
    """Make a call, after approval if required, and return the answer. Raises ToolError, and errors of the tool."""
    if call.invalid is not None:
        written = call.invalid[:MAX_LOGGED_ERROR]
        raise WrongCall(f"The arguments of tool {call.name!r} are not a JSON object: {written!r}.")
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
                if part is not None and context.runtime is not None:  # the runtime is bound to the nested attempt
                    runtime = get_runtime()
                    call_context = replace(context, runtime=runtime, stream_writer=runtime.stream_writer)
                return await run_guarded(call_tool(tool, arguments, context=call_context, kept=kept), call)
        except TimeoutError as error:
            if not limit.expired():
                raise  # a TimeoutError of the tool
            if part is not None:
                part.abandoned = True  # a plain function keeps running: its later steps are rejected
            raise ToolError(
                f"Tool {call.name!r} took longer than {options.timeout} seconds and was abandoned."
            ) from error


def check_saveable(call: ToolCall, update: Any, runtime: Runtime[Any]) -> None:
    """Raise ToolError for an update that cannot be saved, which is reported to the model instead of failing the run."""
    try:
        runtime.check_saveable(update)
    except SerdeError as error:
        raise ToolError(f"Tool {call.name!r} wrote a value to the state that cannot be saved: {error}") from error


def tool_options(tool: Tool) -> ToolOptions:
    """Return the options of a tool; the defaults for a tool without options."""
    return getattr(tool, "options", None) or ToolOptions()


def _describe_error(error: BaseException) -> str:
    """Return the type and the text of an error, with those of the errors in a group."""
    text = _error_text(error)
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(_describe_error, inner))}"
    kind = type(cast("object", error)).__name__
    return f"{kind}: {text}" if text else kind


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error in a user's class
        return ""


def _result_message(
    call: ToolCall, content: str | list[dict[str, Any]], metadata: dict[str, Any] | None = None
) -> Message:
    message = Message(content, role="tool", name=call.name, tool_call_id=call.id, metadata=metadata)
    return encodable_message(message)


def _record_call(call: ToolCall, context: ToolContext, error: str | None) -> None:
    """Record the event of a call in the log of the run, if there is one."""
    if context.runtime is not None and context.runtime.is_recorded:
        agent = getattr(context.agent, "name", None)
        failure = error[:MAX_LOGGED_ERROR] if error is not None else None
        event = {"tool": call.name, "call": call.id, "agent": agent, "error": failure}
        context.runtime.record("tool_called", {key: value for key, value in event.items() if value is not None})


# -- approval


def _approved_arguments(call: ToolCall, tool: Tool, context: ToolContext) -> Mapping[str, Any]:
    """Return the approved arguments of a call. Raises ToolError if they do not fit, or the call is refused.

    The question shows the arguments as the tool will read them: text that is read as true is shown as true.
    """
    check = getattr(tool, "checked", None)
    arguments: Mapping[str, Any] = check(call.arguments) if check is not None else call.arguments
    required = tool_options(tool).approve
    if callable(required):
        required = required(arguments, context)
    if not required:
        return call.arguments
    question = {"kind": "approval", "tool": call.name, "arguments": dict(arguments), "tool_call_id": call.id}
    decision = interrupt(question, key=f"approve {call.id}", schema=bool | str | ApprovalDecision)
    is_approved, replacement, reason = read_decision(decision)
    if not is_approved:
        raise WrongCall(f"The call of {call.name!r} was refused{f': {reason}' if reason else ''}.")
    return call.arguments if replacement is None else replacement


class ApprovalDecision(TypedDict):
    """The decision about a call that needs approval."""

    approved: bool
    arguments: NotRequired[dict[str, Any]]
    """Replacements of the model's arguments."""
    reason: NotRequired[str]
    """The reason of a refusal, which is reported to the model."""


def read_decision(answer: Any) -> tuple[bool, Mapping[str, Any] | None, str]:
    """Read a decision: whether the call is approved, replaced arguments if any, and the reason of a refusal.

    It is a bool; or text, where anything but a yes is a refusal and its reason; or a mapping with `approved`, and
    optionally `arguments` and `reason`.
    """
    if isinstance(answer, str):
        is_approved = answer.strip().lower() in _YES
        return is_approved, None, "" if is_approved else answer.strip()
    if isinstance(answer, Mapping):
        decision = cast("Mapping[str, Any]", answer)
        return decision.get("approved") is True, decision.get("arguments"), str(decision.get("reason") or "")
    return answer is True, None, ""
