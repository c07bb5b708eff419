"""Registry of the kinds of custom nodes. A name in a workflow never imports anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from statewright.errors import suggestion
from statewright.workflow.states.handlers import StateHandler
from statewright.workflow.states.language.checks.references import UNSUPPORTED_KINDS
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes import documents_tree
from statewright.workflow.states.nodes.config import ConfigFault, read_nothing, refuse_faults
from statewright.workflow.states.nodes.model_nodes import (
    ConversationSummary,
    ResultFinalizer,
    StateProcessor,
    read_state_processor,
)
from statewright.workflow.states.nodes.resources import NodeResources
from statewright.workflow.states.nodes.transform import node as transform

NodeFactory = Callable[[CustomNode, NodeResources], StateHandler]
"""Creates the handler of one state."""
NodeCheck = Callable[[CustomNode], list[ConfigFault]]
"""Returns the faults of a definition."""


Config = TypeVar("Config")


def _standard(
    read: Callable[[CustomNode], tuple[Config, list[ConfigFault]]],
    create: Callable[[CustomNode, Config, NodeResources], StateHandler],
) -> tuple[NodeFactory, NodeCheck]:
    """Return the factory and the check of a kind; both use the function that reads its config."""
    return lambda node, resources: create(node, read(node)[0], resources), lambda node: read(node)[1]


def _check_unsupported(definition: CustomNode) -> list[ConfigFault]:
    """Return the error for an unsupported kind."""
    reason, advice = UNSUPPORTED_KINDS[definition.kind]
    return [ConfigFault(("custom_node_id",), f"A {definition.kind} {reason}.", advice)]


_STANDARD: Final[dict[str, tuple[NodeFactory | None, NodeCheck]]] = {
    "transform_node": _standard(transform.read, lambda node, config, resources: transform.TransformNode(config)),
    "state_processor_node": _standard(read_state_processor, StateProcessor),
    "generate_documents_tree": _standard(
        documents_tree.read, lambda node, config, resources: documents_tree.DocumentsTree(config, resources)
    ),
    "summarize_conversation_node": _standard(read_nothing, ConversationSummary),
    "result_finalizer_node": _standard(read_nothing, ResultFinalizer),
    **dict.fromkeys(UNSUPPORTED_KINDS, (None, _check_unsupported)),
}
"""The kinds of the language. An unsupported one has no factory, and its check always fails."""


class NodeKinds:
    """The kinds of custom nodes that workflows may use: those of the language, and registered ones."""

    def __init__(self) -> None:
        self._kinds = dict(_STANDARD)

    @property
    def names(self) -> tuple[str, ...]:
        """All supported kinds, sorted."""
        return tuple(sorted(name for name, (factory, _) in self._kinds.items() if factory is not None))

    def register(self, name: str, factory: NodeFactory, *, check: NodeCheck | None = None) -> None:
        """Add or replace a kind.

        `check` returns the faults of a definition; the factory is only called for definitions without errors.
        """
        self._kinds[name] = (factory, check or (lambda definition: []))

    def check_config(self, definition: CustomNode) -> list[ConfigFault]:
        """Return the faults of a custom node: an unknown kind, or an invalid config."""
        kind = self._kinds.get(definition.kind)
        return kind[1](definition) if kind is not None else [self._unknown(definition)]

    def make_handler(self, definition: CustomNode, resources: NodeResources) -> StateHandler:
        """Return the handler of a state. Raises WorkflowError with all errors of the definition."""
        refuse_faults(definition, self.check_config(definition))
        factory, _ = self._kinds[definition.kind]
        assert factory is not None  # the check of an unsupported kind has raised
        return factory(definition, resources)

    def _unknown(self, definition: CustomNode) -> ConfigFault:
        hint = suggestion(definition.kind, self.names, noun="Known kinds")
        return ConfigFault(("custom_node_id",), f"Node kind {definition.kind!r} does not exist.", hint)
