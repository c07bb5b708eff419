"""The requests that providers reject with status 400, according to their documentation and their errors.

Observed in November 2026: Anthropic's Claude 4.6 and later reject a conversation that ends with the assistant, empty
text, and calls that are not directly followed by their results. Google requires as many results as calls, directly
after the calls, and a turn of the user before a call. OpenAI requires a result for each call, an item for each id, and
an object at the root of the schema of an answer. All require short names of tools and short ids of calls in ASCII. They
decode images, and support few types.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
_GOOGLE_NAME = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_LONGEST_CHAT_ID, _LONGEST_RESPONSES_ID = 40, 64


def refusal(path: str, body: Any) -> str | None:
    """Return the reason why a provider rejects a request; None if it accepts it."""
    if any(_has_surrogate(text) for text in _texts(body)):
        return "request body is not valid UTF-8"
    for part, rule in _RULES.items():
        if part in path:
            return next(chain(_files(body), rule(body)), None)
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


# -- files

_IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


def _files(body: Any) -> Iterator[str]:
    """Yield the problems of the images and sounds in a request."""
    for block in _maps(body):
        if block.get("type") == "base64":  # Anthropic
            yield from _wrong_image(block["media_type"], block["data"])
        blob = block.get("inlineData") or block.get("inline_data")
        if blob:  # Google
            media_type = blob.get("mimeType") or blob.get("mime_type")
            wrong = _wrong_data if media_type.startswith("audio/") else _wrong_image
            yield from wrong(media_type, blob["data"].translate(str.maketrans("-_", "+/")))
        if block.get("type") in ("image_url", "input_image"):  # OpenAI
            image = block["image_url"]
            url = image["url"] if isinstance(image, Mapping) else image
            if url.startswith("data:"):
                head, _, data = url[len("data:") :].partition(";base64,")
                yield from _wrong_image(head, data)
        if block.get("type") == "input_audio":
            yield from _wrong_data(block["input_audio"]["format"], block["input_audio"]["data"])


def _wrong_image(media_type: str, data: str) -> Iterator[str]:
    if media_type not in _IMAGES:
        yield f"{media_type!r} is not one of the image types {list(_IMAGES)}"
        return
    wrong = next(_wrong_data(media_type, data), None)
    if wrong is not None:
        yield wrong
    elif not base64.b64decode(data).startswith(_IMAGES[media_type]):
        yield f"The image was specified using the {media_type} media type, but does not appear to be one"


def _wrong_data(media_type: str, data: str) -> Iterator[str]:
    try:
        if not base64.b64decode(data, validate=True):
            yield f"{media_type}: empty data"
    except ValueError:
        yield f"{media_type}: invalid base64 data {data[:20]!r}"


def _maps(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        yield mapping
        value = list(mapping.values())
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _maps(item)


# -- Anthropic


def _messages(body: Any) -> Iterator[str]:
    messages: list[Any] = body["messages"]
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    if messages[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    before: Sequence[str] = ()
    for number, message in enumerate(messages):
        blocks = _blocks(message["content"])
        if not blocks:
            yield f"messages.{number}: all messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"messages.{number}: text content blocks must contain non-whitespace text"
        for block in blocks:
            if block["type"] == "tool_use" and not _ANTHROPIC_ID.fullmatch(block["id"]):
                yield f"messages.{number}.tool_use.id: string should match pattern '^[a-zA-Z0-9_-]+$'"
            if block["type"] == "tool_use" and not _NAME.fullmatch(block["name"]):
                yield f"messages.{number}.tool_use.name: string should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            inner = _blocks(block.get("content") or []) if block["type"] == "tool_result" else []
            if any(part["type"] == "text" and not part["text"].strip() for part in inner):
                yield f"messages.{number}: text content blocks must be non-empty"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(before) - set(results):
            yield f"messages.{number}: `tool_use` ids without `tool_result` blocks immediately after: {before}"
        if set(results) - set(before) or len(set(results)) < len(results):
            yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {results}"
        before = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(before)) < len(before):
            yield f"messages.{number}: `tool_use` ids must be unique"
    if before:
        yield f"`tool_use` ids were found without `tool_result` blocks: {before}"
    uses = [block["id"] for message in messages for block in _blocks(message["content"]) if block["type"] == "tool_use"]
    if len(set(uses)) < len(uses):
        yield "messages: `tool_use` ids must be unique"


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


# -- OpenAI


def _wrong_form(form: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the schema of an answer."""
    name, schema = form["name"], form["schema"]
    if not _NAME.fullmatch(name):
        yield f"Invalid name {name!r}: string does not match pattern '^[a-zA-Z0-9_-]+$'"
    for word in ("anyOf", "oneOf", "allOf", "not", "enum"):
        if word in schema:
            yield f"Invalid schema for response_format {name!r}: {word!r} is not permitted at the root"
    if schema.get("type") != "object" and "$ref" not in schema:
        yield f"Invalid schema for response_format {name!r}: schema must be 'type: object', got {schema.get('type')!r}"


