"""As much of the conversation as a buffer holds."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.conversation import Conversation, read_conversation
from statewright.agents.memory.folding import SummarizingWindow
from statewright.agents.memory.limits import Limits, check_at_least, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.tokens import estimate_tokens
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel


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
        self._folding = None if summarize is None else SummarizingWindow(summarize)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        if self._folding is None:
            return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]
        head_tokens = estimate_tokens(conversation.head)
        return await self._folding.select(
            conversation,
            fits=lambda shown: self._limits.hold(shown, head_tokens),
            start=self._half,
            context=context,
            window=self._window,
        )

    def _half(self, conversation: Conversation) -> int:
        return recent_start(conversation, self._limits.halved())

    def _window(self, conversation: Conversation, told: Sequence[Message]) -> int:
        return recent_start(conversation, self._limits.without(told))
