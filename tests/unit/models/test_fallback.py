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


class Breaking:
    """Streams a piece, and breaks off."""

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


def asked(model: FallbackModel) -> str:
    return asyncio.run(model.complete(REQUEST)).text


def streamed(model: FallbackModel) -> Sequence[ModelEvent]:
    async def read() -> list[ModelEvent]:
        return [event async for event in model.stream(REQUEST)]

    return asyncio.run(read())


def texts(events: Sequence[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_the_first_that_answers_counts() -> None:
    second, third = ScriptedModel(["two"]), ScriptedModel([])
    assert asked(FallbackModel(ScriptedModel([BUSY]), second, third)) == "two"
    assert second.requests == [REQUEST]
    assert third.requests == []


def test_a_model_that_answers_is_the_only_one_asked() -> None:
    second = ScriptedModel([])
    assert asked(FallbackModel(ScriptedModel(["one"]), second)) == "one"
    assert second.requests == []


def test_when_all_fail_each_is_told_of_and_the_soonest_wait_counts() -> None:
    model = FallbackModel(ScriptedModel([BUSY]), ScriptedModel([ModelUnavailable("down", retry_after=2.0)]))
    with pytest.raises(ModelUnavailable, match=r"None of the 2 models.*1\. ScriptedModel: .*busy 2\. .*down") as caught:
        asked(model)
    assert caught.value.retry_after == 2.0
    assert str(caught.value.__cause__) == "down"


def test_another_error_is_raised_at_once_with_a_note_of_what_failed_before() -> None:
    last = ScriptedModel([])
    model = FallbackModel(ScriptedModel([BUSY]), ScriptedModel([ModelError("wrong")]), last)
    with pytest.raises(ModelError, match="wrong") as caught:
        asked(model)
    assert caught.value.__notes__ == ["Earlier, model 1 of 3 failed: ModelUnavailable: busy"]
    assert last.requests == []


def test_after_which_errors_it_goes_on_can_be_said() -> None:
    invalid = ScriptedModel([ModelAnswerInvalid("odd")])
    model = FallbackModel(invalid, ScriptedModel(["two"]), when=lambda error: isinstance(error, ModelAnswerInvalid))
    assert asked(model) == "two"


def test_a_stream_goes_over_before_its_first_piece() -> None:
    events = streamed(FallbackModel(ScriptedModel([BUSY]), ScriptedModel(["one two"])))
    assert texts(events) == ["one", " two"]
    assert isinstance(events[-1], ResponseFinished)


def test_a_stream_that_has_begun_breaks_off() -> None:
    breaking = Breaking(BUSY)
    with pytest.raises(ModelUnavailable, match="busy"):
        streamed(FallbackModel(breaking, ScriptedModel(["two"])))
    assert breaking.closed


def test_a_stream_may_be_begun_anew() -> None:
    events = streamed(FallbackModel(Breaking(BUSY), ScriptedModel(["two"]), restart=True))
    assert texts(events) == ["half", "two"]
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    assert last.response.text == "two"


def test_when_all_streams_fail_each_is_told_of() -> None:
    with pytest.raises(ModelUnavailable, match="None of the 2 models"):
        streamed(FallbackModel(ScriptedModel([BUSY]), Breaking(ModelUnavailable("cut")), restart=True))


def test_a_reader_who_leaves_closes_the_stream_below() -> None:
    breaking = Breaking(BUSY)

    async def read() -> None:
        stream = FallbackModel(breaking).stream(REQUEST)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert breaking.closed

    asyncio.run(read())


def test_only_chat_models_are_accepted() -> None:
    with pytest.raises(InvalidConfig, match="7 of type int"):
        FallbackModel(ScriptedModel([]), 7)
