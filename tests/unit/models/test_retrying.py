"""A model that is called again after it was unavailable."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from statewright import RetryPolicy
from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message
from statewright.models import ModelEvent, ModelRequest, ScriptedModel, TextDelta
from statewright.models.wrappers import RetryingModel
from statewright.testing import FakeClock

REQUEST = ModelRequest((Message("hi"),))
POLICY = RetryPolicy(retry_on=ModelUnavailable, jitter=False)


class Breaking:
    """Streams a piece, and breaks off."""

    async def complete(self, request: ModelRequest) -> Any:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half")
        raise ModelUnavailable("cut")


def timed(model: ScriptedModel, policy: RetryPolicy | None = POLICY) -> tuple[str, float]:
    """What it answers, and how long that took by the clock."""
    clock = FakeClock()
    response = asyncio.run(clock.run(RetryingModel(model, policy, clock=clock).complete(REQUEST)))
    return response.text, clock.monotonic()


def test_it_waits_longer_from_attempt_to_attempt() -> None:
    busy = ModelUnavailable("busy")
    assert timed(ScriptedModel([busy, busy, "there"])) == ("there", 0.5 + 1.0)


def test_it_waits_as_long_as_the_model_says() -> None:
    assert timed(ScriptedModel([ModelUnavailable("busy", retry_after=7.0), "there"])) == ("there", 7.0)
    assert timed(ScriptedModel([ModelUnavailable("busy", retry_after=0.1), "there"])) == ("there", 0.5)


def test_after_the_last_attempt_the_error_is_raised() -> None:
    model = ScriptedModel([ModelUnavailable("busy")], repeat_last=True)
    with pytest.raises(ModelUnavailable, match="busy"):
        timed(model)
    assert len(model.requests) == POLICY.max_attempts


def test_without_a_policy_it_is_for_models_that_are_unavailable_only() -> None:
    model = ScriptedModel([ModelError("wrong"), "there"])
    with pytest.raises(ModelError, match="wrong"):
        timed(model, None)
    assert timed(ScriptedModel([ModelUnavailable("busy"), "there"]), None)[0] == "there"


def test_a_stream_is_tried_again_before_its_first_piece() -> None:
    clock = FakeClock()
    model = RetryingModel(ScriptedModel([ModelUnavailable("busy"), "one two"]), POLICY, clock=clock)

    async def read() -> list[ModelEvent]:
        return [event async for event in model.stream(REQUEST)]

    events = asyncio.run(clock.run(read()))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["one", " two"]


def test_a_stream_that_has_begun_is_not() -> None:
    async def read() -> list[ModelEvent]:
        return [event async for event in RetryingModel(Breaking(), POLICY).stream(REQUEST)]

    with pytest.raises(ModelUnavailable, match="cut"):
        asyncio.run(read())


def test_it_is_cancelled_while_it_waits() -> None:
    async def give_up() -> None:
        waiting = asyncio.create_task(RetryingModel(model, clock=FakeClock()).complete(REQUEST))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    model = ScriptedModel([ModelUnavailable("busy"), "there"])
    asyncio.run(give_up())
    assert len(model.requests) == 1
