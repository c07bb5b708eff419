"""A model that is asked again where it was unavailable.

Nodes of a graph have this already, by their `RetryPolicy`. It is for models outside of graphs, and for those of which
one answer among several in a node shall be tried again alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import ClassVar

from statewright.clock import Clock, SystemClock
from statewright.errors import ModelUnavailable
from statewright.graph import RetryPolicy
from statewright.models.closing import closing
from statewright.models.coerce import as_chat_model
from statewright.models.event import ModelEvent
from statewright.models.limit import in_time, stream_in_time
from statewright.models.model import ModelRequest, ModelResponse


class RetryingModel:
    """Asks its model up to `policy.max_attempts` times, and waits between.

    It waits as the policy says, and longer where the model said for how long it wants to be left alone. A stream is
    tried again only while nothing of it was given out. Each attempt has the whole time of the request's `timeout`.
    Without a policy it is one that is for ModelUnavailable only.
    """

    times_attempts: ClassVar = True

    def __init__(self, model: object, policy: RetryPolicy | None = None, *, clock: Clock | None = None) -> None:
        self.model = as_chat_model(model)
        self._policy = policy or RetryPolicy(retry_on=ModelUnavailable)
        self._clock = clock or SystemClock()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        attempt = 1
        while True:
            try:
                return await in_time(self.model.complete(request), self.model, request)
            except Exception as error:
                await self._wait_after(attempt, error)
            attempt += 1

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        attempt = 1
        while True:
            begun = False
            try:
                async with closing(stream_in_time(self.model, request)) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except Exception as error:
                if begun:
                    raise
                await self._wait_after(attempt, error)
            attempt += 1

    async def _wait_after(self, attempt: int, error: Exception) -> None:
        """Let time pass until the next attempt. Raises the error if there is none."""
        if attempt >= self._policy.max_attempts or not self._policy.matches(error):
            raise error
        asked: float = getattr(error, "retry_after", None) or 0.0
        await _sleep(self._clock, max(self._policy.delay(attempt, random.random()), asked))


async def _sleep(clock: Clock, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def ring() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)

    timer = clock.call_later(seconds, ring)
    try:
        await over.wait()
    finally:
        timer.cancel()
