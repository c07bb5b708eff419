"""Strategies that select the end of a conversation: all of it, a fixed number of messages, or a token buffer."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.conversation import Conversation, read_conversation
from statewright.agents.memory.limits import Limits, check_at_least, estimate_tokens, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.summarizing import SummarizingWindow
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel


class KeepAll:
    """Sends every message, but for calls without results and results without calls."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(0)]


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


class Buffer:
    """Sends the last turns that come to at most `max_messages` messages and `max_tokens` tokens, as estimated.

    Tokens are counted with the system messages at the start, messages without. Older turns are left out, or, with a
    model to `summarize`, told in a summary: whenever the buffer is full, its older half is added to that, so the model
    is asked once in a while and not at every turn. Where it gives no summary, older turns are left out.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        *,
        summarize: ChatModel | None = None,
    ) -> None:
        check_at_least(1, "Buffer", max_messages=max_messages, max_tokens=max_tokens)
        if max_messages is None and max_tokens is None:
            raise InvalidConfig("Buffer() has no limit. Give max_messages, max_tokens, or both; or use KeepAll.")
        self._limits = Limits(max_messages, max_tokens)
        self._summaries = None if summarize is None else SummarizingWindow(summarize)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        if self._summaries is None:
            return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]
        head_tokens = estimate_tokens(conversation.head)
        return await self._summaries.select(
            conversation,
            fits=lambda shown: self._limits.allow(shown, head_tokens),
            start=self._half_start,
            context=context,
            window=self._window_start,
        )

    def _half_start(self, conversation: Conversation) -> int:
        return recent_start(conversation, self._limits.half())

    def _window_start(self, conversation: Conversation, told: Sequence[Message]) -> int:
        return recent_start(conversation, self._limits.without(told))
