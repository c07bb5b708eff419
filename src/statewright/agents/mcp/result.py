"""What a call on a server answered, as text or plain data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def answer_of(result: CallToolResult) -> Any:
    """The structured content if there is some, the text if there is nothing else, or a list of all parts.

    Parts are maps with a `type`: `text`, `image`, `audio`, `resource` or `resource_link`. Nothing is left out: where
    images stand beside structured content, that comes first, as a part of text.
    """
    parts = [_part(block) for block in result.content]
    only_text = all(part["type"] == "text" for part in parts)
    if result.structured_content is not None:
        if only_text:  # the text says the same, for models that cannot read structures
            return result.structured_content
        return [_structured(result.structured_content), *(part for part in parts if part["type"] != "text")]
    return text_of(result) if only_text else parts


def text_of(result: CallToolResult) -> str:
    """All text of the answer."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def _structured(content: Any) -> dict[str, Any]:
    return {"type": "text", "text": json.dumps(content, ensure_ascii=False)}


def _part(block: ContentBlock) -> dict[str, Any]:
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image" | "audio":
            return {"type": block.type, "data": block.data, "mime_type": block.mime_type}
        case "resource":
            return {"type": "resource", **block.resource.model_dump(mode="json", exclude_none=True)}
        case "resource_link":
            kept = {"type", "name", "title", "uri", "description", "mime_type", "size"}
            return block.model_dump(mode="json", include=kept, exclude_none=True)
