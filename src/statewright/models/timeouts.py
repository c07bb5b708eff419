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
    """Whether a model asks others, and gives each of them the time of the request: nobody else may cut it short."""
    return bool(getattr(model, "times_attempts", False))


async def in_time(answer: Awaitable[T], model: object, request: ModelRequest) -> T:
    """The answer of a model, within the time of its request. Raises ModelUnavailable after it."""
    if request.timeout is None or times_attempts(model):
        return await answer
    limit = asyncio.timeout(request.timeout)
    try:
        async with limit:
            return await answer
    except TimeoutError as error:
        if not limit.expired():
            raise  # the model's own
        raise ModelUnavailable(
            f"Model {named(model, request)} gave no answer within {request.timeout:g} seconds."
        ) from error


async def stream_in_time(model: ChatModel, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """The stream of a model, which has come to its end within the time of its request.

    The time that its reader takes counts too. Raises ModelUnavailable after it.
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
    """How messages call a model."""
    return repr(request.model or getattr(model, "name", None) or type(model).__name__)
