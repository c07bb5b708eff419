"""A model that falls back to another one if the first is unavailable."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from statewright.errors import InvalidConfig, ModelAnswerInvalid, ModelError, ModelUnavailable
from statewright.messages import Message
from statewright.models import ModelEvent, ModelRequest, ResponseFinished, ScriptedModel, TextDelta
from statewright.models.wrappers import FallbackModel

REQUEST = ModelRequest((Message("hi"),))
BUSY = ModelUnavailable("busy", status=429, retry_after=5.0)


class BreakingModel:
    """Streams one event, and then raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.closed = False

    async def complete(self, request: ModelRequest) -> Any:
        raise self._error

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            yield TextDelta("half")
            raise self._error
        finally:
            self.closed = True


def complete_text(model: FallbackModel) -> str:
    return asyncio.run(model.complete(REQUEST)).text


def stream_events(model: FallbackModel) -> Sequence[ModelEvent]:
    async def read() -> list[ModelEvent]:
        return [event async for event in model.stream(REQUEST)]

    return asyncio.run(read())


def texts(events: Sequence[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_the_next_model_answers_if_the_first_is_unavailable() -> None:
    second, third = ScriptedModel(["two"]), ScriptedModel([])
    assert complete_text(FallbackModel(ScriptedModel([BUSY]), second, third)) == "two"
    assert second.requests == [REQUEST]
    assert third.requests == []


def test_later_models_are_not_called_after_an_answer() -> None:
    second = ScriptedModel([])
    assert complete_text(FallbackModel(ScriptedModel(["one"]), second)) == "one"
    assert second.requests == []


def test_the_error_names_all_failures_and_has_the_shortest_wait() -> None:
    model = FallbackModel(ScriptedModel([BUSY]), ScriptedModel([ModelUnavailable("down", retry_after=2.0)]))
    with pytest.raises(ModelUnavailable, match=r"None of the 2 models.*1\. ScriptedModel: .*busy 2\. .*down") as caught:
        complete_text(model)
    assert caught.value.retry_after == 2.0
    assert str(caught.value.__cause__) == "down"


def test_other_errors_are_raised_at_once_with_a_note_about_earlier_failures() -> None:
    last = ScriptedModel([])
    model = FallbackModel(ScriptedModel([BUSY]), ScriptedModel([ModelError("wrong")]), last)
    with pytest.raises(ModelError, match="wrong") as caught:
        complete_text(model)
    assert caught.value.__notes__ == ["Earlier, model 1 of 3 failed: ModelUnavailable: busy"]
    assert last.requests == []


def test_the_errors_that_cause_a_fallback_can_be_set() -> None:
    invalid = ScriptedModel([ModelAnswerInvalid("odd")])
    model = FallbackModel(invalid, ScriptedModel(["two"]), when=lambda error: isinstance(error, ModelAnswerInvalid))
    assert complete_text(model) == "two"


def test_a_stream_falls_back_before_its_first_event() -> None:
    events = stream_events(FallbackModel(ScriptedModel([BUSY]), ScriptedModel(["one two"])))
    assert texts(events) == ["one", " two"]
    assert isinstance(events[-1], ResponseFinished)


def test_a_stream_does_not_fall_back_after_its_first_event() -> None:
    breaking = BreakingModel(BUSY)
    with pytest.raises(ModelUnavailable, match="busy"):
        stream_events(FallbackModel(breaking, ScriptedModel(["two"])))
    assert breaking.closed


def test_a_stream_may_restart_with_the_next_model() -> None:
    events = stream_events(FallbackModel(BreakingModel(BUSY), ScriptedModel(["two"]), restart=True))
    assert texts(events) == ["half", "two"]
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    assert last.response.text == "two"


def test_the_error_of_a_stream_names_all_failures() -> None:
    with pytest.raises(ModelUnavailable, match="None of the 2 models"):
        stream_events(FallbackModel(ScriptedModel([BUSY]), BreakingModel(ModelUnavailable("cut")), restart=True))


def test_closing_the_stream_closes_the_stream_of_the_model() -> None:
    breaking = BreakingModel(BUSY)

    async def read() -> None:
        stream = FallbackModel(breaking).stream(REQUEST)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert breaking.closed

    asyncio.run(read())


def test_only_chat_models_are_accepted() -> None:
    with pytest.raises(InvalidConfig, match="7 of type int"):
        FallbackModel(ScriptedModel([]), 7)
