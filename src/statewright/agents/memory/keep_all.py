"""All of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.conversation import read_conversation
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.messages import Message


class KeepAll:
    """Sends every message, but for calls without results and results without calls."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(0)]
