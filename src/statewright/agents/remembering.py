"""What of a conversation a model is shown, where its agent has a memory strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ModelResponse


async def remembered(
    memory: MemoryStrategy | None, messages: Sequence[Message], runtime: Runtime[Any]
) -> Sequence[Message]:
    """The messages that a strategy selects, all if there is none; what its own model uses up is counted."""
    if memory is None:
        return messages

    def spent(response: ModelResponse) -> None:
        runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)

    query = next((message.text for message in reversed(messages) if message.role == "user"), "")
    thread_id = runtime.execution_info.thread_id
    context = MemoryContext(query=query, thread_id=thread_id, store=runtime.store, on_response=spent)
    return await memory.select(messages, context=context)
