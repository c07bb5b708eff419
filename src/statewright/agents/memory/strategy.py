"""The port of memory strategies.

A strategy selects the messages to send; the state keeps every message, and adding and removing messages is the state's
business. Every selection can be sent to a provider: a tool result follows its call, and a call precedes all of its
results. Unmatched calls and results of a broken conversation are left out. The leading system messages and the last
message of the user are always sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse
from statewright.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryContext:
    """For whom messages are chosen. All of it may be left out."""

    query: str | None = None
    """What the conversation is about now; the last message of the user if not given."""
    thread_id: str | None = None
    task_id: str | None = None
    """The task that sends the messages; it has the same id when it is executed again."""
    store: Store | None = None
    """The store of the run, for strategies that were given none of their own."""
    on_response: Callable[[ModelResponse], object] | None = None
    """Called with each response of a model that the strategy asks itself, to count its cost."""
    ask: Callable[[ChatModel, ModelRequest], Awaitable[ModelResponse]] | None = None
    """How a model is asked within a run: see `complete`."""
    notes: MutableMapping[str, Any] | None = None
    """Notes on the conversation that the strategy may read and change, as plain JSON. They are saved with the thread,
    so a summary is made once, whichever process goes on, and a fork has that of its own past."""

    async def complete(self, model: ChatModel, request: ModelRequest) -> ModelResponse:
        """Ask a model on behalf of the strategy. Its cost is counted.

        Within a run the limits of that are checked before, and an answer is kept: if the messages have to be chosen
        once more, after a failure say, the same request is not paid again. Raises what the model raises.
        """
        if self.ask is not None:
            return await self.ask(model, request)
        response = await model.complete(request)
        if self.on_response is not None:
            self.on_response(response)
        return response


NO_CONTEXT: Final = MemoryContext()


@runtime_checkable
class MemoryStrategy(Protocol):
    """Chooses what of a conversation a model is shown."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> Sequence[Message]:
        """What is sent of these messages, in their order. Never changes them; may put a message of its own before.

        Raises what a model or a store raises that it asks.
        """
        ...