def _chat_completions(body: Any) -> Iterator[str]:
    if (body.get("response_format") or {}).get("type") == "json_schema":
        yield from _wrong_form(body["response_format"]["json_schema"])
    messages: list[Any] = body["messages"]
    if not messages:
        yield "[] is too short - 'messages'"
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages.[{number}]: 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.discard(message["tool_call_id"])
            if not isinstance(message["content"], str) and any(part["type"] != "text" for part in message["content"]):
                yield f"messages.[{number}]: tool messages take text alone"
        elif waiting:
            yield f"An assistant message with 'tool_calls' must be followed by tool messages responding to {waiting}"
        if role == "assistant":
            if not message.get("content") and not message.get("tool_calls"):
                yield f"messages.[{number}]: content or tool_calls is needed"
            ids = [call["id"] for call in message.get("tool_calls") or ()]
            if any(not 0 < len(call_id) <= _LONGEST_CHAT_ID for call_id in ids):
                yield f"messages.[{number}].tool_calls: string too long, or empty: {ids}"
            names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
            if not all(map(_NAME.fullmatch, names)):
                yield f"messages.[{number}].tool_calls.function.name does not match '^[a-zA-Z0-9_-]+$': {names}"
            waiting = set(ids)
            if len(waiting) < len(ids):
                yield f"messages.[{number}]: duplicate tool_call ids"
    if waiting:
        yield f"An assistant message with 'tool_calls' must be followed by tool messages responding to {waiting}"


def _responses(body: Any) -> Iterator[str]:
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        yield from _wrong_form(form)
    items: Any = body["input"]
    if not items:
        yield "input is empty"
    if isinstance(items, str):
        return
    called = [item for item in items if item.get("type") == "function_call"]
    if not all(0 < len(item["call_id"]) <= _LONGEST_RESPONSES_ID and _NAME.fullmatch(item["name"]) for item in called):
        yield f"Invalid 'input': a call_id or a name does not match: {called}"
    calls = [item["call_id"] for item in called]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    if missing := set(calls) - set(outputs):
        yield f"No tool output found for function call {missing}"
    if unknown := set(outputs) - set(calls):
        yield f"No tool call found for function call output with call_id {unknown}"
    if len(set(calls)) < len(calls) or len(set(outputs)) < len(outputs):
        yield "Duplicate item found with one call_id"


# -- Google


def _generate_content(body: Any) -> Iterator[str]:
    contents: list[Any] = body["contents"]
    if not contents:
        yield "contents is not specified"
        return
    if contents[0]["role"] != "user":
        yield "Please ensure that the conversation begins with a user turn."
    if contents[-1]["role"] == "model":
        yield "Please ensure that single turn requests end with a user role."
    open_calls = 0
    for number, content in enumerate(contents):
        parts = content.get("parts")
        if not parts or any(part.get("text") == "" for part in parts):
            yield f"contents[{number}].parts must not be empty"
            return
        used = [part.get("functionCall") or part.get("functionResponse") for part in parts]
        if not all(_GOOGLE_NAME.fullmatch(part["name"]) for part in used if part):
            yield f"Invalid function name in contents[{number}]: {used}"
        responses = sum("functionResponse" in part for part in parts)
        if responses != open_calls:
            yield "The number of function response parts must be equal to the number of function call parts."
        open_calls = sum("functionCall" in part for part in parts)
        if open_calls and (number == 0 or contents[number - 1]["role"] != "user"):
            yield "Please ensure that function call turn comes immediately after a user turn."


_RULES = {
    "/chat/completions": _chat_completions,
    "/responses": _responses,
    "/messages": _messages,
    "enerateContent": _generate_content,
}
