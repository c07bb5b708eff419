"""Requests as they are sent to LangChain."""

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


def sent(message: Message) -> AIMessage:
    _, found = langchain_messages(ModelRequest((message,)))  # after one of the user
    assert isinstance(found, AIMessage)
    return found


def answer(text: str, content: Any, *calls: str) -> Message:
    """An answer that LangChain gave, with what was kept of it."""
    kept = {"content": content, "additional_kwargs": {"sign": "s"}, "response_metadata": {}}
    made = tuple(ToolCall(one, "look") for one in calls)
    return Message(text, role="assistant", tool_calls=made, metadata={"provider": {"langchain": kept}})


def test_an_instruction_stands_behind_the_system_text() -> None:
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
def test_what_was_kept_is_sent_while_it_tells_the_same(message: Message, content: Any) -> None:
    expected = content if content is not None else [{"type": "function_call", "id": "x", "call_id": "1"}]
    found = sent(message)
    assert found.content == expected
    kept = message.metadata and message.metadata["provider"]["langchain"]["content"] == expected
    assert (found.additional_kwargs == {"sign": "s"}) is kept


@pytest.mark.parametrize("provider", [{"name": "openai", "parts": []}, "text", None, {"langchain": "text"}])
def test_what_another_adapter_kept_is_left_alone(provider: Any) -> None:
    assert sent(Message("a", role="assistant", metadata={"provider": provider})) == AIMessage("a")


def test_extra_settings_stand_beside_the_others() -> None:
    assert request_settings(ModelRequest((), top_p=0.0, extra={"effort": "low"})) == {"top_p": 0.0, "effort": "low"}


def test_auto_is_said_by_saying_nothing() -> None:
    assert tool_options(ModelRequest(())) == {}
    assert tool_options(ModelRequest((), parallel_tool_calls=True)) == {"parallel_tool_calls": True}


def test_strictness_is_left_to_langchain_unless_it_is_given() -> None:
    assert function_schema(ToolSpec("look", "Looks.", {})) == {
        "type": "function",
        "function": {"name": "look", "description": "Looks.", "parameters": {}},
    }


def test_a_form_has_the_name_and_a_description_that_langchain_needs() -> None:
    form = OutputForm({"type": "object", "title": "Other", "description": "A number."}, name="number")
    assert titled_schema(form) == {"type": "object", "title": "number", "description": "A number."}
    assert titled_schema(OutputForm({"type": "object"}))["description"] == "The answer."
    assert '{"type": "object"}' in output_instruction(OutputForm({"type": "object"}))
