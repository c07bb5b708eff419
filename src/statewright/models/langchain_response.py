"""What LangChain answers, as our response.

What it would need to send an answer back as it was, blocks of thought with their signatures, say, is kept in the
metadata of the message, and restored from there by `langchain_request`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from statewright.langchain_messages import KEPT, SAID_ELSEWHERE, content_of, reasoning_of
from statewright.messages import Message, ToolCall
from statewright.models.finish_reason import reason_in
from statewright.models.model import FinishReason, ModelResponse, OutputForm, Usage


def response_of(answer: Any, calls: Sequence[ToolCall], facts: Mapping[str, Any], model: str) -> ModelResponse:
    """The response that an answer of LangChain is, with the calls and facts that were read from it."""
    return ModelResponse(
        _message(answer, calls),
        _usage(answer.usage_metadata or {}),
        facts.get("model_name") or facts.get("model") or model,
        _finish_reason(facts, calls),
    )


def as_text(response: ModelResponse, form: OutputForm) -> ModelResponse:
    """The response with the JSON as its text, where the model gave it as the call of a tool.

    Where other tools are called in the same breath, these count: the model answers again when it has seen what came of
    them.
    """
    calls = response.message.tool_calls
    others = tuple(call for call in calls if call.name != form.name)
    if others or not calls:
        return replace(response, message=replace(response.message, tool_calls=others))
    # What LangChain kept of the message holds the call too, and would bring it back: it has no result.
    metadata = {name: value for name, value in (response.message.metadata or {}).items() if name != "provider"}
    message = Message(calls[0].written, role="assistant", metadata=metadata or None)
    unfinished = response.finish_reason in ("length", "refused")  # else it says that a tool was called
    return replace(response, message=message, finish_reason=response.finish_reason if unfinished else "stop")


# -- the message


def _message(answer: Any, calls: Sequence[ToolCall]) -> Message:
    metadata: dict[str, Any] = {}
    if thought := reasoning_of(answer):
        metadata["reasoning"] = thought
    if kept := _kept(answer):
        metadata["provider"] = {KEPT: kept}
    return Message(content_of(answer), role="assistant", tool_calls=tuple(calls), metadata=metadata or None)


def _kept(answer: Any) -> dict[str, Any]:
    """What would be lost if only text and calls were sent back; nothing in the plain case."""
    extra = {
        name: value
        for name, value in answer.additional_kwargs.items()
        if value is not None and name not in SAID_ELSEWHERE
    }
    if isinstance(answer.content, str) and not extra:
        return {}
    provider = answer.response_metadata.get("model_provider")
    facts = {"model_provider": provider} if provider else {}
    return {"content": answer.content, "additional_kwargs": extra, "response_metadata": facts}


# -- facts about it


def _usage(found: Mapping[str, Any]) -> Usage:
    read: Mapping[str, Any] = found.get("input_token_details") or {}
    written: Mapping[str, Any] = found.get("output_token_details") or {}
    return Usage(
        input_tokens=found.get("input_tokens") or 0,
        output_tokens=found.get("output_tokens") or 0,
        cached_tokens=read.get("cache_read") or 0,
        reasoning_tokens=written.get("reasoning") or 0,
    )


def _finish_reason(facts: Mapping[str, Any], calls: Sequence[ToolCall]) -> FinishReason | None:
    reason = reason_in(facts)
    return "tools" if calls and reason in (None, "stop") else reason
