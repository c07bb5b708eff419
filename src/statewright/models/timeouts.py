"""Timeouts of model calls: each attempt gets the full timeout of its request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from statewright.errors import ModelUnavailable
from statewright.models.event import ModelEvent
from statewright.models.model import ModelRequest
from statewright.models.port import ChatModel, closing, stream_model

T = TypeVar("T")


def times_attempts(model: object) -> bool:
    """Return True for a model that wraps others and applies the timeout to each of them itself."""
    return bool(getattr(model, "times_attempts", False))


async def in_time(answer: Awaitable[T], model: object, request: ModelRequest) -> T:
    """Return the answer of a model. Raises ModelUnavailable after the timeout of its request."""
    if request.timeout is None or times_attempts(model):
        return await answer
    limit = asyncio.timeout(request.timeout)
    try:
        async with limit:
            return await answer
    except TimeoutError as error:
        if not limit.expired():
            raise  # a TimeoutError of the model
        raise ModelUnavailable(
            f"Model {named(model, request)} gave no answer within {request.timeout:g} seconds."
        ) from error


async def stream_in_time(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """Yield the stream of a model. Raises ModelUnavailable after the timeout of its request.

    The time of its reader counts too.
    """
    if request.timeout is None or times_attempts(model):
        async with closing(stream_model(model, request)) as events:
            async for event in events:
                yield event
        return
    end = asyncio.get_running_loop().time() + request.timeout
    async with closing(stream_model(model, request)) as events:
        while True:
            limit = asyncio.timeout_at(end)
            try:
                async with limit:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise ModelUnavailable(
                    f"Model {named(model, request)} gave no answer within {request.timeout:g} seconds."
                ) from error
            yield event


def named(model: object, request: ModelRequest) -> str:
    """Return the name of a model for messages."""
    return repr(request.model or getattr(model, "name", None) or type(model).__name__)
