"""Convert a provider's answer to our response, and its stream to our events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from statewright.errors import ModelUnavailable
from statewright.messages import Message, ToolCall, read_tool_call
from statewright.models.adapters.conversion import finish_reason_of
from statewright.models.model import (
    FinishReason,
    ModelEvent,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageUpdate,
)
from statewright.models.providers.provenance import Source, provenance_of

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.usage import RequestUsage


def convert_response(answer: vendor.ModelResponse, source: Source, *, streamed: bool) -> ModelResponse:
    """Convert an answer of a provider. Raises ModelUnavailable if it broke off or failed midway."""
    _check_complete(answer, source, streamed=streamed)
    message = _message(answer, source)
    return ModelResponse(message, _usage_with_cost(answer), answer.model_name, _finish_reason(answer, message))


def _check_complete(answer: vendor.ModelResponse, source: Source, *, streamed: bool) -> None:
    """Raise ModelUnavailable for an answer without a finish reason, which some providers omit, but not in a stream."""
    details = answer.provider_details or {}
    ended = details.get("finish_reason") or details.get("refusal") or (not streamed and answer.finish_reason)
    if ended and answer.finish_reason != "error":
        return
    received = f"{len(_text(answer))} characters of text and {len(answer.tool_calls)} tool calls"
    cause = f"ended with {ended!r}" if ended else "broke off without a reason to end"
    raise ModelUnavailable(f"The answer of {source.name!r} at {source.url} {cause}, after {received}. Ask again.")


def _message(answer: vendor.ModelResponse, source: Source) -> Message:
    reasoning = answer.thinking
    record = {"reasoning": reasoning, "provider": provenance_of(answer, source)}
    metadata = {key: value for key, value in record.items() if value}
    text = _text(answer) or (answer.provider_details or {}).get("refusal") or ""
    return Message(
        _with_files(text, answer),
        role="assistant",
        tool_calls=tuple(_convert_call(part) for part in answer.tool_calls),
        metadata=metadata or None,
    )


def _text(answer: vendor.ModelResponse) -> str:
    """Return the text as it was streamed, with nothing between its parts."""
    return "".join(part.content for part in answer.parts if part.part_kind == "text")


def _with_files(text: str, answer: vendor.ModelResponse) -> str | list[dict[str, Any]]:
    """Return the text, with the files that the model generated, if any."""
    if not answer.files:
        return text
    files = [{"type": "image_url", "image_url": {"url": file.data_uri}} for file in answer.files]
    return [*([{"type": "text", "text": text}] if text else []), *files]


def _convert_call(part: vendor.ToolCallPart) -> ToolCall:
    return read_tool_call(part.tool_call_id, part.tool_name, {} if part.args is None else part.args)


def _finish_reason(answer: vendor.ModelResponse, message: Message) -> FinishReason:
    """Return the finish reason. Some providers report "stop" for an answer with tool calls.

    pydantic-ai does not map every reason, such as Google's `OTHER`; then the provider's own word is used.
    """
    reported = answer.finish_reason or (answer.provider_details or {}).get("finish_reason")
    reason = finish_reason_of(reported) or "stop"
    return "tools" if reason == "stop" and message.tool_calls else reason


def convert_usage(usage: RequestUsage, cost: float = 0.0) -> Usage:
    """Convert the usage of a call."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
    )


def _usage_with_cost(answer: vendor.ModelResponse) -> Usage:
    if answer.usage.cost is not None:
        return convert_usage(answer.usage, float(answer.usage.cost))
    try:
        return convert_usage(answer.usage, float(answer.cost().total_price))
    except Exception:  # the price list knows few models, and an answer is worth more than its price
        return convert_usage(answer.usage)


# -- streams


async def stream_events(stream: StreamedResponse) -> AsyncIterator[ModelEvent]:
    """Yield events while the answer arrives, and its usage whenever that changes."""
    calls: dict[int, int] = {}
    previous = convert_usage(stream.usage)
    async for event in stream:
        for piece in _convert_event(event, calls):
            yield piece
        if (usage := convert_usage(stream.usage)) != previous:
            previous = usage
            yield UsageUpdate(usage)


def _convert_event(event: Any, calls: dict[int, int]) -> Iterator[ModelEvent]:
    """Convert one event. `calls` numbers the parts that are tool calls."""
    from pydantic_ai import messages as vendor

    match event:
        case vendor.PartStartEvent(index=index, part=vendor.ToolCallPart() as part):
            calls[index] = len(calls)
            yield ToolCallDelta(calls[index], part.tool_call_id, part.tool_name, _arguments_text(part.args))
        case vendor.PartStartEvent(part=vendor.TextPart(content=text)) if text:
            yield TextDelta(text)
        case vendor.PartStartEvent(part=vendor.ThinkingPart(content=text)) if text:
            yield ReasoningDelta(text)
        case vendor.PartDeltaEvent(index=index, delta=delta):
            yield from _convert_delta(delta, calls.get(index))
        case _:
            return


def _convert_delta(delta: vendor.ModelResponsePartDelta, call: int | None) -> Iterator[ModelEvent]:
    from pydantic_ai import messages as vendor

    match delta:
        case vendor.TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case vendor.ThinkingPartDelta(content_delta=str(text)) if text:
            yield ReasoningDelta(text)
        case vendor.ToolCallPartDelta(args_delta=arguments) if call is not None and arguments:
            yield ToolCallDelta(call, arguments=_arguments_text(arguments))
        case _:
            return


def _arguments_text(arguments: object) -> str:
    """Return arguments as JSON text. A call that starts without arguments gets them later."""
    if not arguments:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
