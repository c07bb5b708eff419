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
    """Sends every message, except calls without results and results without calls."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(0)]


class SlidingWindow:
    """Sends the last turns with at most `messages` messages in total.

    Of a longer turn the first message and the last ones are sent. Leading system messages are not counted. More is sent
    only if the last tool calls have more results than that.
    """

    def __init__(self, messages: int = 20) -> None:
        check_at_least(1, "SlidingWindow", messages=messages)
        self._limits = Limits(messages=messages)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]


class Buffer:
    """Sends the last turns with at most `max_messages` messages and `max_tokens` estimated tokens.

    Leading system messages count as tokens, but not as messages. Older turns are left out, or summarized by the model
    `summarize`: whenever the buffer is full, its older half is added to the summary, so the model is not called every
    turn. If the model gives no summary, older turns are left out.
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
