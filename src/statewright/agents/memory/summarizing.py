"""A summary of what was said before, and the last messages as they were."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.conversation import Conversation, read_conversation
from statewright.agents.memory.folding import SummarizingWindow
from statewright.agents.memory.limits import Limits, check_at_least, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.agents.memory.summaries import is_summary
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel


class Summarizing:
    """Sends a summary of the older turns, and the newer ones as they are.

    As soon as more than `after` messages are not in the summary, all but about the last `keep` of them are added to it
    by the model. `instructions` say what a summary is to be like. Where the model gives none, because it refuses or is
    cut off, all that is not in a summary is sent as it is, and it is asked again in the next turn.
    """

    def __init__(self, model: ChatModel, *, keep: int = 10, after: int = 30, instructions: str | None = None) -> None:
        check_at_least(1, "Summarizing", keep=keep, after=after)
        if keep > after:
            raise InvalidConfig(f"Summarizing(keep={keep}, after={after}): keep is more than after. Keep fewer.")
        self._keep = Limits(messages=keep)
        self._after = Limits(messages=after)
        self._folding = SummarizingWindow(model, instructions)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        # The summary itself is one message, and is not counted.
        return await self._folding.select(
            read_conversation(messages),
            fits=lambda shown: self._after.hold([message for message in shown if not is_summary(message)]),
            start=self._start,
            context=context,
        )

    def _start(self, conversation: Conversation) -> int:
        return recent_start(conversation, self._keep)
