"""The results of calls on a server."""

import json
from typing import Any

import pytest
from mcp_types import CallToolResult

from statewright.agents.mcp.tools import convert_result

TEXT = {"type": "text", "text": "t"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk=", "mimeType": "x/y"}}


def convert(*content: dict[str, Any], structured: Any = None) -> Any:
    content_fields = {"content": content, **({"structuredContent": structured} if structured is not None else {})}
    return convert_result(CallToolResult.model_validate(content_fields))


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([], ""),
        ([TEXT], "t"),
        ([TEXT, TEXT], "t\nt"),
        ([TEXT, IMAGE], [TEXT, {"type": "image", "data": "aGk=", "mime_type": "image/png"}]),
        ([LINK], [{"type": "resource_link", "uri": "file:///a", "name": "a", "mime_type": "text/plain"}]),
        ([BLOB], [{"type": "resource", "uri": "file:///b", "blob": "aGk=", "mime_type": "x/y"}]),
    ],
)
def test_text_is_joined_and_other_content_becomes_parts(content: list[dict[str, Any]], answer: Any) -> None:
    assert convert(*content) == answer


def test_structured_content_replaces_its_text() -> None:
    assert convert(TEXT, structured={"n": 1}) == {"n": 1}


def test_other_content_next_to_structured_content_is_kept() -> None:
    first, image = convert(TEXT, IMAGE, structured={"n": "ü"})
    assert (first, image["type"]) == ({"type": "text", "text": '{"n": "ü"}'}, "image")


def test_answers_are_plain_json() -> None:
    answer = convert(TEXT, IMAGE, LINK, BLOB)
    assert json.loads(json.dumps(answer)) == answer
