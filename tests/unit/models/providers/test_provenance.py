"""The parts of an answer that are saved and sent back to its provider."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from statewright.messages import Message, ToolCall
from statewright.models.providers.provenance import AnswerSource, provenance_of, restore_response

SOURCE = AnswerSource("anthropic", "http://127.0.0.1:1")
ANSWER = ModelResponse(
    parts=[
        ThinkingPart("hm", signature="signed", provider_name="anthropic"),
        TextPart("one "),
        ToolCallPart("add", '{"a": 1}', "c1", id="fc_1", provider_name="anthropic"),
        TextPart("two", id="msg_2", provider_name="anthropic"),
        ToolCallPart("sub", "{}", "c2"),
    ],
    provider_name="anthropic",
)
MESSAGE = Message("one two", role="assistant", tool_calls=(ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "sub")))


def with_provenance(message: Message = MESSAGE, source: AnswerSource = SOURCE) -> Message:
    """Return the message with the provenance of ANSWER, encoded as JSON and decoded."""
    record = json.loads(json.dumps(provenance_of(ANSWER, source)))
    return replace(message, metadata={"provider": record})


def restore(message: Message, source: AnswerSource = SOURCE) -> list[Any]:
    return list(restore_response(message, source).parts)


def test_an_answer_is_restored_unchanged() -> None:
    assert restore(with_provenance()) == list(ANSWER.parts)
    assert restore_response(with_provenance(), SOURCE).provider_name == "anthropic"


def test_the_content_of_the_message_is_not_saved_again() -> None:
    text = json.dumps(provenance_of(ANSWER, SOURCE))
    assert "one" not in text
    assert "add" not in text
    assert "signed" in text


def test_passwords_in_addresses_are_not_saved() -> None:
    source = AnswerSource.at("openai", "http://me:secret@127.0.0.1:8000/v1/?key=secret")
    assert source == AnswerSource("openai", "http://127.0.0.1:8000/v1/")
    answer = ModelResponse(
        parts=ANSWER.parts, provider_name="openai", provider_url="http://me:secret@127.0.0.1:8000/v1/"
    )
    assert "secret" not in json.dumps(provenance_of(answer, source))


def test_nothing_is_saved_for_plain_text_and_calls() -> None:
    assert provenance_of(ModelResponse(parts=[TextPart("a"), ToolCallPart("t", "{}", "c")]), SOURCE) is None


@pytest.mark.parametrize("other", [AnswerSource("openai", SOURCE.url), AnswerSource(SOURCE.name, "http://127.0.0.1:2")])
def test_another_provider_gets_text_and_calls_only(other: AnswerSource) -> None:
    assert restore(with_provenance(), other) == [
        TextPart("one two"),
        ToolCallPart("add", '{"a": 1}', "c1"),
        ToolCallPart("sub", "{}", "c2"),
    ]


def test_a_changed_text_is_sent() -> None:
    texts = [
        part.content
        for part in restore(with_provenance(replace(MESSAGE, content="other")))
        if isinstance(part, TextPart)
    ]
    assert texts == ["other"]


def test_removed_calls_are_not_sent_and_new_calls_are_last() -> None:
    changed = replace(MESSAGE, tool_calls=(ToolCall("c2", "sub", {"b": 2}), ToolCall("c3", "mul")))
    calls = [part for part in restore(with_provenance(changed)) if isinstance(part, ToolCallPart)]
    assert [(call.tool_call_id, call.tool_name, call.args) for call in calls] == [
        ("c2", "sub", '{"b": 2}'),
        ("c3", "mul", "{}"),
    ]


def test_added_text_is_sent_last() -> None:
    thought = ModelResponse(parts=[ThinkingPart("hm", signature="s", provider_name="anthropic")])
    message = Message("added", role="assistant", metadata={"provider": provenance_of(thought, SOURCE)})
    assert [type(part) for part in restore(message)] == [ThinkingPart, TextPart]


@pytest.mark.parametrize("record", [None, "x", {}, {"name": "anthropic", "url": SOURCE.url}])
def test_invalid_metadata_is_ignored(record: object) -> None:
    assert restore(Message("a", role="assistant", metadata={"provider": record})) == [TextPart("a")]
