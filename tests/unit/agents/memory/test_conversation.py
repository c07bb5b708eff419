"""Conversations split into units and turns."""

from typing import Any

import pytest

from statewright.agents.memory.conversation import read_conversation


def units_as_text(conversation: Any) -> str:
    return " | ".join(" ".join(message.text for message in unit) for unit in conversation.units)


@pytest.mark.parametrize(
    ("words", "units"),
    [
        ("s1 u1 a1", "u1 | a1"),
        ("u1 c1,2 r2 r1 a1", "u1 | c1,2 r2 r1 | a1"),
        ("u1 c1 u2 r1 a1", "u1 | c1 u2 r1 | a1"),
        ("c1 c2 r1 a1 r2 a2", "c1 c2 r1 a1 r2 | a2"),
        ("c1 r1 c1 r1", "c1 r1 | c1 r1"),
        ("u1 r9 a1", "u1 | a1"),
        ("u1 c1,2 r1 u2", "u1 | u2"),
        ("u1 c1", "u1"),
        ("u1 s2 a1", "u1 | s2 | a1"),
        ("", ""),
    ],
)
def test_calls_stay_with_their_results_and_unmatched_ones_are_omitted(
    conversation_of: Any, words: str, units: str
) -> None:
    assert units_as_text(read_conversation(conversation_of(words))) == units


def test_the_head_consists_of_the_first_system_messages(conversation_of: Any) -> None:
    conversation = read_conversation(conversation_of("s1 s2 u1 s3"))
    assert [message.text for message in conversation.head] == ["s1", "s2"]


def test_a_turn_begins_with_a_message_of_the_user(conversation_of: Any) -> None:
    assert read_conversation(conversation_of("a0 u1 a1 c1 r1 u2 u3")).turns() == [
        range(1),
        range(1, 4),
        range(4, 5),
        range(5, 6),
    ]
    assert read_conversation([]).turns() == []


def test_the_last_user_unit_contains_the_last_user_message(conversation_of: Any) -> None:
    assert read_conversation(conversation_of("u1 a1 u2 a2")).last_user_unit == 2
    assert read_conversation(conversation_of("c1 u1 r1 a1")).last_user_unit == 0
    assert read_conversation(conversation_of("a1")).last_user_unit is None
