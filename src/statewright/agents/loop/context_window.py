"""Select the messages to send to the model, using the agent's memory strategy."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from statewright.agents.loop.model_call import describe_call, keep_answer
from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.agents.state.usage_limits import Allowance
from statewright.fingerprint import fingerprint
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse, Usage, named

MEMORY_NOTES: Final = "memory_notes"
"""The field of a state with the notes of its agents' memory strategies."""


def merge_notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes of all agents, where new notes replace those of the same agents."""
    return {**old, **new}


MemoryNotes = Annotated[dict[str, Any], merge_notes]
"""Notes by agent name: agents that share a conversation may have different strategies."""


@dataclass(slots=True)
class ContextWindow:
    """The messages to send, and the cost of selecting them."""

    messages: Sequence[Message]
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The strategy's notes on the conversation, to be saved with the thread."""
    usage: Usage = field(default_factory=Usage)
    """Usage of model calls by the strategy, for summaries for example."""
    requests: int = 0
    """The number of these model calls."""


class _LimitReached(Exception):
    """A usage limit allows no further model call by a strategy."""


async def select_messages(
    memory: MemoryStrategy | None,
    messages: Sequence[Message],
    runtime: Runtime[Any],
    *,
    notes: Mapping[str, Any] | None = None,
    agent: str | None = None,
    allowance: Allowance | None = None,
) -> ContextWindow:
    """Return the messages that a strategy selects, or all of them without a strategy.

    `notes` are those saved with the thread. Model calls of the strategy are counted against the budget of the run and
    the allowance, and logged under the name of the agent. If the allowance is used up, such a call is not made, and
    all messages are returned.
    """
    if memory is None:
        return ContextWindow(messages)
    own_notes: MutableMapping[str, Any] = dict(notes or {})
    window = ContextWindow(messages, own_notes)

    def spend(response: ModelResponse) -> None:
        runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
        if runtime.is_recorded:
            runtime.record("model_called", {"purpose": "memory", **describe_call(response, agent=agent)})

    def count(response: ModelResponse) -> None:
        window.usage, window.requests = window.usage + response.usage, window.requests + 1

    async def complete(model: ChatModel, request: ModelRequest) -> ModelResponse:
        response = await model.complete(request)
        spend(response)
        return response

    async def ask(model: ChatModel, request: ModelRequest) -> ModelResponse:
        if allowance is not None and allowance.is_used_up:
            raise _LimitReached
        digest = fingerprint([request.system, *((message.role, message.content) for message in request.messages)])
        response = await keep_answer(runtime, f"the memory's model to {digest}", partial(complete, model, request))
        count(response)
        if allowance is not None:
            allowance.count(response, named(model, request))
        return response

    def count_unsaved(response: ModelResponse) -> None:
        spend(response)
        count(response)

    query = next((message.text for message in reversed(messages) if message.role == "user"), "")
    context = MemoryContext(
        query=query,
        thread_id=runtime.execution_info.thread_id,
        store=runtime.store,
        task_id=runtime.idempotency_key,
        on_response=count_unsaved,
        ask=ask,
        notes=own_notes,
    )
    with suppress(_LimitReached):
        window.messages = await memory.select(messages, context=context)
    return window
