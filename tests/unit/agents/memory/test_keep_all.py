"""The strategy that sends the complete conversation."""

from typing import Any

from statewright.agents.memory import KeepAll


def test_all_messages_are_sent_except_unmatched_calls_and_results(conversation_of: Any, selected_words: Any) -> None:
    assert selected_words(KeepAll(), conversation_of("s1 u1 c1 r1 r8 a1 c2")) == "s1 u1 c1 r1 a1"
