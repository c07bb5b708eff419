"""Buffers with limits of messages and tokens."""

from typing import Any

import pytest

from statewright.agents.memory import Buffer
from statewright.errors import InvalidConfig
from statewright.models import ScriptedModel


def test_turns_over_the_limit_are_omitted(conversation_of: Any, selected_words: Any) -> None:
    assert selected_words(Buffer(max_messages=4), conversation_of("s1 u1 a1 u2 a2 u3")) == "s1 u2 a2 u3"
    assert selected_words(Buffer(max_tokens=3), conversation_of("s1 u1 a1 u2 a2 u3")) == "s1 u3"
    assert selected_words(Buffer(max_messages=9, max_tokens=4), conversation_of("s1 u1 a1 u2 a2 u3")) == "s1 u2 a2 u3"


def test_a_full_buffer_summarizes_its_older_half(conversation_of: Any, selected_words: Any) -> None:
    model = ScriptedModel(["one and two", "one to four"])
    buffer = Buffer(max_messages=4, summarize=model)
    assert selected_words(buffer, conversation_of("s1 u1 a1 u2 a2")) == "s1 u1 a1 u2 a2"
    assert (
        selected_words(buffer, conversation_of("s1 u1 a1 u2 a2 u3"))
        == "s1 Summary of the conversation up to here:\none and two u3"
    )
    selection = selected_words(buffer, conversation_of("s1 u1 a1 u2 a2 u3 a3 u4"))
    assert selection == "s1 Summary of the conversation up to here:\none and two u3 a3 u4"
    assert len(model.requests) == 1
    selected_words(buffer, conversation_of("s1 u1 a1 u2 a2 u3 a3 u4 a4"))
    assert len(model.requests) == 2
    request = model.requests[1].messages[0].text
    assert request == "Summary of what came before:\none and two\n\nConversation:\nuser: u3\nassistant: a3"


def test_a_buffer_needs_a_limit() -> None:
    with pytest.raises(InvalidConfig, match="KeepAll"):
        Buffer()
    with pytest.raises(InvalidConfig, match="max_tokens of Buffer is 0"):
        Buffer(max_tokens=0)
