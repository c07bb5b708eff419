"""Conversion of requests to LangChain."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, OutputForm, ToolSpec
from statewright.models.adapters.langchain.conversion import (
    function_schema,
    langchain_messages,
    output_instruction,
    request_settings,
    titled_schema,
    tool_options,
)


def convert_message(message: Message) -> AIMessage:
    _, converted = langchain_messages(ModelRequest((message,)))  # after a message of the user
    assert isinstance(converted, AIMessage)
    return converted


def answer(text: str, content: Any, *calls: str) -> Message:
    """Return an answer of LangChain, with the content that the adapter saved."""
    saved = {"content": content, "additional_kwargs": {"sign": "s"}, "response_metadata": {}}
    tool_calls = tuple(ToolCall(call_id, "look") for call_id in calls)
    return Message(text, role="assistant", tool_calls=tool_calls, metadata={"provider": {"langchain": saved}})


def test_an_instruction_follows_the_system_text() -> None:
    system, _ = langchain_messages(ModelRequest((Message("hi"),), system="be kind"), "be short")
    assert system.content == "be kind\n\nbe short"
    assert langchain_messages(ModelRequest((Message("hi"),), system=""), "be short")[0].content == "be short"


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (answer("a", "a"), "a"),
        (answer("b", "a"), "b"),
        (answer("ab", ["a", {"type": "text", "text": "b"}]), ["a", {"type": "text", "text": "b"}]),
        (answer("", [{"type": "tool_use", "id": "1"}], "1"), [{"type": "tool_use", "id": "1"}]),
        (answer("", [{"type": "tool_use", "id": "1"}]), ""),
        (answer("", [{"type": "function_call", "id": "x", "call_id": "1"}], "1"), None),
    ],
)
def test_saved_content_is_sent_while_the_message_is_unchanged(message: Message, content: Any) -> None:
    expected = content if content is not None else [{"type": "function_call", "id": "x", "call_id": "1"}]
    converted = convert_message(message)
    assert converted.content == expected
    is_unchanged = message.metadata and message.metadata["provider"]["langchain"]["content"] == expected
    assert (converted.additional_kwargs == {"sign": "s"}) is is_unchanged


@pytest.mark.parametrize("provider", [{"name": "openai", "parts": []}, "text", None, {"langchain": "text"}])
def test_content_saved_by_another_adapter_is_ignored(provider: Any) -> None:
    assert convert_message(Message("a", role="assistant", metadata={"provider": provider})) == AIMessage("a")


def test_extra_settings_are_merged_with_the_others() -> None:
    assert request_settings(ModelRequest((), top_p=0.0, extra={"effort": "low"})) == {"top_p": 0.0, "effort": "low"}


def test_automatic_tool_choice_needs_no_option() -> None:
    assert tool_options(ModelRequest(())) == {}
    assert tool_options(ModelRequest((), parallel_tool_calls=True)) == {"parallel_tool_calls": True}


def test_strict_is_passed_on_only_if_set() -> None:
    assert function_schema(ToolSpec("look", "Looks.", {})) == {
        "type": "function",
        "function": {"name": "look", "description": "Looks.", "parameters": {}},
    }


def test_a_schema_gets_the_title_and_description_that_langchain_requires() -> None:
    form = OutputForm({"type": "object", "title": "Other", "description": "A number."}, name="number")
    assert titled_schema(form) == {"type": "object", "title": "number", "description": "A number."}
    assert titled_schema(OutputForm({"type": "object"}))["description"] == "The answer."
    assert '{"type": "object"}' in output_instruction(OutputForm({"type": "object"}))
