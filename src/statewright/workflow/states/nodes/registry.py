"""Registry of the kinds of custom nodes. A workflow can use registered kinds only; it cannot import code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from statewright.errors import suggestion
from statewright.workflow.states.handlers import StateHandler
from statewright.workflow.states.language.checks.references import UNSUPPORTED_KINDS
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.nodes import documents_tree
from statewright.workflow.states.nodes.config import ConfigFault, raise_errors, read_empty_config
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


def _make_kind(
    read_config: Callable[[CustomNode], tuple[Config, list[ConfigFault]]],
    create: Callable[[CustomNode, Config, NodeResources], StateHandler],
) -> tuple[NodeFactory, NodeCheck]:
    """Return the factory and the check of a kind. Both read the config with `read_config`."""
    return lambda node, resources: create(node, read_config(node)[0], resources), lambda node: read_config(node)[1]


def _check_unsupported(definition: CustomNode) -> list[ConfigFault]:
    """Return the error for a node of an unsupported kind."""
    reason, advice = UNSUPPORTED_KINDS[definition.kind]
    return [ConfigFault(("custom_node_id",), f"A {definition.kind} {reason}.", advice)]


_BUILTIN_KINDS: Final[dict[str, tuple[NodeFactory | None, NodeCheck]]] = {
    "transform_node": _make_kind(
        transform.read_config, lambda node, config, resources: transform.TransformNode(config)
    ),
    "state_processor_node": _make_kind(read_state_processor, StateProcessor),
    "generate_documents_tree": _make_kind(
        documents_tree.read_config, lambda node, config, resources: documents_tree.DocumentsTree(config, resources)
    ),
    "summarize_conversation_node": _make_kind(read_empty_config, ConversationSummary),
    "result_finalizer_node": _make_kind(read_empty_config, ResultFinalizer),
    **dict.fromkeys(UNSUPPORTED_KINDS, (None, _check_unsupported)),
}
"""The kinds of the language. An unsupported kind has no factory, and its check always fails."""


class NodeKinds:
    """The kinds of custom nodes that workflows may use: those of the language, and registered ones."""

    def __init__(self) -> None:
        self._kinds = dict(_BUILTIN_KINDS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all supported kinds, sorted."""
        return tuple(sorted(name for name, (factory, _) in self._kinds.items() if factory is not None))

    def register(self, name: str, factory: NodeFactory, *, check: NodeCheck | None = None) -> None:
        """Add or replace a kind. The factory is called only for definitions in which `check` finds no errors."""
        self._kinds[name] = (factory, check or (lambda definition: []))

    def check_config(self, definition: CustomNode) -> list[ConfigFault]:
        """Return the faults of a custom node: an unknown kind, or mistakes in its config."""
        if definition.kind not in self._kinds:
            hint = suggestion(definition.kind, self.names, noun="Known kinds")
            return [ConfigFault(("custom_node_id",), f"Node kind {definition.kind!r} does not exist.", hint)]
        _, check = self._kinds[definition.kind]
        return check(definition)

    def make_handler(self, definition: CustomNode, resources: NodeResources) -> StateHandler:
        """Return the handler of a state. Raises WorkflowError with all errors of the definition."""
        raise_errors(definition, self.check_config(definition))
        factory, _ = self._kinds[definition.kind]
        assert factory is not None  # the check of an unsupported kind has raised
        return factory(definition, resources)
