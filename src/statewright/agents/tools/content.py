"""Answers of tools with images and audio, as parts of a message.

A model can look at an image only if it comes as one: the base64 of it as text is noise that costs tens of thousands of
tokens. What no model can look at becomes a note, see `models/files.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from statewright.models.files import image_part, note, sound_part


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
    media_type = str(part.get("mime_type") or part.get("mimeType") or "application/octet-stream")
    if part["type"] == "resource":
        size = len(part["blob"]) * 3 // 4
        return note("file", media_type, f"it has {size} bytes", uri=str(part.get("uri") or ""))
    if part["type"] == "audio":
        return sound_part(part["data"], media_type.partition("/")[2])
    return image_part(part["data"], media_type)
