"""Registry of the kinds of custom nodes. A name in a workflow never imports anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from statewright.errors import suggestion
from statewright.workflow.states.handlers import StateHandler
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes import documents_tree, finalize, state_processor, summarize
from statewright.workflow.states.nodes.config import ConfigFault, refuse_faults
from statewright.workflow.states.nodes.resources import NodeResources
from statewright.workflow.states.nodes.transform import node as transform

NodeFactory = Callable[[CustomNode, NodeResources], StateHandler]
"""Creates the handler of one state."""
NodeCheck = Callable[[CustomNode], list[ConfigFault]]
"""Returns the faults of a definition."""


REFUSED_KINDS: Final = {
    "bedrock_flow_node": (
        "A bedrock_flow_node runs a flow inside AWS, which Statewright does not call.",
        "Register a node of this kind that calls it, or let a tool do so.",
    ),
    "supervisor_node": (
        "A supervisor_node chooses the next assistant by itself, instead of the states' transitions.",
        "Let an assistant answer with the name of what comes next, and lead on with a switch.",
    ),
}
"""Unsupported kinds of the language: the reason, and the alternative."""


def _check_refused(definition: CustomNode) -> list[ConfigFault]:
    """Return the error for an unsupported kind."""
    return [ConfigFault(("custom_node_id",), *REFUSED_KINDS[definition.kind])]


def _make_refused(definition: CustomNode, resources: NodeResources) -> NoReturn:
    """Raise WorkflowError for an unsupported kind."""
    refuse_faults(definition, _check_refused(definition))
    raise AssertionError(definition.kind)


def _nothing_wrong(definition: CustomNode) -> list[ConfigFault]:
    return []


_STANDARD: Final[dict[str, tuple[NodeFactory, NodeCheck]]] = {
    "transform_node": (transform.make, transform.check),
    "state_processor_node": (state_processor.make, state_processor.check),
    "generate_documents_tree": (documents_tree.make, documents_tree.check),
    "summarize_conversation_node": (summarize.make, summarize.check),
    "result_finalizer_node": (finalize.make, finalize.check),
    **dict.fromkeys(REFUSED_KINDS, (_make_refused, _check_refused)),
}


class NodeKinds:
    """The kinds of custom nodes that workflows may use: those of the language, and registered ones."""

    def __init__(self) -> None:
        self._kinds = dict(_STANDARD)

    @property
    def names(self) -> tuple[str, ...]:
        """All supported kinds, sorted."""
        return tuple(sorted(name for name, (factory, _) in self._kinds.items() if factory is not _make_refused))

    def register(self, name: str, factory: NodeFactory, *, check: NodeCheck | None = None) -> None:
        """Add or replace a kind.

        `check` returns the faults of a definition; the factory is only called for definitions without errors.
        """
        self._kinds[name] = (factory, check or _nothing_wrong)

    def check_config(self, definition: CustomNode) -> list[ConfigFault]:
        """Return the faults of a custom node: an unknown kind, or an invalid config."""
        kind = self._kinds.get(definition.kind)
        return kind[1](definition) if kind is not None else [self._unknown(definition)]

    def make_handler(self, definition: CustomNode, resources: NodeResources) -> StateHandler:
        """Return the handler of a state. Raises WorkflowError with all errors of the definition."""
        refuse_faults(definition, self.check_config(definition))
        return self._kinds[definition.kind][0](definition, resources)

    def _unknown(self, definition: CustomNode) -> ConfigFault:
        hint = suggestion(definition.kind, self.names, noun="Known kinds")
        return ConfigFault(("custom_node_id",), f"There is no node kind {definition.kind!r}.", hint)
