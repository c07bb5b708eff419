"""The port of memory strategies.

A strategy selects the messages to send to a model. It does not change the state, which keeps all messages. The
selection must be acceptable to every provider: all tool calls are followed by their results, and a call without a
result, or a result without a call, is left out. The leading system messages and the last user message are always sent.
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
    """The context in which messages are selected. All fields are optional."""

    query: str | None = None
    """The current question; None to use the last user message."""
    thread_id: str | None = None
    task_id: str | None = None
    """The id of the task that sends the messages. It is the same in all executions of the task."""
    store: Store | None = None
    """The store of the run, for strategies that have no store of their own."""
    on_response: Callable[[ModelResponse], object] | None = None
    """Called with the response to each model call of the strategy, to count its cost."""
    ask: Callable[[ChatModel, ModelRequest], Awaitable[ModelResponse]] | None = None
    """Calls a model as part of a run; None outside of a run. Use `complete` instead, which calls it."""
    notes: MutableMapping[str, Any] | None = None
    """Notes on the conversation, as plain JSON, which the strategy may read and change. They are saved with the thread,
    so that a run in another process finds an earlier summary there, and a fork has the summary of its own history."""

    async def complete(self, model: ChatModel, request: ModelRequest) -> ModelResponse:
        """Call a model on behalf of the strategy, and count its cost.

        In a run, the usage limits of the run are checked first, and the answer is recorded in the journal of the task,
        so that another execution of the task does not pay for the same request again. Raises the errors of the model.
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
        """Return the messages to send, in order. A new message may be added in front; no message may be changed.

        Raises the errors of the models and stores that it uses.
        """
        ...
