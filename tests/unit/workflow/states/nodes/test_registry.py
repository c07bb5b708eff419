"""The kinds of custom nodes by name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import WorkflowError
from statewright.workflow.states.handlers import Call, Outcome
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes import ConfigFault, NodeKinds, NodeResources

RESOURCES = NodeResources(state_id="own")


class Greeter:
    def __init__(self, name: str) -> None:
        self.name = name

    async def perform(self, call: Call) -> Outcome:
        return Outcome(f"Hello, {self.name}!")


def greeter(definition: CustomNode, resources: NodeResources) -> Greeter:
    return Greeter(definition.config["name"])


def check_greeter(definition: CustomNode) -> list[ConfigFault]:
    return [] if "name" in definition.config else [ConfigFault(("config", "name"), "No name.", "Write one.")]


def test_1_4_the_built_in_kinds_are_known() -> None:
    assert NodeKinds().names == (
        "generate_documents_tree",
        "result_finalizer_node",
        "state_processor_node",
        "summarize_conversation_node",
        "transform_node",
    )


def test_1_4_the_error_for_an_unknown_kind_has_a_suggestion() -> None:
    definition = CustomNode("n", "transfrom_node")
    (fault,) = NodeKinds().check_config(definition)
    assert fault.path == ("custom_node_id",)
    assert fault.is_error
    assert fault.suggestion.startswith("Did you mean 'transform_node'?")
    with pytest.raises(WorkflowError, match="Node kind 'transfrom_node' does not exist"):
        NodeKinds().make_handler(definition, RESOURCES)


@pytest.mark.parametrize("name", ["os", "statewright.workflow", "__init__", "../transform_node"])
def test_4_1_names_are_never_imported(name: str) -> None:
    with pytest.raises(WorkflowError, match=f"Node kind '{re.escape(name)}' does not exist"):
        NodeKinds().make_handler(CustomNode("n", name), RESOURCES)


def test_users_can_register_kinds(call_with: Callable[..., Call]) -> None:
    kinds = NodeKinds()
    kinds.register("greeter", greeter)
    handler = kinds.make_handler(CustomNode("n", "greeter", config={"name": "Ada"}), RESOURCES)
    assert asyncio.run(handler.perform(call_with())).output == "Hello, Ada!"
    assert "greeter" not in NodeKinds().names


def test_a_registered_check_runs_before_the_factory() -> None:
    kinds = NodeKinds()
    kinds.register("greeter", greeter, check=check_greeter)
    with pytest.raises(WorkflowError, match="No name"):
        kinds.make_handler(CustomNode("n", "greeter"), RESOURCES)


def test_a_registered_kind_replaces_an_unsupported_one() -> None:
    kinds = NodeKinds()
    kinds.register("supervisor_node", greeter)
    assert "supervisor_node" in kinds.names
    assert isinstance(kinds.make_handler(CustomNode("n", "supervisor_node", config={"name": "x"}), RESOURCES), Greeter)


def test_warnings_do_not_prevent_a_run(run: Callable[..., Any]) -> None:
    mapping = {"output_field": "a", "type": "constant", "value": 1, "note": "?"}
    assert run("transform_node", {"mappings": [mapping], "colour": "red"}).output == {"a": 1}
