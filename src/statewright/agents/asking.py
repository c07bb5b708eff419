"""A model asked by a node: streamed to those who watch, counted, noted in the log, and held to its word.

Whoever reads the stream mode `messages` gets pieces while the model speaks. Nobody else pays for them: without a
reader the answer is asked for whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from inspect import isawaitable
from typing import Any, cast

from statewright.errors import ModelAnswerInvalid, ModelUnavailable
from statewright.graph import Runtime
from statewright.messages import Message, ToolCall, copied
from statewright.models import (
    ChatModel,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    Usage,
    chunk_of,
    stream_model,
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
    message_id = f"{runtime.execution_info.task_id}-{position}" if runtime.shows_messages else None
    answer = _streamed(model, request, runtime, message_id, name) if message_id is not None else _whole(model, request)
    response = await (answer if request.timeout is None else _in_time(answer, model, request))
    checked = _checked(model, request, response)
    runtime.spend(tokens=checked.usage.tokens, cost=checked.usage.cost)
    runtime.record("model_called", _told(model, request, checked, name))
    if message_id is None and name is None:
        return checked
    message = copied(checked.message)
    message.id, message.name = message_id or message.id, name or message.name
    return ModelResponse(message, checked.usage, checked.model, checked.finish_reason)


async def _whole(model: ChatModel, request: ModelRequest) -> Any:
    answer: Any = model.complete(request)
    if not isawaitable(answer):
        raise ModelAnswerInvalid(
            f"complete() of {type(model).__module__}.{type(model).__qualname__} is no coroutine function, or it gave "
            f"{answer!r} instead of a coroutine. Write `async def complete`."
        )
    return await answer


async def _in_time(answer: Coroutine[Any, Any, Any], model: ChatModel, request: ModelRequest) -> Any:
    limit = asyncio.timeout(request.timeout)
    try:
        async with limit:
            return await answer
    except TimeoutError as error:
        if not limit.expired():
            raise  # the model's own
        raise ModelUnavailable(
            f"Model {_named(model, request)} gave no answer within {request.timeout} seconds."
        ) from error


async def _streamed(
    model: ChatModel, request: ModelRequest, runtime: Runtime[Any], message_id: str, name: str | None
) -> ModelResponse | None:
    response: ModelResponse | None = None
    async for event in stream_model(model, request):
        if isinstance(event, ResponseFinished):
            response = event.response
        elif (chunk := chunk_of(event, message_id, name)) is not None:
            runtime.push_message(chunk)
    return response


def _checked(model: ChatModel, request: ModelRequest, response: object) -> ModelResponse:
    """The response, if it is one: adapters are written by many."""
    if isinstance(response, ModelResponse) and _is_said(response.message) and isinstance(response.usage, Usage):  # pyright: ignore
        return response
    raise ModelAnswerInvalid(
        f"Model {_named(model, request)} answered {response!r}, which is no ModelResponse with a message of the "
        f"assistant. Its adapter is {type(model).__module__}.{type(model).__qualname__}."
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
    parts = cast("tuple[object, ...]", (call.id, call.name, call.arguments))
    return all(isinstance(part, kind) for part, kind in zip(parts, (str, str, dict), strict=True))


def _named(model: ChatModel, request: ModelRequest) -> str:
    return repr(request.model or getattr(model, "name", None) or type(model).__name__)


def _told(model: ChatModel, request: ModelRequest, response: ModelResponse, name: str | None) -> Mapping[str, Any]:
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
    }
    return {key: value for key, value in told.items() if value is not None}
