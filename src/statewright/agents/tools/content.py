"""Answers of tools with images and audio, as parts of a message.

A model can look at an image only if it comes as one: the base64 of it as text is noise that costs tens of thousands of
tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

LARGEST_FILE: Final = 5_000_000
"""Characters of base64: more than Anthropic takes for an image (5 MB). A larger file is replaced by a note."""
_SHOWN: Final = 100
"""Characters of a media type or address in a note."""


def content_parts(answer: Any) -> list[dict[str, Any]] | None:
    """Return the parts of a message for an answer that is a list of parts with images or audio; None for any other.

    The parts are maps as tools of MCP servers answer them: `{"type": "image", "data": <base64>, "mime_type": ...}`,
    `audio` likewise, and `text`. Every other part becomes text, as JSON.
    """
    if not isinstance(answer, list) or not answer:
        return None
    parts = cast("list[Any]", answer)
    if not all(map(_is_part, parts)) or not any(map(_is_file, parts)):
        return None
    return [_part(part) for part in parts]


def _is_part(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(cast("Mapping[str, Any]", part).get("type"), str)


def _is_file(part: Mapping[str, Any]) -> bool:
    if part["type"] == "resource":
        return isinstance(part.get("blob"), str)
    return part["type"] in ("image", "audio") and isinstance(part.get("data"), str)


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if not _is_file(part):
        is_text = part["type"] == "text" and isinstance(part.get("text"), str)
        return {"type": "text", "text": part["text"] if is_text else json.dumps(dict(part), ensure_ascii=False)}
    data = str(part.get("data") or part.get("blob"))
    media_type = str(part.get("mime_type") or part.get("mimeType") or "application/octet-stream")
    if len(data) > LARGEST_FILE or part["type"] == "resource":
        return {"type": "text", "text": _note(part, media_type, len(data))}
    if part["type"] == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": media_type.partition("/")[2]}}
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _note(part: Mapping[str, Any], media_type: str, size: int) -> str:
    uri = f" at {str(part['uri'])[:_SHOWN]}" if part.get("uri") else ""
    return f"[A file of type {media_type[:_SHOWN]}{uri} was left out: {size * 3 // 4} bytes.]"
