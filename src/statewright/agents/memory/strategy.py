"""The port of memory strategies.

A strategy selects the messages to send; it does not change the state, which keeps every message. Every selection can be
sent to a provider: each tool call is followed by its results, and calls and results that do not match are left out. The
leading system messages and the last user message are always sent.
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
    """The current question; by default the last user message."""
    thread_id: str | None = None
    task_id: str | None = None
    """The id of the task that sends the messages, the same in each execution of the task."""
    store: Store | None = None
    """The store of the run, for strategies that have no store."""
    on_response: Callable[[ModelResponse], object] | None = None
    """Called with the response to each model call of the strategy, to count its cost."""
    ask: Callable[[ChatModel, ModelRequest], Awaitable[ModelResponse]] | None = None
    """Calls a model within a run; see `complete`."""
    notes: MutableMapping[str, Any] | None = None
    """Notes on the conversation that the strategy may read and change, as plain JSON. They are saved with the thread,
    so a summary is made only once, in any process, and a fork of the thread has the summary of its own history."""

    async def complete(self, model: ChatModel, request: ModelRequest) -> ModelResponse:
        """Call a model on behalf of the strategy, and count its cost.

        In a run, its usage limits are checked first, and the answer is saved, so that a repeated selection does not
        pay for the same request again. Raises the errors of the model.
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
        """Return the messages to send, in order. It may prepend a message, but must not change any.

        Raises the errors of the models and stores that it uses.
        """
        ...
