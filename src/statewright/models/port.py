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
    """Answers a conversation.

    `complete` is enough: a model without `stream` is streamed as one piece. Both are cancelled like any coroutine, and
    give up their connection then.
    """

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """The next message of the assistant.

        Raises ModelUnavailable where it cannot be reached or refuses for now, ModelError for what no second attempt
        would change.
        """
        ...


class StreamingModel(ChatModel, Protocol):
    """A chat model that tells of its answer while it makes it."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The answer in pieces, and at last whole. Raises what `complete` raises, also in the middle."""
        ...


def stream_model(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """What a model streams; of one that cannot, the whole answer as if it had come at once."""
    stream = getattr(model, "stream", None)
    return cast(StreamingModel, model).stream(request) if stream is not None else _stream_complete(model, request)


async def _stream_complete(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    for event in response_events(await model.complete(request)):
        yield event


def response_events(response: ModelResponse) -> Iterator[ModelEvent]:
    """The events by which a response would have come, each part in one piece."""
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
    """The stream, which is closed when the block is left, so that a connection below is given up at once.

    Without this the stream of a cancelled reader would stay open until it is collected as garbage.
    """
    try:
        yield events
    finally:
        close: Any = getattr(events, "aclose", None)
        if close is not None:
            await close()
