"""Models asked by custom nodes."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents import ask as ask_model
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest
from statewright.workflow.states.model import CustomNode
from statewright.workflow.states.performers import Call


async def ask(
    model: ChatModel,
    definition: CustomNode,
    call: Call,
    messages: Sequence[Message],
    *,
    usual: str,
    position: int = 0,
) -> str:
    """The answer of a model to messages; `usual` are the instructions of a node that has none of its own.

    `position` tells the questions of one execution from each other. What was used up counts against the budget of the
    run. Raises ModelError.
    """
    request = ModelRequest(
        messages=tuple(messages),
        system=definition.system_prompt or usual,
        model=definition.model,
        metadata={"state": call.state.id, "call": call},
    )
    return (await ask_model(model, request, call.runtime, name=call.state.id, position=position)).text
