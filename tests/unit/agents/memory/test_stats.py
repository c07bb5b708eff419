"""Sizes of conversations and selections."""

from statewright.agents.memory import MemoryStats, memory_stats
from statewright.messages import Message


def test_stats_contain_the_sizes_before_and_after() -> None:
    messages = [Message("12345678"), Message("1234")]
    assert memory_stats(messages, messages[1:]) == MemoryStats(2, 3, 1, 1)
