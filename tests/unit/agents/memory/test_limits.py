"""The recent part of a conversation within limits."""

from typing import Any

import pytest

from statewright.agents.memory.conversation import Limits, check_positive, read_conversation, recent_start
from statewright.errors import InvalidConfig


@pytest.mark.parametrize(
    ("words", "messages", "start"),
    [
        ("u1 a1 u2 a2", 4, 0),
        ("u1 a1 u2 a2", 3, 2),
        ("u1 a1 u2 a2 u3 a3", 4, 2),
        ("u1 c1 r1 c2 r2 c3 r3", 5, 2),
        ("u1 c1 r1 c2 r2 c3 r3", 1, 3),
        ("a1 a2 a3", 2, 1),
        ("", 5, 0),
    ],
)
def test_the_recent_part_has_whole_turns_or_the_last_units(
    conversation_of: Any, words: str, messages: int, start: int
) -> None:
    assert recent_start(read_conversation(conversation_of(words)), Limits(messages=messages)) == start


def test_tokens_of_system_messages_count(conversation_of: Any) -> None:
    conversation = read_conversation(conversation_of("s1 u1 a1 u2 a2"))
    assert recent_start(conversation, Limits(tokens=5)) == 0
    assert recent_start(conversation, Limits(tokens=4)) == 2


def test_allow_checks_messages_and_tokens(conversation_of: Any) -> None:
    assert Limits(2, 3).allow(conversation_of("u1 a1"), further_tokens=1)
    assert not Limits(2, 3).allow(conversation_of("u1 a1"), further_tokens=2)
    assert not Limits(1).allow(conversation_of("u1 a1"))


def test_half_of_a_limit_is_at_least_one() -> None:
    assert Limits(9, 1).half() == Limits(4.5, 1)
    assert Limits(tokens=8).half() == Limits(tokens=4)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_limits_that_are_not_positive_integers_are_refused(value: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"max_tokens of Buffer is .*positive integer"):
        check_positive("Buffer", max_messages=None, max_tokens=value)
