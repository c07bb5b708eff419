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
def test_each_event_becomes_a_piece(event: Any, field: str, value: Any) -> None:
    piece = chunk_of(event, "m1", "Ann")
    assert isinstance(piece, MessageChunk)
    assert (piece.role, piece.id, piece.name) == ("assistant", "m1", "Ann")
    assert getattr(piece, field) == value


def test_the_end_brings_nothing_new() -> None:
    assert chunk_of(ResponseFinished(ModelResponse(Message("x", role="assistant"))), "m1") is None


@pytest.mark.parametrize("event", [None, "text", object()])
def test_what_nobody_knows_is_no_piece(event: Any) -> None:
    assert chunk_of(event, "m1") is None


def test_a_piece_is_a_message() -> None:
    piece = chunk_of(TextDelta("word"), "m1")
    assert isinstance(piece, Message)
    assert (piece.text, piece.name, piece.to_dict()["content"]) == ("word", None, "word")
