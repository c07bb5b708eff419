"""Estimates of tokens."""

from statewright.agents.memory import estimate_tokens
from statewright.messages import Message, ToolCall


def test_four_characters_are_a_token_and_the_rest_counts_as_one() -> None:
    assert estimate_tokens(Message("12345")) == 2
    assert estimate_tokens([Message("1234"), Message("")]) == 1


def test_calls_count_with_their_arguments() -> None:
    assert estimate_tokens(Message("", role="assistant", tool_calls=(ToolCall("1", "look", {"a": 1}),))) == 3


def test_a_part_that_is_no_text_counts_as_much() -> None:
    assert estimate_tokens(Message([{"type": "text", "text": "1234"}, {"type": "image", "data": "x" * 99}])) == 1001
