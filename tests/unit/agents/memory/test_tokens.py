"""Estimates of tokens."""

from statewright.agents.memory import estimate_tokens
from statewright.messages import Message, ToolCall


def test_four_characters_are_one_token() -> None:
    assert estimate_tokens(Message("12345")) == 2
    assert estimate_tokens([Message("1234"), Message("")]) == 1


def test_tool_calls_count_with_their_arguments() -> None:
    assert estimate_tokens(Message("", role="assistant", tool_calls=(ToolCall("1", "look", {"a": 1}),))) == 3


def test_other_content_counts_as_a_fixed_number_of_tokens() -> None:
    assert estimate_tokens(Message([{"type": "text", "text": "1234"}, {"type": "image", "data": "x" * 99}])) == 1001
