"""The port of chat models, and streams of model events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from statewright.models.event import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from statewright.models.model import ModelRequest, ModelResponse


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


T = TypeVar("T")


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
