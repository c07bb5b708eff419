"""Convert the answer of a provider to our response, and the stream of an answer to our events."""

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
from statewright.models.providers.provenance import AnswerSource, provenance_of

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.usage import RequestUsage


def convert_response(answer: vendor.ModelResponse, source: AnswerSource, *, streamed: bool) -> ModelResponse:
    """Convert the answer of a provider to a response. Raises ModelUnavailable if the answer broke off or failed."""
    _check_complete(answer, source, streamed=streamed)
    message = _message(answer, source)
    return ModelResponse(message, _usage_with_cost(answer), answer.model_name, _finish_reason(answer, message))


def _check_complete(answer: vendor.ModelResponse, source: AnswerSource, *, streamed: bool) -> None:
    """Raise ModelUnavailable for an answer that failed or broke off.

    An answer broke off if it has no finish reason of the provider. But some providers omit the reason if the answer is
    not streamed, so for such an answer pydantic-ai's finish reason is sufficient.
    """
    details = answer.provider_details or {}
    reason = details.get("finish_reason") or details.get("refusal") or (not streamed and answer.finish_reason)
    if reason and answer.finish_reason != "error":
        return
    received = f"{len(_text(answer))} characters of text and {len(answer.tool_calls)} tool calls"
    ending = f"ended with {reason!r}" if reason else "broke off without a finish reason"
    raise ModelUnavailable(f"The answer of {source.name!r} at {source.url} {ending}, after {received}. Retry the call.")


def _message(answer: vendor.ModelResponse, source: AnswerSource) -> Message:
    optional = {"reasoning": answer.thinking, "provider": provenance_of(answer, source)}
    metadata = {key: value for key, value in optional.items() if value}
    text = _text(answer) or (answer.provider_details or {}).get("refusal") or ""
    return Message(
        _with_files(text, answer),
        role="assistant",
        tool_calls=tuple(_convert_call(part) for part in answer.tool_calls),
        metadata=metadata or None,
    )


def _text(answer: vendor.ModelResponse) -> str:
    """Return the text of an answer as it was streamed, without separators between the parts of the answer."""
    return "".join(part.content for part in answer.parts if part.part_kind == "text")


def _with_files(text: str, answer: vendor.ModelResponse) -> str | list[dict[str, Any]]:
    """Return the text; or a list of message parts, if the model has generated files."""
    if not answer.files:
        return text
    files = [{"type": "image_url", "image_url": {"url": file.data_uri}} for file in answer.files]
    return [*([{"type": "text", "text": text}] if text else []), *files]


def _convert_call(part: vendor.ToolCallPart) -> ToolCall:
    return read_tool_call(part.tool_call_id, part.tool_name, {} if part.args is None else part.args)


def _finish_reason(answer: vendor.ModelResponse, message: Message) -> FinishReason:
    """Return the finish reason of an answer.

    It is `tools` for an answer with tool calls, even if the provider reports `stop`. Some reasons, such as Google's
    `OTHER`, have no equivalent in pydantic-ai; then the provider's own word is used.
    """
    reported = answer.finish_reason or (answer.provider_details or {}).get("finish_reason")
    reason = finish_reason_of(reported) or "stop"
    return "tools" if reason == "stop" and message.tool_calls else reason


def convert_usage(usage: RequestUsage, cost: float = 0.0) -> Usage:
    """Convert pydantic-ai's usage of a model call to ours."""
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
    except Exception:  # the price list does not have all models, and a call must not fail because its price is unknown
        return convert_usage(answer.usage)


# -- streams


async def stream_events(stream: StreamedResponse) -> AsyncIterator[ModelEvent]:
    """Yield the events of an answer while it arrives, and a UsageUpdate whenever its usage changes."""
    call_indices: dict[int, int] = {}
    previous = convert_usage(stream.usage)
    async for event in stream:
        for model_event in _convert_event(event, call_indices):
            yield model_event
        if (usage := convert_usage(stream.usage)) != previous:
            previous = usage
            yield UsageUpdate(usage)


def _convert_event(event: Any, call_indices: dict[int, int]) -> Iterator[ModelEvent]:
    """Convert one event. `call_indices` maps the index of a part that is a tool call to the index of the call."""
    from pydantic_ai import messages as vendor

    match event:
        case vendor.PartStartEvent(index=index, part=vendor.ToolCallPart() as part):
            call_indices[index] = len(call_indices)
            yield ToolCallDelta(call_indices[index], part.tool_call_id, part.tool_name, _arguments_text(part.args))
        case vendor.PartStartEvent(part=vendor.TextPart(content=text)) if text:
            yield TextDelta(text)
        case vendor.PartStartEvent(part=vendor.ThinkingPart(content=text)) if text:
            yield ReasoningDelta(text)
        case vendor.PartDeltaEvent(index=index, delta=delta):
            yield from _convert_delta(delta, call_indices.get(index))
        case _:
            return


def _convert_delta(delta: vendor.ModelResponsePartDelta, call_index: int | None) -> Iterator[ModelEvent]:
    from pydantic_ai import messages as vendor

    match delta:
        case vendor.TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case vendor.ThinkingPartDelta(content_delta=str(text)) if text:
            yield ReasoningDelta(text)
        case vendor.ToolCallPartDelta(args_delta=arguments) if call_index is not None and arguments:
            yield ToolCallDelta(call_index, arguments=_arguments_text(arguments))
        case _:
            return


def _arguments_text(arguments: object) -> str:
    """Return arguments as JSON text; an empty string if the arguments of a call have not arrived yet."""
    if not arguments:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
