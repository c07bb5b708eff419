"""A summary, and the last messages."""

from typing import Any

import pytest

from statewright.agents.memory import Summarizing
from statewright.errors import InvalidConfig
from statewright.models import ScriptedModel

LEAD = "Summary of the conversation up to here:\n"


def long_talk(conversation_of: Any, turns: int) -> Any:
    return conversation_of("s1 " + " ".join(f"u{n} a{n}" for n in range(turns)))


def test_a_short_conversation_is_not_summarized(conversation_of: Any, selected_words: Any) -> None:
    assert (
        selected_words(Summarizing(ScriptedModel([]), keep=2, after=4), long_talk(conversation_of, 2))
        == "s1 u0 a0 u1 a1"
    )


def test_all_but_the_last_messages_are_summarized(conversation_of: Any, selected_words: Any) -> None:
    model = ScriptedModel(["S"])
    assert selected_words(Summarizing(model, keep=2, after=4), long_talk(conversation_of, 4)) == f"s1 {LEAD}S u3 a3"
    assert model.requests[0].messages[0].text == (
        "Conversation:\nuser: u0\nassistant: a0\nuser: u1\nassistant: a1\nuser: u2\nassistant: a2"
    )


def test_a_summary_is_used_until_the_conversation_is_long_again(conversation_of: Any, selected_words: Any) -> None:
    model = ScriptedModel(lambda request: f"S{len(model.requests)}")
    memory = Summarizing(model, keep=2, after=6)
    counts = []
    for turns in range(1, 20):
        selected_words(memory, long_talk(conversation_of, turns))
        counts.append(len(model.requests))
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6]


def test_a_forked_conversation_uses_the_summary_of_its_beginning(conversation_of: Any, selected_words: Any) -> None:
    model = ScriptedModel(["S", "T"])
    memory = Summarizing(model, keep=2, after=4)
    selected_words(memory, conversation_of("u0 a0 u1 a1 u2 a2"))
    assert selected_words(memory, conversation_of("u0 a0 u1 a1 u8 a8")) == f"{LEAD}S u8 a8"
    assert len(model.requests) == 1


def test_keep_cannot_exceed_after() -> None:
    with pytest.raises(InvalidConfig, match=r"keep=5, after=4"):
        Summarizing(ScriptedModel([]), keep=5, after=4)
