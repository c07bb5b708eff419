"""The kinds of custom nodes by name. Nothing is ever imported because a workflow names it."""

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
"""Makes what does the work of one state."""
NodeCheck = Callable[[CustomNode], list[ConfigFault]]
"""What is wrong or odd about a definition."""


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
"""By kind: why not, and what to do instead."""


def _check_refused(definition: CustomNode) -> list[ConfigFault]:
    """Always one error."""
    return [ConfigFault(("custom_node_id",), *REFUSED_KINDS[definition.kind])]


def _make_refused(definition: CustomNode, resources: NodeResources) -> NoReturn:
    """Raises WorkflowError."""
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
    """The kinds that workflows may use: those of the language, and those that were registered."""

    def __init__(self) -> None:
        self._kinds = dict(_STANDARD)

    @property
    def names(self) -> tuple[str, ...]:
        """All kinds that can be run, in the order of the alphabet."""
        return tuple(sorted(name for name, (factory, _) in self._kinds.items() if factory is not _make_refused))

    def register(self, name: str, factory: NodeFactory, *, check: NodeCheck | None = None) -> None:
        """Add a kind, or take the place of one that is there.

        `check` says what is wrong with a definition before it runs; the factory is only called for what it lets pass.
        """
        self._kinds[name] = (factory, check or _nothing_wrong)

    def check_config(self, definition: CustomNode) -> list[ConfigFault]:
        """What is wrong or odd about a custom node: an unknown kind, or a config that its kind does not take."""
        kind = self._kinds.get(definition.kind)
        return kind[1](definition) if kind is not None else [self._unknown(definition)]

    def performer(self, definition: CustomNode, resources: NodeResources) -> StateHandler:
        """What does the work of a state. Raises WorkflowError with everything that is wrong about the definition."""
        refuse_faults(definition, self.check_config(definition))
        return self._kinds[definition.kind][0](definition, resources)

    def _unknown(self, definition: CustomNode) -> ConfigFault:
        hint = suggestion(definition.kind, self.names, noun="Known kinds")
        return ConfigFault(("custom_node_id",), f"There is no kind of node {definition.kind!r}.", hint)
