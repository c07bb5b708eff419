"""The pieces of a streamed answer as our events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from statewright.models.event import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta, UsageUpdate
from statewright.models.providers.incoming import usage_from

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor
    from pydantic_ai.models import StreamedResponse


async def pieces_of(stream: StreamedResponse) -> AsyncIterator[ModelEvent]:
    """What can be told while the answer comes; its usage whenever that is known anew."""
    calls: dict[int, int] = {}
    told = usage_from(stream.usage)
    async for event in stream:
        for piece in _pieces(event, calls):
            yield piece
        if (usage := usage_from(stream.usage)) != told:
            told = usage
            yield UsageUpdate(usage)


def _pieces(event: Any, calls: dict[int, int]) -> Iterator[ModelEvent]:
    """The pieces in one event. `calls` numbers the parts that are calls of tools."""
    from pydantic_ai import messages as vendor

    match event:
        case vendor.PartStartEvent(index=index, part=vendor.ToolCallPart() as part):
            calls[index] = len(calls)
            yield ToolCallDelta(calls[index], part.tool_call_id, part.tool_name, _written(part.args))
        case vendor.PartStartEvent(part=vendor.TextPart(content=text)) if text:
            yield TextDelta(text)
        case vendor.PartStartEvent(part=vendor.ThinkingPart(content=text)) if text:
            yield ReasoningDelta(text)
        case vendor.PartDeltaEvent(index=index, delta=delta):
            yield from _of_delta(delta, calls.get(index))
        case _:
            return


def _of_delta(delta: vendor.ModelResponsePartDelta, call: int | None) -> Iterator[ModelEvent]:
    from pydantic_ai import messages as vendor

    match delta:
        case vendor.TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case vendor.ThinkingPartDelta(content_delta=str(text)) if text:
            yield ReasoningDelta(text)
        case vendor.ToolCallPartDelta(args_delta=arguments) if call is not None and arguments:
            yield ToolCallDelta(call, arguments=_written(arguments))
        case _:
            return


def _written(arguments: object) -> str:
    """Arguments as a piece of JSON text. A call that begins with none gets them later."""
    if not arguments:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
