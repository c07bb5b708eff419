"""The format of Google's generateContent."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from tests.provider_server.answer import Answer

SIGNATURE = base64.b64encode(b"signed").decode()


def body(answer: Answer, model: str) -> dict[str, Any]:
    return _answer(answer, model, _parts(answer), _finish(answer))


def events(answer: Answer, model: str) -> Iterator[dict[str, Any]]:
    """Yield text word by word and each other part as a whole; the last response has the finish reason."""
    for part in _parts(answer):
        for piece in _pieces(part):
            yield _answer(answer, model, [piece], None)
    yield _answer(answer, model, [], _finish(answer))


def _pieces(part: dict[str, Any]) -> list[dict[str, Any]]:
    if "text" not in part:
        return [part]
    first, *rest = part["text"].split(" ")
    return [{**part, "text": text} for text in (first, *(f" {word}" for word in rest))]


def _answer(answer: Answer, model: str, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": _usage(answer), "modelVersion": model, "responseId": "r1"}


def _parts(answer: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if answer.reasoning:
        parts.append({"text": answer.reasoning, "thought": True})
    if answer.text or answer.refusal:
        parts.append({"text": answer.text or answer.refusal})
    for index, call in enumerate(answer.calls):
        part: dict[str, Any] = {"functionCall": {"id": call.numbered(index), "name": call.name, "args": call.arguments}}
        if answer.reasoning and index == 0:
            part["thoughtSignature"] = SIGNATURE
        parts.append(part)
    return parts


def _finish(answer: Answer) -> str:
    return answer.finish or ("SAFETY" if answer.refusal else "STOP")


def _usage(answer: Answer) -> dict[str, Any]:
    """Return the usage. This provider counts reasoning separately from the answer."""
    return {
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": answer.output_tokens - answer.reasoning_tokens,
        "thoughtsTokenCount": answer.reasoning_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    }
