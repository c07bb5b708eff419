"""The format of Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.provider_server.answer import Answer, Call


def body(answer: Answer, model: str) -> dict[str, Any]:
    return {**_head(model), "content": _blocks(answer), "stop_reason": _finish(answer), "usage": _usage(answer)}


def events(answer: Answer, model: str) -> Iterator[dict[str, Any]]:
    """Yield typed events: the start, each block in pieces, the end."""
    started = {**_usage(answer), "output_tokens": 1}
    yield {"type": "message_start", "message": {**_head(model), "content": [], "stop_reason": None, "usage": started}}
    for index, block in enumerate(_blocks(answer)):
        yield {"type": "content_block_start", "index": index, "content_block": _empty(block)}
        for delta in _deltas(block, answer):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": _finish(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": _usage(answer)}
    yield {"type": "message_stop"}


def _head(model: str) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": "signed"})
    if answer.text or answer.refusal:
        blocks.append({"type": "text", "text": answer.text or answer.refusal})
    for index, call in enumerate(answer.calls):
        blocks.append(
            {"type": "tool_use", "id": call.numbered(index), "name": call.name, "input": _input(call)},
        )
    return blocks


def _input(call: Call) -> Any:
    """Return the arguments as a JSON value, as this provider does; a string if they are not valid JSON."""
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    blank = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {key: blank.get(key, value) if key != "type" else value for key, value in block.items()}


def _deltas(block: dict[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for index, word in enumerate(block["text"].split(" ")):
                yield {"type": "text_delta", "text": word if index == 0 else f" {word}"}
        case _:
            written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            half = len(written) // 2
            yield {"type": "input_json_delta", "partial_json": written[:half]}
            yield {"type": "input_json_delta", "partial_json": written[half:]}


def _finish(answer: Answer) -> str:
    if answer.refusal:
        return "refusal"
    return answer.finish or ("tool_use" if answer.calls else "end_turn")


def _usage(answer: Answer) -> dict[str, Any]:
    """Return the usage. This provider counts cached tokens separately."""
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "output_tokens": answer.output_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": 0,
    }
