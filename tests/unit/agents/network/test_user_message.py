"""Conversion of input to user messages."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents import Agent
from statewright.agents.network.state import as_user_message
from statewright.errors import InvalidConfig, InvalidUpdateError
from statewright.messages import Message, RemoveMessage
from statewright.models import ScriptedModel
from statewright.models.conversation.prepare import YOUR_TURN


@pytest.mark.parametrize(
    "value",
    [
        "hi",
        Message("hi"),
        {"content": "hi"},
        {"role": "user", "content": "hi"},
        {"role": "human", "content": "hi"},
        ("user", "hi"),
        {"content": [{"type": "text", "text": "hi"}]},
    ],
)
def test_a_user_message_can_have_many_forms(value: Any) -> None:
    message = as_user_message(value)
    assert (message.role, message.text) == ("user", "hi")


def test_the_fields_of_a_web_page_are_stored() -> None:
    sent = {
        "id": "u1",
        "content": "hi",
        "systemPrompt": "Be brief.",
        "clientTimestamp": "2026-01-01T00:00:00Z",
        "state": {"tab": 3},
        "metadata": {"own": 1},
    }
    message = as_user_message(sent)
    assert message.id == "u1"
    assert message.metadata == {
        "own": 1,
        "system_prompt": "Be brief.",
        "client_timestamp": "2026-01-01T00:00:00Z",
        "client_state": {"tab": 3},
    }
    assert set(sent) == {"id", "content", "systemPrompt", "clientTimestamp", "state", "metadata"}


def test_the_system_prompt_of_a_message_follows_that_of_the_agent() -> None:
    model = ScriptedModel(["x"])
    Agent("a", model=model, system="Help.").run({"content": "hi", "systemPrompt": "Be brief."})
    assert model.requests[0].system == "Help.\n\nBe brief."


def test_without_content_the_model_receives_only_the_system_prompt() -> None:
    model = ScriptedModel(["x"])
    Agent("a", model=model, system="Help.").run("")
    assert (model.requests[0].system, list(model.requests[0].messages)) == ("Help.", [Message(YOUR_TURN)])


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        b"hi",
        ["hi"],
        {},
        {"role": "user"},
        {"role": "assistant", "content": "hi"},
        Message("hi", role="system"),
        ("assistant", "hi"),
        {"role": "boss", "content": "hi"},
        RemoveMessage("1"),
        {"role": "remove", "id": "1"},
    ],
)
def test_other_inputs_are_refused(value: Any) -> None:
    with pytest.raises((InvalidConfig, InvalidUpdateError)):
        as_user_message(value)


def test_a_system_prompt_that_is_not_text_is_refused() -> None:
    with pytest.raises((InvalidConfig, InvalidUpdateError)):
        as_user_message({"content": "hi", "systemPrompt": 3})


def test_the_message_of_the_caller_is_not_changed() -> None:
    message = Message("hi", metadata={"own": 1})
    as_user_message(message)
    assert message == Message("hi", metadata={"own": 1})
