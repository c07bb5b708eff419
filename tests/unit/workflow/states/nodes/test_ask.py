"""Models asked by custom nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes.resources import ask_model


def test_a_question_carries_the_settings_of_the_node_and_is_paid_for(call_with: Callable[..., Call]) -> None:
    model, call = ScriptedModel(["answer", "answer"]), call_with()
    node = CustomNode("n", "k", model="big", system_prompt="Be brief.")
    assert asyncio.run(ask_model(model, node, call, [Message("question")], instructions="usual")) == "answer"
    asyncio.run(ask_model(model, CustomNode("n", "k"), call, [Message("question")], instructions="usual"))
    first, second = model.requests
    assert (first.model, first.system, first.metadata["state"], first.metadata["call"]) == (
        "big",
        "Be brief.",
        "own",
        call,
    )
    assert (second.model, second.system) == (None, "usual")
    assert call.runtime.tokens > 0  # pyright: ignore
