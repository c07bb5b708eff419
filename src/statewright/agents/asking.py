"""A model asked by a node: streamed to those who watch, counted, noted in the log, and held to its word.

Whoever reads the stream mode `messages` gets pieces while the model speaks. Nobody else pays for them: without a
reader the answer is asked for whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import Any, cast

from statewright.errors import ModelAnswerInvalid
from statewright.graph import Runtime
from statewright.messages import Message, ToolCall, copied
from statewright.models import (
    ChatModel,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    Usage,
    chunk_of,
    closing,
    in_time,
    named,
    stream_in_time,
)


async def ask(
    model: ChatModel,
    request: ModelRequest,
    runtime: Runtime[Any],
    *,
    name: str | None = None,
    position: int = 0,
) -> ModelResponse:
    """What a model answers to a request that a task makes, with its cost counted against the budget of the run.

    `name` is that of the agent, which its messages carry. `position` tells the calls of one task from each other.
    Raises ModelAnswerInvalid for an answer that is none, ModelUnavailable after the request's timeout, and what the
    model raises.
    """
    began = runtime.clock.monotonic() if runtime.is_recorded else 0.0
    message_id = f"{runtime.execution_info.task_id}-{position}" if runtime.shows_messages else None
    if message_id is not None:
        response = await _streamed(model, request, runtime, message_id, name)
    else:
        response = await in_time(_whole(model, request), model, request)
    checked = _checked(model, request, response)
    runtime.spend(tokens=checked.usage.tokens, cost=checked.usage.cost)
    if runtime.is_recorded:
        seconds = runtime.clock.monotonic() - began
        runtime.record("model_called", _told(model, request, checked, name, seconds))
    if message_id is None and name is None:
        return checked
    message = copied(checked.message)
    message.id, message.name = message_id or message.id, name or message.name
    return ModelResponse(message, checked.usage, checked.model, checked.finish_reason)


async def _whole(model: ChatModel, request: ModelRequest) -> Any:
    answer: Any = model.complete(request)
    if not isawaitable(answer):
        raise ModelAnswerInvalid(
            f"complete() of {_adapter(model)} is no coroutine function, or it gave {answer!r} instead of a coroutine. "
            f"Write `async def complete`."
        )
    return await answer


async def _streamed(
    model: ChatModel, request: ModelRequest, runtime: Runtime[Any], message_id: str, name: str | None
) -> ModelResponse:
    """The response at the end of a stream, whose pieces are shown. Raises ModelAnswerInvalid if there is none."""
    async with closing(stream_in_time(model, request)) as events:
        async for event in events:
            if isinstance(event, ResponseFinished):
                return event.response
            chunk = chunk_of(event, message_id, name)
            if chunk is None:
                raise ModelAnswerInvalid(f"stream() of {_adapter(model)} gave {event!r}, which is no ModelEvent.")
            runtime.push_message(chunk)
    raise ModelAnswerInvalid(f"stream() of {_adapter(model)} ended without a ResponseFinished.")


def _checked(model: ChatModel, request: ModelRequest, response: object) -> ModelResponse:
    """The response, if it is one: adapters are written by many."""
    if isinstance(response, ModelResponse) and _is_said(response.message) and isinstance(response.usage, Usage):  # pyright: ignore
        return response
    raise ModelAnswerInvalid(
        f"Model {named(model, request)} answered {response!r}, which is no ModelResponse with a message of the "
        f"assistant. Its adapter is {_adapter(model)}."
    )


def _is_said(message: object) -> bool:
    if not isinstance(message, Message) or message.role != "assistant":
        return False
    if not all(_is_call(call) for call in message.tool_calls):
        return False
    content = cast(object, message.content)  # adapters are not held to the type
    return isinstance(content, str | list)


def _is_call(call: object) -> bool:
    if not isinstance(call, ToolCall):
        return False
    identity, name, arguments = cast("tuple[object, ...]", (call.id, call.name, call.arguments))
    return isinstance(identity, str) and isinstance(name, str) and isinstance(arguments, dict)


def _adapter(model: object) -> str:
    return f"{type(model).__module__}.{type(model).__qualname__}"


def _told(
    model: ChatModel, request: ModelRequest, response: ModelResponse, name: str | None, seconds: float
) -> Mapping[str, Any]:
    """What the log keeps of a call: no text, which is in the state."""
    usage = response.usage
    told = {
        "model": response.model or request.model or getattr(model, "name", None) or type(model).__name__,
        "agent": name,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost or None,
        "tools": [call.name for call in response.message.tool_calls] or None,
        "finish_reason": response.finish_reason,
        "seconds": round(seconds, 6) or None,
    }
    return {key: value for key, value in told.items() if value is not None}
