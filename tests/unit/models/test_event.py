"""The events of a stream."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from statewright.messages import Message
from statewright.models import (
    ModelEvent,
    ModelResponse,
    ReasoningDelta,
    ResponseFinished,
    StreamRestarted,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageUpdate,
)

RESPONSE = ModelResponse(Message("x", role="assistant"))
EVENTS = [
    TextDelta("a"),
    ReasoningDelta("a"),
    ToolCallDelta(0),
    UsageUpdate(Usage()),
    StreamRestarted(),
    ResponseFinished(RESPONSE),
]


def test_there_are_no_others() -> None:
    assert set(get_args(ModelEvent)) == {type(one) for one in EVENTS}


@pytest.mark.parametrize("event", [one for one in EVENTS if one.__slots__], ids=lambda event: type(event).__name__)
def test_events_are_facts(event: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(event, event.__slots__[0], None)


def test_the_kinds_are_told_apart() -> None:
    assert TextDelta("a") != ReasoningDelta("a")


def test_a_piece_of_a_call_may_have_arguments_only() -> None:
    piece = ToolCallDelta(2, arguments='"x"')
    assert (piece.index, piece.id, piece.name, piece.arguments) == (2, None, None, '"x"')
