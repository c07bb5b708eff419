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


def test_the_union_contains_every_event_type() -> None:
    assert set(get_args(ModelEvent)) == {type(event) for event in EVENTS}


@pytest.mark.parametrize(
    "event", [event for event in EVENTS if event.__slots__], ids=lambda event: type(event).__name__
)
def test_events_are_immutable(event: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(event, event.__slots__[0], None)


def test_events_of_different_types_are_not_equal() -> None:
    assert TextDelta("a") != ReasoningDelta("a")


def test_a_call_delta_may_have_arguments_only() -> None:
    delta = ToolCallDelta(2, arguments='"x"')
    assert (delta.index, delta.id, delta.name, delta.arguments) == (2, None, None, '"x"')
