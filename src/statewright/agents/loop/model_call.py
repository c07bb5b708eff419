"""Call a model on behalf of an agent: repair the request, and validate, stream, count, log and retry the answer.

Every call of an agent, a planner or a prebuilt graph goes through `ask`. Readers of the stream mode `messages` receive
chunks while the answer arrives; without such a reader the model is asked for the complete answer, which costs less.

An answer is saved with the superstep of its task. If user code that may fail runs between the answer and the save,
`keep_answer` records the answer in the task's journal first, so that a later execution, in any process, does not pay
for it again. Errors that such code raises are marked by `not_retried`: a retry would only repeat the bug, at the price
of another model call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from statewright.checkpoint import Pending
from statewright.errors import ModelAnswerInvalid, ModelUnavailable, StatewrightError, ToolError
from statewright.graph import RetryPolicy, Runtime, default_retry_on
from statewright.messages import Message, ToolCall, copied, encodable_message
from statewright.models import (
    ChatModel,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    StreamRestarted,
    Usage,
    chunk_of,
    closing,
    in_time,
    named,
    prepare_request,
    stream_in_time,
    with_own_call_ids,
)
from statewright.models.adapters.conversion import RETRIED_STATUSES

CUT_SHORT: Final = ("length", "refused")
"""Finish reasons of incomplete answers."""


async def ask(
    model: ChatModel,
    request: ModelRequest,
    runtime: Runtime[Any],
    *,
    name: str | None = None,
    position: int = 0,
    show: bool = True,
) -> ModelResponse:
    """Return the answer of a model to a request, and count its cost against the budget of the run.

    The conversation is repaired first, see `prepare_request`. `name` is the agent's, and is set on its messages.
    `position` distinguishes the calls of one task. With `show=False` the answer is not streamed to readers of the
    stream mode `messages`: for calls that decide or check something. An answer that was cut off or refused has that
    reason in `Message.finish_reason`. The tool calls of a refused answer are dropped: it may have been stopped in the
    middle of one.

    Raises ModelAnswerInvalid for an invalid answer, ModelUnavailable after the request's timeout, and the errors of
    the model.
    """
    request = prepare_request(request)
    started_at = runtime.clock.monotonic() if runtime.is_recorded else 0.0
    message_id = None
    if show and runtime.shows_messages:
        response, message_id = await _stream(model, request, runtime, position, name)
    else:
        response = await in_time(_complete(model, request), model, request)
    response = _check_response(model, request, response)
    runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
    if runtime.is_recorded:
        seconds = runtime.clock.monotonic() - started_at
        model_name = request.model or getattr(model, "name", None) or type(model).__name__
        runtime.record("model_called", describe_call(response, model=model_name, agent=name, seconds=seconds))
    message = copied(with_own_call_ids(encodable_message(response.message), request.messages))
    message.id, message.name = message_id or message.id, name or message.name
    if response.finish_reason in CUT_SHORT:
        metadata = {**(message.metadata or {}), "finish_reason": response.finish_reason}
        if response.finish_reason == "refused" and message.tool_calls:
            message.tool_calls = ()
            metadata.pop("provider", None)  # it repeats the calls, and would be sent back to the provider
        message.metadata = metadata
    return ModelResponse(message, response.usage, response.model, response.finish_reason)


def cut_short_reason(message: Message | None) -> str | None:
    """Return `length` or `refused` if a message ended so; None if it is complete, or there is none."""
    return message.finish_reason if message is not None and message.finish_reason in CUT_SHORT else None


async def _complete(model: ChatModel, request: ModelRequest) -> Any:
    answer: Any = model.complete(request)
    if not isawaitable(answer):
        raise ModelAnswerInvalid(
            f"complete() of {_adapter_name(model)} returned {answer!r} instead of a coroutine. "
            f"Write `async def complete`."
        )
    return await answer


async def _stream(
    model: ChatModel, request: ModelRequest, runtime: Runtime[Any], position: int, name: str | None
) -> tuple[ModelResponse, str]:
    """Push the chunks of a stream to its readers, and return the final response and the id of its message.

    An answer that restarts, in another attempt at the task or within this one, gets another id, since readers join
    chunks by id. Raises ModelAnswerInvalid for a stream without a response.
    """
    info = runtime.execution_info
    first_id = message_id = f"{info.task_id}-{position}" + (f"-{info.attempt}" if info.attempt > 1 else "")
    restarts = 0
    async with closing(stream_in_time(model, request)) as events:
        async for event in events:
            if isinstance(event, ResponseFinished):
                return event.response, message_id
            if isinstance(event, StreamRestarted):
                restarts += 1
                message_id = f"{first_id}-{info.attempt}-{restarts}"
                continue
            chunk = chunk_of(event, message_id, name)
            if chunk is None:
                raise ModelAnswerInvalid(
                    f"stream() of {_adapter_name(model)} yielded {event!r}, which is not a ModelEvent."
                )
            runtime.push_message(chunk)
    raise ModelAnswerInvalid(f"stream() of {_adapter_name(model)} ended without a ResponseFinished.")


def _check_response(model: ChatModel, request: ModelRequest, response: object) -> ModelResponse:
    """Return the response of an adapter. Raises ModelAnswerInvalid if it is not valid."""
    match response:  # adapters may ignore the types
        case ModelResponse(message=Message(role="assistant", content=str() | list()) as message, usage=Usage()):
            if all(map(_is_tool_call, message.tool_calls)):
                return response
        case _:
            pass
    raise ModelAnswerInvalid(
        f"Model {named(model, request)} answered {response!r}, which is not a ModelResponse with an assistant "
        f"message. Its adapter is {_adapter_name(model)}."
    )


def _is_tool_call(call: object) -> bool:
    match call:
        case ToolCall(id=str(), name=str(), arguments=dict()):
            return True
        case _:
            return False


def _adapter_name(model: object) -> str:
    return f"{type(model).__module__}.{type(model).__qualname__}"


def describe_call(
    response: ModelResponse, *, model: str | None = None, agent: str | None = None, seconds: float = 0.0
) -> Mapping[str, Any]:
    """Return the data of the event `model_called`, without text: that is in the state."""
    usage = response.usage
    data = {
        "model": response.model or model,
        "agent": agent,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost or None,
        "tools": [call.name for call in response.message.tool_calls] or None,
        "finish_reason": response.finish_reason,
        "seconds": round(seconds, 6) or None,
    }
    return {key: value for key, value in data.items() if value is not None}


# -- answers in the journal

_STEP: Final = "answer of "
"""The prefix of the names of journal steps."""


async def keep_answer(runtime: Runtime[Any], name: str, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
    """Return the response of `ask`, or its response in an earlier execution of the task.

    `name` distinguishes the answers of one task, and must be the same for the same request in each execution.
    """
    message, usage, model, finish_reason = await runtime.step(f"{_STEP}{name}", partial(_response_parts, ask))
    return ModelResponse(message, Usage(*usage), model, finish_reason)


async def _response_parts(ask: Callable[[], Awaitable[ModelResponse]]) -> list[Any]:
    """Return a response as a value that every saver accepts."""
    response = await ask()
    return [response.message, response.usage.to_list(), response.model, response.finish_reason]


def usage_in_journal(pending: Pending) -> Usage:
    """Return the total usage of the answers in the journal of a checkpoint."""
    answers = [entry.value for (_, name, _), entry in pending.journal.items() if name.startswith(_STEP)]
    return sum((Usage(*parts[1]) for parts in answers), Usage())


# -- retries

FIRST_DELAY: Final = 0.5
"""Seconds before the second attempt; each later delay is twice as long."""
LONGEST_DELAY: Final = 60.0
_FINAL: Final = "_statewright_not_retried"
_FINAL_STATUSES: Final = frozenset(range(400, 500)) - RETRIED_STATUSES


def retry_policy(retries: int | RetryPolicy) -> RetryPolicy | None:
    """Return the policy for a number of retries; None for 0. Honours Retry-After."""
    if isinstance(retries, RetryPolicy):
        return replace(retries, retry_on=partial(_is_retried, retries))
    if retries <= 0:
        return None
    return RetryPolicy(
        initial_interval=FIRST_DELAY,
        backoff_factor=2.0,
        max_interval=LONGEST_DELAY,
        max_attempts=retries + 1,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )


@contextmanager
def not_retried() -> Generator[None]:
    """Mark the exceptions raised inside: no policy made by `retry_policy` retries after them."""
    try:
        yield
    except Exception as error:
        with suppress(AttributeError):  # an exception with __slots__
            error.__dict__[_FINAL] = True
        raise


def _is_retried(policy: RetryPolicy, error: BaseException) -> bool:
    return _FINAL not in vars(error) and policy.matches(error)


def is_worth_another_attempt(error: BaseException) -> bool:
    """Return True if the same call may succeed later: connection errors, failing or busy servers, unknown errors.

    Programming errors, and errors marked by `not_retried`, are not retried.
    """
    if _FINAL in vars(error):
        return False
    if isinstance(error, ModelUnavailable):
        return error.status not in _FINAL_STATUSES
    if isinstance(error, ToolError):
        cause = error.__cause__
        return cause is not None and is_worth_another_attempt(cause)
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    status = status_of(error)
    if status is not None:
        return status not in _FINAL_STATUSES
    is_unknown = isinstance(error, Exception) and not isinstance(error, StatewrightError)
    return is_unknown and default_retry_on(error)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, in any of the attributes that libraries use; None if there is none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None
