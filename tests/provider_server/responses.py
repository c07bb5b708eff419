"""The format of OpenAI's responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.provider_server.answer import Answer


def body(answer: Answer, model: str) -> dict[str, Any]:
    cut_short = answer.finish is not None
    return {
        **_head(model),
        "status": "incomplete" if cut_short else "completed",
        "incomplete_details": {"reason": answer.finish} if cut_short else None,
        "output": _items(answer),
        "usage": _usage(answer),
    }


def events(answer: Answer, model: str) -> Iterator[dict[str, Any]]:
    """Yield typed, numbered events."""
    for number, event in enumerate(_events(answer, model)):
        yield {**event, "sequence_number": number}


def _events(answer: Answer, model: str) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**_head(model), "status": "in_progress", "output": []}}
    for index, item in enumerate(_items(answer)):
        position = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        yield from _content(item, position)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    whole = body(answer, model)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _content(item: dict[str, Any], position: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match item["type"]:
        case "reasoning":
            text = item["summary"][0]["text"]
            part = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **position, "summary_index": 0, "part": part}
            yield {"type": "response.reasoning_summary_text.delta", **position, "summary_index": 0, "delta": text}
        case "function_call":
            half = len(item["arguments"]) // 2
            for piece in (item["arguments"][:half], item["arguments"][half:]):
                yield {"type": "response.function_call_arguments.delta", **position, "delta": piece}
        case _:
            position = {**position, "content_index": 0}
            part = item["content"][0]
            yield {"type": "response.content_part.added", **position, "part": {**part, _field(part): ""}}
            for index, word in enumerate(part[_field(part)].split(" ")):
                kind = "refusal" if part["type"] == "refusal" else "output_text"
                delta = word if index == 0 else f" {word}"
                yield {"type": f"response.{kind}.delta", **position, "delta": delta, "logprobs": []}


def _field(part: dict[str, Any]) -> str:
    return "refusal" if part["type"] == "refusal" else "text"


def _head(model: str) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
    if answer.text or answer.refusal or not answer.calls:
        items.append(_message(answer))
    for index, call in enumerate(answer.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{index + 1}",
                "call_id": call.numbered(index),
                "name": call.name,
                "arguments": call.written,
                "status": "completed",
            }
        )
    return items


def _message(answer: Answer) -> dict[str, Any]:
    text = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    part = {"type": "refusal", "refusal": answer.refusal} if answer.refusal else text
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without its content, as it is announced."""
    blank = {"summary": [], "content": [], "arguments": ""}
    return {key: blank.get(key, value) for key, value in item.items()}


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
