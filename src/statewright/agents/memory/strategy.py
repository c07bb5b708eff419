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
    """The context of a selection. Every field is optional."""

    query: str | None = None
    """The current question; by default the last message of the user."""
    thread_id: str | None = None
    task_id: str | None = None
    """The id of the task that sends the messages, stable across its executions."""
    store: Store | None = None
    """The store of the run, for strategies without one of their own."""
    on_response: Callable[[ModelResponse], object] | None = None
    """Called with each response to a request of the strategy itself, to count its cost."""
    ask: Callable[[ChatModel, ModelRequest], Awaitable[ModelResponse]] | None = None
    """Calls a model within a run; see `complete`."""
    notes: MutableMapping[str, Any] | None = None
    """Notes on the conversation that the strategy may read and change, as plain JSON. They are saved with the thread,
    so a summary is made once, in whatever process, and a fork has that of its own past."""

    async def complete(self, model: ChatModel, request: ModelRequest) -> ModelResponse:
        """Call a model on behalf of the strategy, and count its cost.

        Within a run its limits are checked first, and the answer is saved: if the selection is repeated,
        the same request is not paid again. Raises the errors of the model.
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
    """Selects the part of a conversation to send to a model."""

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> Sequence[Message]:
        """Return the messages to send, in order. Must not change them; may prepend a message of its own.

        Raises the errors of the models and stores that it uses.
        """
        ...
