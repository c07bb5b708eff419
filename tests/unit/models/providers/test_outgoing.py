"""Conversion of messages to those of pydantic-ai."""

from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest
from statewright.models.providers.outgoing import convert_messages
from statewright.models.providers.provenance import AnswerSource

SOURCE = AnswerSource("openai", "http://127.0.0.1:1")
CALLS = Message("", role="assistant", tool_calls=(ToolCall("1", "add", {"a": 1}), ToolCall("2", "sub", invalid="{")))


def convert(*messages: Message, system: str = "") -> list[list[Any]]:
    return [list(message.parts) for message in convert_messages(ModelRequest(messages, system=system), SOURCE)]


def test_messages_between_two_answers_become_one_request() -> None:
    results = [Message("r1", role="tool", tool_call_id="1"), Message("r2", role="tool", tool_call_id="2")]
    first, second, third = convert(Message("hi"), CALLS, *results, Message("go on"), system="be brief")
    assert [type(part) for part in first] == [SystemPromptPart, UserPromptPart]
    assert [type(part) for part in second] == [ToolCallPart, ToolCallPart]
    assert [type(part) for part in third] == [ToolReturnPart, ToolReturnPart, UserPromptPart]


def test_a_call_is_sent_with_the_arguments_that_the_model_wrote() -> None:
    _, calls = convert(CALLS)  # after a message of the user
    assert [(call.tool_name, call.args, call.tool_call_id) for call in calls] == [
        ("add", '{"a": 1}', "1"),
        ("sub", "{", "2"),
    ]


def test_a_result_has_the_name_of_its_tool_and_its_outcome() -> None:
    failed = Message("no", role="tool", tool_call_id="2", metadata={"status": "error"})
    named = Message("1", role="tool", tool_call_id="1", name="other")
    lost = Message("?", role="tool", tool_call_id="9")
    *_, results = convert(CALLS, failed, named, lost)
    assert [(result.tool_name, result.outcome) for result in results] == [
        ("sub", "failed"),
        ("other", "success"),
        ("tool", "success"),
    ]


def test_the_last_message_may_be_an_answer_to_continue() -> None:
    _, beginning = convert(Message("tell"), Message("Once", role="assistant"))
    assert beginning == [TextPart("Once")]


def test_the_system_text_is_sent_without_messages() -> None:
    ((only,),) = convert(system="be brief")
    assert only.content == "be brief"
    assert convert() == [[]]


def test_parts_of_user_messages_are_converted() -> None:
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.org/b.png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}},
        {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAEC"}},
    ]
    (((sent,),)) = convert(Message(content))
    text, low, plain, image, audio, file = sent.content
    assert text == "look"
    assert (low.url, low.vendor_metadata) == ("https://example.org/a.png", {"detail": "low"})
    assert plain == ImageUrl("https://example.org/b.png")
    assert (image.data, image.media_type) == (b"\0\1\2", "image/png")
    assert isinstance(audio, BinaryContent)
    assert (audio.media_type, file.media_type) == ("audio/wav", "application/pdf")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "image"}, r"of type 'image'.*Did you mean 'image_url'\?"),
        ({"type": "text"}, r"of type 'text', and cannot be sent.*as in OpenAI"),
        ({"data": "x"}, r"without a type \(its keys: \['data'\]\).*Types: file"),
        ({"type": "file", "file": {"file_data": "abc"}}, "data that cannot be read.*base64"),
    ],
)
def test_unknown_parts_are_rejected(part: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        convert(Message([part]))
