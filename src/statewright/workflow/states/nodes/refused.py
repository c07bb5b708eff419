"""Kinds that the language names and that are not run here, with the reason."""

from __future__ import annotations

from typing import Final, NoReturn

from statewright.workflow.states.model import CustomNode
from statewright.workflow.states.nodes.config import ConfigFault, refuse_faults
from statewright.workflow.states.nodes.resources import NodeResources

REASONS: Final = {
    "bedrock_flow_node": (
        "A bedrock_flow_node runs a flow inside AWS, which Statewright does not call.",
        "Register a node of this kind that calls it, or let a tool do so.",
    ),
    "supervisor_node": (
        "A supervisor_node chooses the next assistant by itself, instead of the states' transitions.",
        "Let an assistant answer with the name of what comes next, and lead on with a switch.",
    ),
}
"""By kind: why not, and what to do instead."""


def check(definition: CustomNode) -> list[ConfigFault]:
    """Always one error."""
    return [ConfigFault(("custom_node_id",), *REASONS[definition.kind])]


def make(definition: CustomNode, resources: NodeResources) -> NoReturn:
    """Raises WorkflowError."""
    refuse_faults(definition, check(definition))
    raise AssertionError(definition.kind)
