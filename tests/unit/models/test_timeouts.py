"""Each attempt at a model has the full timeout of its request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from statewright.errors import ModelUnavailable
from statewright.messages import Message
from statewright.models import FallbackModel, ModelEvent, ModelRequest, ModelResponse, ScriptedModel, TextDelta, in_time
from statewright.models.port import stream_in_time, times_attempts

ASKED = ModelRequest((Message("hi"),), timeout=0.05)


class Hangs:
    """Never answers, and says so that it was given up."""

    given_up = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            Hangs.given_up += 1
            raise
        raise AssertionError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("a")
        await self.complete(request)


async def read(model: object) -> str:
    events = stream_in_time(model, ASKED)  # type: ignore[arg-type]
    return "".join([event.text async for event in events if isinstance(event, TextDelta)])


def test_a_model_that_takes_too_long_is_unavailable() -> None:
    model, before = Hangs(), Hangs.given_up
    with pytest.raises(ModelUnavailable, match=r"'Hangs' did not answer within 0.05 seconds"):
        asyncio.run(in_time(model.complete(ASKED), model, ASKED))
    with pytest.raises(ModelUnavailable, match=r"'Hangs' did not answer within 0.05 seconds"):
        asyncio.run(read(model))
    assert Hangs.given_up == before + 2


def test_the_next_model_has_all_the_time_again() -> None:
    model = FallbackModel(Hangs(), ScriptedModel(["ok"], repeat_last=True))
    assert times_attempts(model)
    assert asyncio.run(in_time(model.complete(ASKED), model, ASKED)).text == "ok"


def test_a_stream_that_hangs_before_its_first_piece_goes_over_to_the_next() -> None:
    class Silent(Hangs):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            await self.complete(request)
            yield TextDelta("never")

    assert asyncio.run(read(FallbackModel(Silent(), ScriptedModel(["ok"])))) == "ok"


def test_an_own_error_of_time_stays_one() -> None:
    async def late() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(in_time(late(), object(), ASKED))
