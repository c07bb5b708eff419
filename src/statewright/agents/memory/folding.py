"""Older units folded into a summary, newer ones shown as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statewright.agents.memory.conversation import Conversation
from statewright.agents.memory.strategy import MemoryContext
from statewright.agents.memory.summaries import Summaries, Summary
from statewright.messages import Message
from statewright.models import ChatModel


class Folding:
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
    ) -> list[Message]:
        """What is sent. `fits` says whether that is little enough; if not, units before `start` are folded."""
        first = start(conversation)
        longest = self._summaries.longest(conversation.units[:first], context)
        shown = _shown(conversation, longest)
        if longest.units < first and not fits(shown):
            summary = await self._summaries.summary(conversation.units[:first], context)
            shown = _shown(conversation, summary)
        return [*conversation.head, *shown]


def _shown(conversation: Conversation, summary: Summary) -> list[Message]:
    told = [summary.to_message()] if summary.units else []
    return [*told, *conversation.since(summary.units)]
