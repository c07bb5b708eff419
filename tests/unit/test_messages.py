"""The forms in which a message can be written."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.messages import Message, RemoveMessage, ToolCall, ToolResult, as_message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hi", Message("hi")),
        (("assistant", "hi"), Message("hi", role="assistant")),
        (("human", "hi"), Message("hi", role="user")),
        ({"role": "system", "content": "be kind", "id": "1"}, Message("be kind", role="system", id="1")),
        ({"type": "ai", "content": "yes"}, Message("yes", role="assistant")),
        (ToolResult("c1", {"n": 1}, name="count"), Message('{"n": 1}', role="tool", name="count", tool_call_id="c1")),
        ({"type": "remove", "id": "7"}, RemoveMessage("7")),
    ],
)
def test_every_usual_form_is_accepted(value: Any, expected: Any) -> None:
    assert as_message(value) == expected


def test_tool_calls_survive_a_round_trip() -> None:
    message = Message("", role="assistant", id="1", tool_calls=(ToolCall("c1", "add", {"a": 1}),))
    assert as_message(message.to_dict()) == message


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (7, "A message was expected"),
        ({"role": "user"}, "has no 'content'"),
        ({"role": "boss", "content": "go"}, "Unknown role 'boss'"),
        (("boss", "go"), "Unknown role 'boss'"),
    ],
)
def test_an_invalid_message_is_rejected(value: Any, error: str) -> None:
    with pytest.raises(InvalidUpdateError, match=error):
        as_message(value)


def test_the_text_of_content_parts_is_joined() -> None:
    assert Message([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]).text == "ab"


def test_messages_convert_from_and_to_langchain() -> None:
    core = pytest.importorskip("langchain_core.messages", reason="langchain-core is not installed")
    assert as_message(core.AIMessage("yes", id="1")) == Message("yes", role="assistant", id="1")
    assert Message("hi", id="2").to_langchain().type == "human"
