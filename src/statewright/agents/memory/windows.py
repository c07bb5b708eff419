"""Memory strategies that send the end of a conversation, within limits on messages or tokens, and possibly with a
summary of the older turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from statewright.agents.memory.conversation import (
    Conversation,
    Limits,
    check_positive,
    estimate_tokens,
    read_conversation,
    recent_start,
)
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.summaries import Summaries, Summary, is_summary
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel


class SummarizingWindow:
    """Selects a summary and the units after it. If these do not fit, more units are added to the summary.

    The model is called only to extend the summary; otherwise the existing summary is reused.
    """

    def __init__(self, model: ChatModel, instructions: str | None = None) -> None:
        self._summaries = Summaries(model, instructions)

    async def select(
        self,
        conversation: Conversation,
        *,
        fits: Callable[[Sequence[Message]], bool],
        start: Callable[[Conversation], int],
        context: MemoryContext,
        fallback_start: Callable[[Sequence[Message]], int] | None = None,
    ) -> list[Message]:
        """Return the messages to send.

        If the existing summary and the units after it do not satisfy `fits`, the units before the index that `start`
        returns are summarized. If the model gives no summary, they are sent unchanged; but with `fallback_start`, the
        units before the index that it returns are left out. `fallback_start` is called with the messages that show the
        existing summary: one message, or none.
        """
        first, units = start(conversation), conversation.units
        summary = self._summaries.find_longest(units[:first], context)
        if summary.unit_count < first and not fits(_with_summary(conversation, summary)):
            turn = units[: (conversation.last_user_unit or 0) + 1]
            if not self._summaries.has_failed(turn, context):
                summary = await self._summaries.summarize(units[:first], context)
                if summary.unit_count < first:
                    self._summaries.record_failure(turn, context)
        selected = _with_summary(conversation, summary)
        if fallback_start is not None and summary.unit_count < first and not fits(selected):
            selected = _with_summary(conversation, summary, fallback_start(_summary_messages(summary)))
        return [*conversation.head, *selected]


def _with_summary(conversation: Conversation, summary: Summary, start: int = 0) -> list[Message]:
    """Return the messages of a summary and of the units after it, without units before the index `start`."""
    return [*_summary_messages(summary), *conversation.since(max(summary.unit_count, start))]


def _summary_messages(summary: Summary) -> list[Message]:
    return [summary.to_message()] if summary.unit_count else []


class Summarizing:
    """Sends a summary of the older turns, and the newer turns unchanged.

    When more than `after` messages are not in the summary yet, the model adds them to the summary, except about the
    last `keep` messages. `instructions` tell the model what to summarize. If the model gives no summary, because it
    refuses or its answer is cut off, all messages that are not in the summary yet are sent unchanged, and a summary is
    requested again in the next turn.
    """

    def __init__(self, model: ChatModel, *, keep: int = 10, after: int = 30, instructions: str | None = None) -> None:
        check_positive("Summarizing", keep=keep, after=after)
        if keep > after:
            raise InvalidConfig(f"Summarizing(keep={keep}, after={after}): keep must not be greater than after.")
        self._keep = Limits(messages=keep)
        self._after = Limits(messages=after)
        self._window = SummarizingWindow(model, instructions)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        # The summary is sent as a message too, but does not count towards `after`.
        return await self._window.select(
            read_conversation(messages),
            fits=lambda selected: self._after.allow([message for message in selected if not is_summary(message)]),
            start=partial(recent_start, limits=self._keep),
            context=context,
        )


# -- windows


class KeepAll:
    """Sends all messages, except tool calls without results and results without calls."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(0)]


class SlidingWindow:
    """Sends as many of the last turns as have at most `messages` messages in total.

    Leading system messages are sent too, and not counted. If the last turn alone is longer, its first message and its
    last messages are sent. The limit is exceeded only if the last tool calls have more results than it allows, since
    these are always sent.
    """

    def __init__(self, messages: int = 20) -> None:
        check_positive("SlidingWindow", messages=messages)
        self._limits = Limits(messages=messages)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]


class Buffer:
    """Sends as many of the last turns as have at most `max_messages` messages and `max_tokens` estimated tokens.

    Leading system messages are sent too; they count towards `max_tokens`, but not towards `max_messages`. Without
    `summarize`, older turns are left out. With it, this model summarizes them: whenever a limit is exceeded, the older
    half of the messages is added to the summary, so that the model need not be called in every turn. If the model gives
    no summary, the older turns are left out.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_tokens: int | None = None,
        *,
        summarize: ChatModel | None = None,
    ) -> None:
        check_positive("Buffer", max_messages=max_messages, max_tokens=max_tokens)
        if max_messages is None and max_tokens is None:
            raise InvalidConfig("Buffer() has no limit. Pass max_messages, max_tokens, or both; or use KeepAll.")
        self._limits = Limits(max_messages or inf, max_tokens or inf)
        self._summaries = None if summarize is None else SummarizingWindow(summarize)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        if self._summaries is None:
            return [*conversation.head, *conversation.since(recent_start(conversation, self._limits))]
        head_tokens = estimate_tokens(conversation.head)
        return await self._summaries.select(
            conversation,
            fits=lambda selected: self._limits.allow(selected, head_tokens),
            start=partial(recent_start, limits=self._limits.half()),
            context=context,
            fallback_start=lambda summary: recent_start(conversation, self._limits.without(summary)),
        )
