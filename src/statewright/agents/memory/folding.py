"""Older units folded into a summary, newer ones shown as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statewright.agents.memory.conversation import Conversation
from statewright.agents.memory.strategy import MemoryContext
from statewright.agents.memory.summaries import Summaries, Summary
from statewright.messages import Message
from statewright.models import ChatModel


class SummarizingWindow:
    """Shows a summary and what came after it, and folds more into the summary when that is too much.

    While it fits, the summary that is there is used again: the model is asked only when there is something to fold.
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
        window: Callable[[Conversation, Sequence[Message]], int] | None = None,
    ) -> list[Message]:
        """What is sent. `fits` says whether that is little enough; if not, units before `start` are folded.

        If the model gives no summary, the units that it would be of are sent as they are. `window` says from which unit
        on, where not all of them may be sent, behind messages that are told of earlier ones.
        """
        first, units = start(conversation), conversation.units
        summary = self._summaries.longest(units[:first], context)
        if summary.units < first and not fits(_shown(conversation, summary)):
            turn = units[: (conversation.anchor or 0) + 1]
            if not self._summaries.has_failed(turn, context):
                summary = await self._summaries.summary(units[:first], context)
                if summary.units < first:
                    self._summaries.note_failed(turn, context)
        shown = _shown(conversation, summary)
        if window is not None and summary.units < first and not fits(shown):
            shown = _shown(conversation, summary, window(conversation, _told(summary)))
        return [*conversation.head, *shown]


def _shown(conversation: Conversation, summary: Summary, start: int = 0) -> list[Message]:
    return [*_told(summary), *conversation.since(max(summary.units, start))]


def _told(summary: Summary) -> list[Message]:
    return [summary.to_message()] if summary.units else []
