"""The port of chat models, and functions that stream their answers and apply the timeouts of requests.

The timeout of a request applies to each attempt at the request separately.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from statewright.errors import ModelUnavailable
from statewright.models.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)

T = TypeVar("T")


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers a conversation.

    A model may also have the method `stream`, see StreamingModel; otherwise its complete answer is streamed in one
    piece. Calls may be cancelled like any coroutine, and must then close their connections.
    """

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the next message of the assistant.

        Raises ModelUnavailable if the model was unreachable or busy, so that a retry may succeed; and another
        ModelError if a retry would not help.
        """
        ...


class StreamingModel(ChatModel, Protocol):
    """A chat model that streams its answers."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer as deltas, and then as a ResponseFinished.

        Raises the errors of `complete`, possibly after some deltas.
        """
        ...


def stream_model(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Return the stream of a model's answer. If the model has no `stream`, the events of its complete answer."""
    stream = getattr(model, "stream", None)
    return cast(StreamingModel, model).stream(request) if stream is not None else _stream_complete(model, request)


async def _stream_complete(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    for event in response_events(await model.complete(request)):
        yield event


def response_events(response: ModelResponse) -> Iterator[ModelEvent]:
    """Yield a complete response as the events of a stream, with a single delta for each of its parts."""
    if response.reasoning:
        yield ReasoningDelta(response.reasoning)
    if response.text:
        yield TextDelta(response.text)
    for index, call in enumerate(response.message.tool_calls):
        yield ToolCallDelta(index, call.id, call.name, call.written)
    yield UsageUpdate(response.usage)
    yield ResponseFinished(response)


@asynccontextmanager
async def closing(events: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T]]:
    """Close a stream when the `async with` block ends. Unlike `contextlib.aclosing`, accept streams without `aclose`.

    If a reader that is cancelled did not close its stream, the connection would stay open until the stream is
    garbage-collected.
    """
    try:
        yield events
    finally:
        close: Any = getattr(events, "aclose", None)
        if close is not None:
            await close()


# -- timeouts


def times_attempts(model: object) -> bool:
    """Return True for a model that calls other models, and itself applies the timeout to each of these calls."""
    return bool(getattr(model, "times_attempts", False))


def _deadline(model: object, request: ModelRequest) -> float | None:
    """Return the time of the event loop's clock at which a call times out; None for a call without a timeout."""
    if request.timeout is None or times_attempts(model):
        return None
    return asyncio.get_running_loop().time() + request.timeout


@asynccontextmanager
async def _time_limit(deadline: float, model: object, request: ModelRequest) -> AsyncGenerator[None]:
    """Raise ModelUnavailable if the `async with` block has not finished at the deadline."""
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise  # the model itself raised it
        raise timeout_error(model, request) from error


async def in_time(answer: Awaitable[T], model: object, request: ModelRequest) -> T:
    """Await the answer of a model. Raises ModelUnavailable if it takes longer than the timeout of the request."""
    deadline = _deadline(model, request)
    if deadline is None:
        return await answer
    async with _time_limit(deadline, model, request):
        return await answer


async def stream_in_time(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Yield the events of a model's stream. Raises ModelUnavailable if it takes longer than the timeout of the request.

    This includes the time that the reader spends between events.
    """
    deadline = _deadline(model, request)
    async with closing(stream_model(model, request)) as events:
        if deadline is None:
            async for event in events:
                yield event
            return
        while True:
            async with _time_limit(deadline, model, request):
                event = await anext(events, None)
            if event is None:
                return
            yield event


def timeout_error(model: object, request: ModelRequest) -> ModelUnavailable:
    """Return the error for a model call that took longer than the timeout of its request."""
    return ModelUnavailable(f"Model {named(model, request)} did not answer within {request.timeout:g} seconds.")


def model_name(model: object, request: ModelRequest) -> str:
    """Return the name of the model that answers a request; if it has none, the name of its class."""
    return request.model or getattr(model, "name", None) or type(model).__name__


def named(model: object, request: ModelRequest) -> str:
    """Return the quoted name of a model, for errors and logs."""
    return repr(model_name(model, request))
