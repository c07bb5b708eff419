"""Chat models that wrap other models: FallbackModel calls the next model after a failure, RetryingModel retries."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import ClassVar

from statewright.async_futures import sleep
from statewright.clock import Clock, SystemClock
from statewright.errors import ModelUnavailable, add_note
from statewright.graph import RetryPolicy
from statewright.models.coerce import as_chat_model
from statewright.models.model import ModelEvent, ModelRequest, ModelResponse, StreamRestarted
from statewright.models.port import closing, in_time, stream_in_time


def is_unavailable(error: Exception) -> bool:
    """Return True for an error which means that the model was unreachable or busy."""
    return isinstance(error, ModelUnavailable)


class FallbackModel:
    """A chat model that calls its models in order until one answers.

    The models are converted by `as_chat_model`. All get the same request, so the request should not name a model that
    only one provider has. The `timeout` of the request applies to each call. `when` gets an error, and returns True if
    the next model should be called; otherwise the error is raised. If all models fail, ModelUnavailable describes each
    failure.

    If a stream fails after its first event, its error is raised, so that the reader does not get parts of two answers.
    With `restart=True` the next model is called in this case too, after a StreamRestarted event.
    """

    times_attempts: ClassVar = True

    def __init__(
        self,
        first: object,
        *others: object,
        when: Callable[[Exception], bool] = is_unavailable,
        restart: bool = False,
    ) -> None:
        self.models = tuple(as_chat_model(model) for model in (first, *others))
        self._when = when
        self._restart = restart

    async def complete(self, request: ModelRequest) -> ModelResponse:
        errors: list[Exception] = []
        for model in self.models:
            try:
                return await in_time(model.complete(request), model, request)
            except Exception as error:
                self._record_error(errors, error)
        raise self._failure(errors)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        errors: list[Exception] = []
        for model in self.models:
            has_started = False
            try:
                async with closing(stream_in_time(model, request)) as events:
                    async for event in events:
                        has_started = True
                        yield event
                return
            except Exception as error:
                if has_started and not self._restart:
                    raise
                self._record_error(errors, error)
                if has_started and len(errors) < len(self.models):
                    yield StreamRestarted()
        raise self._failure(errors)

    def _record_error(self, errors: list[Exception], error: Exception) -> None:
        """Add the error of a model to `errors`. Raises the error if no other model may be called after it."""
        if not self._when(error):
            for number, earlier in enumerate(errors, 1):
                add_note(error, f"Earlier, model {number} of {len(self.models)} failed: {_error_text(earlier)}")
            raise error
        errors.append(error)

    def _failure(self, errors: Sequence[Exception]) -> ModelUnavailable:
        failures = " ".join(
            f"{number}. {type(model).__name__}: {_error_text(error)}"
            for number, (model, error) in enumerate(zip(self.models, errors, strict=True), 1)
        )
        failure = ModelUnavailable(
            f"None of the {len(errors)} models answered. {failures}",
            status=getattr(errors[-1], "status", None),
            retry_after=_earliest_retry(errors),
        )
        failure.__cause__ = errors[-1]
        return failure


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _earliest_retry(errors: Sequence[Exception]) -> float | None:
    """Return the smallest Retry-After of the errors, in seconds; None if no error has one."""
    delays: list[float | None] = [getattr(error, "retry_after", None) for error in errors]
    return min((delay for delay in delays if delay is not None), default=None)


# -- retries


class RetryingModel:
    """A chat model that calls another model up to `policy.max_attempts` times, with backoff, and honours Retry-After.

    The default policy retries only after ModelUnavailable. The `timeout` of the request applies to each attempt. If a
    stream fails after its first event, it is not retried. The nodes of a graph have their own retry policies; use this
    class for calls outside of graphs, or to retry only one of several calls in a node.
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
            has_started = False
            try:
                async with closing(stream_in_time(self.model, request)) as events:
                    async for event in events:
                        has_started = True
                        yield event
                return
            except Exception as error:
                if has_started:
                    raise
                await self._wait_after(attempt, error)
            attempt += 1

    async def _wait_after(self, attempt: int, error: Exception) -> None:
        """Wait until the next attempt is due. Raises the error if there is no next attempt."""
        if attempt >= self._policy.max_attempts or not self._policy.matches(error):
            raise error
        retry_after: float = getattr(error, "retry_after", None) or 0.0
        await sleep(self._clock, max(self._policy.delay(attempt, random.random()), retry_after))
