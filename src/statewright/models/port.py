"""The port of chat models, streams of model events, and timeouts: each attempt gets the full timeout of its request."""

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

    `complete` suffices: the answer of a model without `stream` is streamed as one chunk. Both can be cancelled like any
    coroutine, and must close their connection then.
    """

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the next message of the assistant.

        Raises ModelUnavailable if it cannot be reached or refuses temporarily, ModelError if a retry would not help.
        """
        ...


class StreamingModel(ChatModel, Protocol):
    """A chat model that streams its answers."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer as deltas, and at the end complete. Raises the errors of `complete`, also midway."""
        ...


def stream_model(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Return the stream of a model; for one that cannot stream, the complete answer as events."""
    stream = getattr(model, "stream", None)
    return cast(StreamingModel, model).stream(request) if stream is not None else _stream_complete(model, request)


async def _stream_complete(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    for event in response_events(await model.complete(request)):
        yield event


def response_events(response: ModelResponse) -> Iterator[ModelEvent]:
    """Yield the events of a complete response, one for each part."""
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
    """Close a stream when the block is left, so that its connection is closed at once.

    Otherwise the stream of a cancelled reader would stay open until it is garbage-collected.
    """
    try:
        yield events
    finally:
        close: Any = getattr(events, "aclose", None)
        if close is not None:
            await close()


# -- timeouts


def times_attempts(model: object) -> bool:
    """Return True for a model that wraps others and applies the timeout to each of them itself."""
    return bool(getattr(model, "times_attempts", False))


def _deadline(model: object, request: ModelRequest) -> float | None:
    """Return the time of the event loop at which a call times out; None for a call without a timeout."""
    if request.timeout is None or times_attempts(model):
        return None
    return asyncio.get_running_loop().time() + request.timeout


@asynccontextmanager
async def _time_limit(deadline: float, model: object, request: ModelRequest) -> AsyncGenerator[None]:
    """Raise ModelUnavailable if the block is not left before the deadline."""
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise  # a TimeoutError of the model
        raise timeout_error(model, request) from error


async def in_time(answer: Awaitable[T], model: object, request: ModelRequest) -> T:
    """Return the answer of a model. Raises ModelUnavailable after the timeout of its request."""
    deadline = _deadline(model, request)
    if deadline is None:
        return await answer
    async with _time_limit(deadline, model, request):
        return await answer


async def stream_in_time(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Yield the stream of a model. Raises ModelUnavailable after the timeout of its request.

    The time of its reader counts too.
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
    """Return the error of a call that took longer than the timeout of its request."""
    return ModelUnavailable(f"Model {named(model, request)} gave no answer within {request.timeout:g} seconds.")


def named(model: object, request: ModelRequest) -> str:
    """Return the name of a model for messages."""
    return repr(request.model or getattr(model, "name", None) or type(model).__name__)
