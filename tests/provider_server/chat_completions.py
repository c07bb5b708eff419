"""The format of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.provider_server.answer import Answer


def body(answer: Answer, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [_call(answer, index) for index in range(len(answer.calls))]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    return {**_head(model, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def events(answer: Answer, model: str) -> Iterator[Any]:
    """Yield chunks: reasoning, text word by word, each call in two pieces, the end, usage."""
    yield _chunk(model, {"role": "assistant", "content": ""})
    if answer.reasoning:
        yield _chunk(model, {"reasoning_content": answer.reasoning})
    if answer.refusal:
        yield _chunk(model, {"refusal": answer.refusal})
    for word in answer.text.split(" ") if answer.text else ():
        yield _chunk(model, {"content": word if word == answer.text.split(" ")[0] else f" {word}"})
    for index, call in enumerate(answer.calls):
        half = len(call.written) // 2
        start = _call(answer, index) | {"index": index}
        start["function"] = {"name": call.name, "arguments": call.written[:half]}
        yield _chunk(model, {"tool_calls": [start]})
        yield _chunk(model, {"tool_calls": [{"index": index, "function": {"arguments": call.written[half:]}}]})
    yield _chunk(model, {}, _finish(answer))
    yield {**_head(model, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}
    yield "[DONE]"


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": model}


def _chunk(model: str, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {**_head(model, "chat.completion.chunk"), "choices": [choice]}


def _call(answer: Answer, index: int) -> dict[str, Any]:
    call = answer.calls[index]
    function = {"name": call.name, "arguments": call.written}
    return {"id": call.numbered(index), "type": "function", "function": function}


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }
