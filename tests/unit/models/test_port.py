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


def test_whatever_completes_is_a_chat_model() -> None:
    assert isinstance(ScriptedModel([]), ChatModel)
    assert not isinstance(object(), ChatModel)


def streamed(model: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in stream_model(model, ModelRequest([Message("hi")]))]

    return asyncio.run(read())


ANSWER = ModelResponse(
    Message("text", role="assistant", tool_calls=(ToolCall("1", "dig", {"a": 1}),), metadata={"reasoning": "hm"}),
    Usage(1, 2),
)


class Whole:
    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ANSWER


def test_a_model_that_cannot_stream_is_streamed_as_one_piece() -> None:
    assert streamed(Whole()) == [
        ReasoningDelta("hm"),
        TextDelta("text"),
        ToolCallDelta(0, "1", "dig", '{"a": 1}'),
        UsageUpdate(Usage(1, 2)),
        ResponseFinished(ANSWER),
    ]


def test_an_answer_without_text_has_no_piece_of_text() -> None:
    empty = ModelResponse(Message("", role="assistant"))
    assert list(response_events(empty)) == [UsageUpdate(Usage()), ResponseFinished(empty)]


def test_arguments_that_were_no_json_are_streamed_as_they_were_written() -> None:
    odd = ModelResponse(Message("", role="assistant", tool_calls=(ToolCall("1", "dig", invalid="{'a'"),)))
    assert next(response_events(odd)) == ToolCallDelta(0, "1", "dig", "{'a'")


def test_what_a_model_raises_comes_out_of_its_stream() -> None:
    class Fails:
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise ModelUnavailable("busy")

    with pytest.raises(ModelUnavailable, match="busy"):
        streamed(Fails())


def test_a_model_that_streams_is_not_asked_for_the_whole() -> None:
    class Streams(Whole):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise AssertionError("asked for the whole")

        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield TextDelta("a")

    assert streamed(Streams()) == [TextDelta("a")]
