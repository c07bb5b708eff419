"""Our messages as messages of pydantic-ai."""

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
from statewright.models.providers.provenance import Source

SOURCE = Source("openai", "http://127.0.0.1:1")
CALLS = Message("", role="assistant", tool_calls=(ToolCall("1", "add", {"a": 1}), ToolCall("2", "sub", invalid="{")))


def parts(*messages: Message, system: str = "") -> list[list[Any]]:
    return [list(one.parts) for one in convert_messages(ModelRequest(messages, system=system), SOURCE)]


def test_what_stands_between_two_answers_is_one_request() -> None:
    results = [Message("r1", role="tool", tool_call_id="1"), Message("r2", role="tool", tool_call_id="2")]
    first, second, third = parts(Message("hi"), CALLS, *results, Message("go on"), system="be brief")
    assert [type(one) for one in first] == [SystemPromptPart, UserPromptPart]
    assert [type(one) for one in second] == [ToolCallPart, ToolCallPart]
    assert [type(one) for one in third] == [ToolReturnPart, ToolReturnPart, UserPromptPart]


def test_a_call_has_the_arguments_that_the_model_wrote() -> None:
    _, calls = parts(CALLS)  # after one of the user
    assert [(one.tool_name, one.args, one.tool_call_id) for one in calls] == [
        ("add", '{"a": 1}', "1"),
        ("sub", "{", "2"),
    ]


def test_a_result_has_the_name_of_its_tool_and_whether_it_failed() -> None:
    failed = Message("no", role="tool", tool_call_id="2", metadata={"status": "error"})
    named = Message("1", role="tool", tool_call_id="1", name="other")
    lost = Message("?", role="tool", tool_call_id="9")
    *_, results = parts(CALLS, failed, named, lost)
    assert [(one.tool_name, one.outcome) for one in results] == [
        ("sub", "failed"),
        ("other", "success"),
        ("tool", "success"),
    ]


def test_the_last_message_may_be_the_beginning_of_the_answer() -> None:
    _, begun = parts(Message("tell"), Message("Once", role="assistant"))
    assert begun == [TextPart("Once")]


def test_without_messages_the_system_text_is_sent() -> None:
    ((only,),) = parts(system="be brief")
    assert only.content == "be brief"
    assert parts() == [[]]


def test_parts_of_the_user() -> None:
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.org/b.png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}},
        {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAEC"}},
    ]
    (((sent,),)) = parts(Message(content))
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
def test_a_part_that_is_not_known_is_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parts(Message([part]))
