"""A model that is called again if it is unavailable."""

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


class BreakingModel:
    """Streams one event, and then raises an error."""

    async def complete(self, request: ModelRequest) -> Any:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("half")
        raise ModelUnavailable("cut")


def complete_timed(model: ScriptedModel, policy: RetryPolicy | None = POLICY) -> tuple[str, float]:
    """Return the text of the answer, and how long it took by the clock."""
    clock = FakeClock()
    response = asyncio.run(clock.run(RetryingModel(model, policy, clock=clock).complete(REQUEST)))
    return response.text, clock.monotonic()


def test_the_wait_grows_with_each_attempt() -> None:
    busy = ModelUnavailable("busy")
    assert complete_timed(ScriptedModel([busy, busy, "there"])) == ("there", 0.5 + 1.0)


def test_the_wait_is_at_least_the_one_that_the_model_requests() -> None:
    assert complete_timed(ScriptedModel([ModelUnavailable("busy", retry_after=7.0), "there"])) == ("there", 7.0)
    assert complete_timed(ScriptedModel([ModelUnavailable("busy", retry_after=0.1), "there"])) == ("there", 0.5)


def test_the_error_is_raised_after_the_last_attempt() -> None:
    model = ScriptedModel([ModelUnavailable("busy")], repeat_last=True)
    with pytest.raises(ModelUnavailable, match="busy"):
        complete_timed(model)
    assert len(model.requests) == POLICY.max_attempts


def test_by_default_only_unavailable_models_are_retried() -> None:
    model = ScriptedModel([ModelError("wrong"), "there"])
    with pytest.raises(ModelError, match="wrong"):
        complete_timed(model, None)
    assert complete_timed(ScriptedModel([ModelUnavailable("busy"), "there"]), None)[0] == "there"


def test_a_stream_is_retried_before_its_first_event() -> None:
    clock = FakeClock()
    model = RetryingModel(ScriptedModel([ModelUnavailable("busy"), "one two"]), POLICY, clock=clock)

    async def read() -> list[ModelEvent]:
        return [event async for event in model.stream(REQUEST)]

    events = asyncio.run(clock.run(read()))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["one", " two"]


def test_a_stream_is_not_retried_after_its_first_event() -> None:
    async def read() -> list[ModelEvent]:
        return [event async for event in RetryingModel(BreakingModel(), POLICY).stream(REQUEST)]

    with pytest.raises(ModelUnavailable, match="cut"):
        asyncio.run(read())


def test_a_call_can_be_cancelled_while_it_waits() -> None:
    async def cancel_call() -> None:
        waiting = asyncio.create_task(RetryingModel(model, clock=FakeClock()).complete(REQUEST))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    model = ScriptedModel([ModelUnavailable("busy"), "there"])
    asyncio.run(cancel_call())
    assert len(model.requests) == 1
