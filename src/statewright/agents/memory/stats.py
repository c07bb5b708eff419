"""How much of a conversation a strategy has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statewright.agents.memory.tokens import estimate_tokens
from statewright.messages import Message


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Sizes of a conversation, and of what is sent of it. Tokens are estimated."""

    messages: int
    tokens: int
    sent_messages: int
    sent_tokens: int


def memory_stats(messages: Sequence[Message], selected: Sequence[Message]) -> MemoryStats:
    """The sizes of a conversation and of what was selected from it."""
    return MemoryStats(len(messages), estimate_tokens(messages), len(selected), estimate_tokens(selected))
