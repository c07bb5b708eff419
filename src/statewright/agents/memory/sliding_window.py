"""The last messages of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.conversation import read_conversation
from statewright.agents.memory.limits import Limits, check_at_least, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.messages import Message


class SlidingWindow:
    """Sends the last turns that come to at most `messages` messages together.

    Of a turn that is longer than that its first message and the last ones are sent. The system messages at the start
    are not counted. More is sent only where the last call of tools has more results than that.
    """

    def __init__(self, messages: int = 20) -> None:
        check_at_least(1, "SlidingWindow", messages=messages)
        self._limits = Limits(messages=messages)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]
