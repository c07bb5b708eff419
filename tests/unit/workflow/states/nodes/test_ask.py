"""Calls of models by custom nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from statewright.messages import Message
from statewright.models import ScriptedModel
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes import NodeResources
from statewright.workflow.states.nodes.model_nodes import ModelNode


class QuestionNode(ModelNode):
    instructions = "default"


def test_a_request_has_the_settings_of_the_node_and_its_tokens_are_counted(call_with: Callable[..., Call]) -> None:
    model, call = ScriptedModel(["answer", "answer"]), call_with()
    resources = NodeResources(state_id="own", find_model=lambda name: model)
    node = CustomNode("n", "k", model="big", system_prompt="Be brief.")
    assert asyncio.run(QuestionNode(node, None, resources).ask(call, [Message("question")])) == "answer"
    asyncio.run(QuestionNode(CustomNode("n", "k"), None, resources).ask(call, [Message("question")]))
    first, second = model.requests
    assert (first.model, first.system, first.metadata["state"], first.metadata["call"]) == (
        "big",
        "Be brief.",
        "own",
        call,
    )
    assert (second.model, second.system) == (None, "default")
    assert call.runtime.tokens > 0  # pyright: ignore
