"""Each attempt at a model has the full timeout of its request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from statewright.errors import ModelUnavailable
from statewright.messages import Message
from statewright.models import FallbackModel, ModelEvent, ModelRequest, ModelResponse, ScriptedModel, TextDelta, in_time
from statewright.models.port import stream_in_time, times_attempts

REQUEST = ModelRequest((Message("hi"),), timeout=0.05)


class HangingModel:
    """Never answers, and counts its cancellations."""

    cancelled = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            HangingModel.cancelled += 1
            raise
        raise AssertionError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("a")
        await self.complete(request)


async def read(model: object) -> str:
    events = stream_in_time(model, REQUEST)  # type: ignore[arg-type]
    return "".join([event.text async for event in events if isinstance(event, TextDelta)])


def test_a_model_that_exceeds_the_timeout_is_unavailable() -> None:
    model, before = HangingModel(), HangingModel.cancelled
    with pytest.raises(ModelUnavailable, match=r"'HangingModel' did not answer within 0.05 seconds"):
        asyncio.run(in_time(model.complete(REQUEST), model, REQUEST))
    with pytest.raises(ModelUnavailable, match=r"'HangingModel' did not answer within 0.05 seconds"):
        asyncio.run(read(model))
    assert HangingModel.cancelled == before + 2


def test_the_next_model_has_the_full_timeout() -> None:
    model = FallbackModel(HangingModel(), ScriptedModel(["ok"], repeat_last=True))
    assert times_attempts(model)
    assert asyncio.run(in_time(model.complete(REQUEST), model, REQUEST)).text == "ok"


def test_a_stream_that_hangs_before_its_first_event_falls_back() -> None:
    class SilentModel(HangingModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            await self.complete(request)
            yield TextDelta("never")

    assert asyncio.run(read(FallbackModel(SilentModel(), ScriptedModel(["ok"])))) == "ok"


def test_a_timeout_error_of_the_call_itself_is_not_translated() -> None:
    async def raise_timeout() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(in_time(raise_timeout(), object(), REQUEST))
