"""The last messages of a conversation."""

from typing import Any

import pytest

from statewright.agents.memory import SlidingWindow
from statewright.errors import InvalidConfig


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        (1, "s1 u3 c3,4 r3 r4"),
        (6, "s1 u3 c2 r2 c3,4 r3 r4"),
        (7, "s1 u3 c2 r2 c3,4 r3 r4"),
        (8, "s1 u2 a2 u3 c2 r2 c3,4 r3 r4"),
        (10, "s1 u1 a1 u2 a2 u3 c2 r2 c3,4 r3 r4"),
    ],
)
def test_whole_turns_are_sent_or_the_question_and_end_of_a_long_one(
    conversation_of: Any, selected_words: Any, messages: int, sent: str
) -> None:
    assert selected_words(SlidingWindow(messages), conversation_of("s1 u1 a1 u2 a2 u3 c2 r2 c3,4 r3 r4")) == sent


def test_a_window_of_zero_messages_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"messages of SlidingWindow is 0"):
        SlidingWindow(0)
