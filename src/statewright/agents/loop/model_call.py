"""Call a model on behalf of an agent: repair the request, stream and validate the answer, count and log its usage.

All model calls of agents and prebuilt graphs are made by `ask`, except those of memory strategies. Readers of the
stream mode `messages` receive chunks while the answer arrives; if there is no such reader, the answer is not streamed,
which takes less work.

An answer is saved with the superstep of its task. If user code that may fail runs between the answer and the save,
`keep_answer` first records the answer in the task's journal, so that a later execution of the task, in any process,
does not pay for the answer again. Errors that such user code raises are marked by `not_retried`, because a retry would
only repeat the bug and cost another model call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from statewright.agents.tools.tool import status_of
from statewright.checkpoint import Pending
from statewright.data.mappings import without_none
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
from statewright.models.port import model_name

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

    The conversation is repaired first, see `prepare_request`. `name` is the name of the agent, which becomes the name
    of the message. `position` distinguishes the model calls of one task. With `show=False`, readers of the stream mode
    `messages` do not receive the answer, for example because it does not become part of the conversation. If the answer
    was cut off or refused, `finish_reason` of the message says so. The tool calls of a refused answer are dropped,
    because they may be incomplete.

    Raises ModelAnswerInvalid for an invalid answer, ModelUnavailable if the request times out, and the errors of the
    model.
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
        data = describe_call(response, model=model_name(model, request), agent=name, seconds=seconds)
        runtime.record("model_called", data)
    message = copied(with_own_call_ids(encodable_message(response.message), request.messages))
    message.id, message.name = message_id or message.id, name or message.name
    if response.finish_reason in CUT_SHORT:
        metadata = {**(message.metadata or {}), "finish_reason": response.finish_reason}
        if response.finish_reason == "refused" and message.tool_calls:
            message.tool_calls = ()
            metadata.pop("provider", None)  # contains the calls too, and would be sent to the provider again
        message.metadata = metadata
    return ModelResponse(message, response.usage, response.model, response.finish_reason)


def cut_short_reason(message: Message | None) -> str | None:
    """Return `length` or `refused` if a message was cut off or refused; None if it is complete or there is none."""
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
    """Stream the answer of a model to the readers of the run; return the final response and the id of its message.

    Readers join chunks by message id, so an answer that starts over, in this or in another attempt at the task, gets a
    new id. Raises ModelAnswerInvalid if the stream ends without a response.
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
    """Return a response if it is valid. Raises ModelAnswerInvalid otherwise, because adapters may ignore type hints."""
    match response:
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
    """Return the data of the event `model_called`. The text of the answer is not part of it, since the state has it."""
    usage = response.usage
    return without_none(
        {
            "model": response.model or model,
            "agent": agent,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": usage.cost or None,
            "tools": [call.name for call in response.message.tool_calls] or None,
            "finish_reason": response.finish_reason,
            "seconds": round(seconds, 6) or None,
        }
    )


# -- answers in the journal

_STEP_PREFIX: Final = "answer of "
"""The prefix of the names of journal steps with answers."""


async def keep_answer(runtime: Runtime[Any], name: str, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
    """Call `ask`, record its response in the journal, and return it.

    If an earlier execution of the task has recorded the response, it is returned without another call. `name`
    identifies the response among those of the task, and must be the same in each execution.
    """
    message, usage, model, finish_reason = await runtime.step(f"{_STEP_PREFIX}{name}", partial(_response_parts, ask))
    return ModelResponse(message, Usage(*usage), model, finish_reason)


async def _response_parts(ask: Callable[[], Awaitable[ModelResponse]]) -> list[Any]:
    """Call `ask`, and return its response as a list of values that every saver can store."""
    response = await ask()
    return [response.message, response.usage.to_list(), response.model, response.finish_reason]


def usage_in_journal(pending: Pending) -> Usage:
    """Return the total usage of the answers in the journal of a checkpoint."""
    answers = [entry.value for (_, name, _), entry in pending.journal.items() if name.startswith(_STEP_PREFIX)]
    return sum((Usage(*parts[1]) for parts in answers), Usage())


# -- retries

FIRST_DELAY: Final = 0.5
"""Seconds before the second attempt; each later delay is twice as long."""
MAX_DELAY: Final = 60.0
"""Maximum seconds between two attempts."""
_NOT_RETRIED: Final = "_statewright_not_retried"
"""The attribute by which `not_retried` marks errors."""
_FINAL_STATUSES: Final = frozenset(range(400, 500)) - RETRIED_STATUSES
"""HTTP statuses of errors that a retry would not change."""


def retry_policy(retries: int | RetryPolicy) -> RetryPolicy | None:
    """Return the policy for a number of retries; None for 0.

    A RetryPolicy is returned with the addition that it does not retry after errors marked by `not_retried`.
    """
    if isinstance(retries, RetryPolicy):
        return replace(retries, retry_on=partial(_is_retried, retries))
    if retries <= 0:
        return None
    return RetryPolicy(
        initial_interval=FIRST_DELAY,
        backoff_factor=2.0,
        max_interval=MAX_DELAY,
        max_attempts=retries + 1,
        jitter=True,
        retry_on=is_worth_another_attempt,
    )


@contextmanager
def not_retried() -> Generator[None]:
    """Mark exceptions raised in the `with` block, so that policies returned by `retry_policy` do not retry the task."""
    try:
        yield
    except Exception as error:
        with suppress(AttributeError):  # an exception with __slots__
            error.__dict__[_NOT_RETRIED] = True
        raise


def _is_retried(policy: RetryPolicy, error: BaseException) -> bool:
    return _NOT_RETRIED not in vars(error) and policy.matches(error)


def is_worth_another_attempt(error: BaseException) -> bool:
    """Return True if a retry may succeed: after connection errors, errors of servers, and unknown errors.

    Return False for programming errors, for other errors of this library, and for errors marked by `not_retried`.
    """
    if _NOT_RETRIED in vars(error):
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
