"""What people write when they mean a message."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.messages import Message, RemoveMessage, ToolCall, ToolResult, as_message


@pytest.mark.parametrize(
    ("written", "meant"),
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
def test_every_usual_form_is_taken(written: Any, meant: Any) -> None:
    assert as_message(written) == meant


def test_tool_calls_survive_the_way_there_and_back() -> None:
    message = Message("", role="assistant", id="1", tool_calls=(ToolCall("c1", "add", {"a": 1}),))
    assert as_message(message.to_dict()) == message


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (7, "A message was expected"),
        ({"role": "user"}, "has no 'content'"),
        ({"role": "boss", "content": "go"}, "Unknown role 'boss'"),
        (("boss", "go"), "Unknown role 'boss'"),
    ],
)
def test_what_is_no_message_is_an_error(written: Any, said: str) -> None:
    with pytest.raises(InvalidUpdateError, match=said):
        as_message(written)


def test_the_text_of_parts_is_joined() -> None:
    assert Message([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]).text == "ab"


def test_langchain_messages_are_understood_both_ways() -> None:
    core = pytest.importorskip("langchain_core.messages", reason="langchain-core is not installed")
    assert as_message(core.AIMessage("yes", id="1")) == Message("yes", role="assistant", id="1")
    assert Message("hi", id="2").to_langchain().type == "human"
