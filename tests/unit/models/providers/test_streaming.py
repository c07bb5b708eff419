"""Deltas of a streamed answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from pydantic_ai.messages import (
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from statewright.models import ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageUpdate
from statewright.models.providers.incoming import stream_events


class Stream:
    """Events, with the usage that is known from each on."""

    def __init__(self, *events: Any) -> None:
        self._events = events
        self.usage = RequestUsage()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self._events:
            if isinstance(event, RequestUsage):
                self.usage = event
            else:
                yield event


def pieces(*events: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [piece async for piece in stream_events(cast(Any, Stream(*events)))]

    return asyncio.run(read())


def test_text_and_reasoning() -> None:
    events = [
        PartStartEvent(index=0, part=ThinkingPart("")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="hm")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(signature_delta="signed")),
        PartStartEvent(index=1, part=TextPart("a")),
        PartDeltaEvent(index=1, delta=TextPartDelta("b")),
        PartEndEvent(index=1, part=TextPart("ab")),
    ]
    assert pieces(*events) == [ReasoningDelta("hm"), TextDelta("a"), TextDelta("b")]


def test_calls_are_numbered_among_themselves() -> None:
    events = [
        PartStartEvent(index=0, part=TextPart("a")),
        PartStartEvent(index=1, part=ToolCallPart("add", None, "c1")),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta='{"a":')),
        PartStartEvent(index=2, part=ToolCallPart("sub", {"b": "é"}, "c2")),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta="1}")),
    ]
    assert pieces(*events)[1:] == [
        ToolCallDelta(0, "c1", "add"),
        ToolCallDelta(0, arguments='{"a":'),
        ToolCallDelta(1, "c2", "sub", '{"b": "é"}'),
        ToolCallDelta(0, arguments="1}"),
    ]


def test_usage_is_told_when_it_is_known_anew() -> None:
    one, two = RequestUsage(input_tokens=3), RequestUsage(input_tokens=3, output_tokens=1)
    events = [one, PartStartEvent(index=0, part=TextPart("a")), PartDeltaEvent(index=0, delta=TextPartDelta("b")), two]
    last = PartEndEvent(index=0, part=TextPart("ab"))
    assert pieces(*events, last) == [TextDelta("a"), UsageUpdate(Usage(3)), TextDelta("b"), UsageUpdate(Usage(3, 1))]
