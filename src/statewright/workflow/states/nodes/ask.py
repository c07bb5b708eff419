"""Models asked by custom nodes."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.model import CustomNode
from statewright.workflow.states.performers import Call


async def ask(model: ChatModel, definition: CustomNode, call: Call, messages: Sequence[Message], *, usual: str) -> str:
    """The answer of a model to messages; `usual` are the instructions of a node that has none of its own.

    What was used up counts against the budget of the run. Raises ModelError.
    """
    request = ModelRequest(
        messages=tuple(messages),
        system=definition.system_prompt or usual,
        model=definition.model,
        metadata={"state": call.state.id, "call": call},
    )
    response = await model.complete(request)
    call.runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
    return response.text
