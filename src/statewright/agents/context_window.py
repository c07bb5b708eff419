"""Select the messages to send to the model, using the agent's memory strategy."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from statewright.agents.asking import describe_call
from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ModelResponse, Usage

MEMORY_NOTES: Final = "memory_notes"
"""The field of a state that keeps what the memory strategies of its agents have noted."""


def merge_notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes of all agents, with the new ones in the place of older ones of the same agents."""
    return {**old, **new}


MemoryNotes = Annotated[dict[str, Any], merge_notes]
"""Notes by the names of the agents: agents that share a conversation may have a strategy each."""


@dataclass(slots=True)
class ContextWindow:
    """The messages to send, and the cost of selecting them."""

    messages: Sequence[Message]
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The strategy's notes on the conversation, to be saved with the thread."""
    usage: Usage = field(default_factory=Usage)
    """Used by models that the strategy asked, for summaries say."""
    requests: int = 0
    """The number of calls of these models."""


async def select_messages(
    memory: MemoryStrategy | None,
    messages: Sequence[Message],
    runtime: Runtime[Any],
    *,
    notes: Mapping[str, Any] | None = None,
    agent: str | None = None,
) -> ContextWindow:
    """Return the messages that a strategy selects, all of them without one.

    `notes` are those saved with the thread. Calls of models by the strategy are counted against the budget of the run
    and logged under the name of the agent.
    """
    if memory is None:
        return ContextWindow(messages)
    own_notes: MutableMapping[str, Any] = dict(notes or {})
    window = ContextWindow(messages, own_notes)

    def count(response: ModelResponse) -> None:
        window.usage, window.requests = window.usage + response.usage, window.requests + 1
        runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
        if runtime.is_recorded:
            runtime.record("model_called", {"purpose": "memory", **describe_call(response, agent=agent)})

    query = next((message.text for message in reversed(messages) if message.role == "user"), "")
    context = MemoryContext(
        query=query,
        thread_id=runtime.execution_info.thread_id,
        store=runtime.store,
        on_response=count,
        notes=own_notes,
    )
    window.messages = await memory.select(messages, context=context)
    return window
