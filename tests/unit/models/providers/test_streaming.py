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
    """A stream of events; a RequestUsage among them becomes its usage."""

    def __init__(self, *events: Any) -> None:
        self._events = events
        self.usage = RequestUsage()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self._events:
            if isinstance(event, RequestUsage):
                self.usage = event
            else:
                yield event


def convert(*events: Any) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in stream_events(cast(Any, Stream(*events)))]

    return asyncio.run(read())


def test_text_and_reasoning_become_deltas() -> None:
    events = [
        PartStartEvent(index=0, part=ThinkingPart("")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="hm")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(signature_delta="signed")),
        PartStartEvent(index=1, part=TextPart("a")),
        PartDeltaEvent(index=1, delta=TextPartDelta("b")),
        PartEndEvent(index=1, part=TextPart("ab")),
    ]
    assert convert(*events) == [ReasoningDelta("hm"), TextDelta("a"), TextDelta("b")]


def test_calls_are_numbered_separately_from_other_parts() -> None:
    events = [
        PartStartEvent(index=0, part=TextPart("a")),
        PartStartEvent(index=1, part=ToolCallPart("add", None, "c1")),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta='{"a":')),
        PartStartEvent(index=2, part=ToolCallPart("sub", {"b": "é"}, "c2")),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta="1}")),
    ]
    assert convert(*events)[1:] == [
        ToolCallDelta(0, "c1", "add"),
        ToolCallDelta(0, arguments='{"a":'),
        ToolCallDelta(1, "c2", "sub", '{"b": "é"}'),
        ToolCallDelta(0, arguments="1}"),
    ]


def test_usage_is_emitted_when_it_changes() -> None:
    one, two = RequestUsage(input_tokens=3), RequestUsage(input_tokens=3, output_tokens=1)
    events = [one, PartStartEvent(index=0, part=TextPart("a")), PartDeltaEvent(index=0, delta=TextPartDelta("b")), two]
    last = PartEndEvent(index=0, part=TextPart("ab"))
    assert convert(*events, last) == [TextDelta("a"), UsageUpdate(Usage(3)), TextDelta("b"), UsageUpdate(Usage(3, 1))]
