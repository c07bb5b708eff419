"""Chunks of messages, as readers of a stream see them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.messages import Message
from statewright.models import (
    MessageChunk,
    ModelResponse,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageUpdate,
    chunk_of,
)

CALL = ToolCallDelta(1, "c1", "dig", '{"a"')


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (TextDelta("word"), "content", "word"),
        (TextDelta(""), "content", ""),
        (ReasoningDelta("hm"), "reasoning", "hm"),
        (CALL, "tool_call_chunks", (CALL,)),
        (UsageUpdate(Usage(1, 2)), "usage", Usage(1, 2)),
    ],
)
def test_each_event_becomes_a_chunk(event: Any, field: str, value: Any) -> None:
    chunk = chunk_of(event, "m1", "Ann")
    assert isinstance(chunk, MessageChunk)
    assert (chunk.role, chunk.id, chunk.name) == ("assistant", "m1", "Ann")
    assert getattr(chunk, field) == value


def test_the_final_event_becomes_no_chunk() -> None:
    assert chunk_of(ResponseFinished(ModelResponse(Message("x", role="assistant"))), "m1") is None


@pytest.mark.parametrize("event", [None, "text", object()])
def test_unknown_events_become_no_chunk(event: Any) -> None:
    assert chunk_of(event, "m1") is None


def test_a_chunk_is_a_message() -> None:
    chunk = chunk_of(TextDelta("word"), "m1")
    assert isinstance(chunk, Message)
    assert (chunk.text, chunk.name, chunk.to_dict()["content"]) == ("word", None, "word")
