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


def answered(*content: dict[str, Any], structured: Any = None) -> Any:
    given = {"content": content, **({"structuredContent": structured} if structured is not None else {})}
    return convert_result(CallToolResult.model_validate(given))


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
def test_text_alone_is_text_and_the_rest_are_parts(content: list[dict[str, Any]], answer: Any) -> None:
    assert answered(*content) == answer


def test_structured_content_comes_before_text_that_says_the_same() -> None:
    assert answered(TEXT, structured={"n": 1}) == {"n": 1}


def test_what_stands_beside_structured_content_is_not_lost() -> None:
    first, image = answered(TEXT, IMAGE, structured={"n": "ü"})
    assert (first, image["type"]) == ({"type": "text", "text": '{"n": "ü"}'}, "image")


def test_every_answer_is_plain_json() -> None:
    answer = answered(TEXT, IMAGE, LINK, BLOB)
    assert json.loads(json.dumps(answer)) == answer
