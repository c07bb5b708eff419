"""The port of chat models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from statewright.errors import ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import (
    ChatModel,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    ResponseFinished,
    ScriptedModel,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageUpdate,
    stream_model,
)
from statewright.models.port import response_events


def test_every_object_with_complete_is_a_chat_model() -> None:
    assert isinstance(ScriptedModel([]), ChatModel)
    assert not isinstance(object(), ChatModel)


def stream_events(model: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in stream_model(model, ModelRequest([Message("hi")]))]

    return asyncio.run(read())


ANSWER = ModelResponse(
    Message("text", role="assistant", tool_calls=(ToolCall("1", "dig", {"a": 1}),), metadata={"reasoning": "hm"}),
    Usage(1, 2),
)


class CompleteOnly:
    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ANSWER


def test_a_model_without_streaming_yields_its_response_as_events() -> None:
    assert stream_events(CompleteOnly()) == [
        ReasoningDelta("hm"),
        TextDelta("text"),
        ToolCallDelta(0, "1", "dig", '{"a": 1}'),
        UsageUpdate(Usage(1, 2)),
        ResponseFinished(ANSWER),
    ]


def test_a_response_without_text_has_no_text_event() -> None:
    empty = ModelResponse(Message("", role="assistant"))
    assert list(response_events(empty)) == [UsageUpdate(Usage()), ResponseFinished(empty)]


def test_invalid_arguments_are_streamed_as_the_model_wrote_them() -> None:
    odd = ModelResponse(Message("", role="assistant", tool_calls=(ToolCall("1", "dig", invalid="{'a'"),)))
    assert next(response_events(odd)) == ToolCallDelta(0, "1", "dig", "{'a'")


def test_errors_of_the_model_are_raised_by_the_stream() -> None:
    class FailingModel:
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise ModelUnavailable("busy")

    with pytest.raises(ModelUnavailable, match="busy"):
        stream_events(FailingModel())


def test_a_streaming_model_is_not_asked_to_complete() -> None:
    class StreamingModel(CompleteOnly):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise AssertionError("complete was called")

        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield TextDelta("a")

    assert stream_events(StreamingModel()) == [TextDelta("a")]
