"""Members of a group of agents: compiled graphs whose state has `messages`, called by node functions of the group.

A member is not added to the group's graph as a node, because the group decides which of the member's messages become
part of the conversation, and which node runs next. The supersteps of the member are saved under the task that calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from statewright.agents.loop.request import MEMORY_NOTES, MemoryNotes
from statewright.agents.prebuilt.react import STRUCTURED_RESPONSE
from statewright.agents.prebuilt.tool_node import ToolNode
from statewright.agents.tools import Tool
from statewright.channels import MessageBatch
from statewright.errors import InvalidConfig
from statewright.graph import SubgraphResult
from statewright.messages import Message, RemoveMessage
from statewright.runtime import CompiledGraph
from statewright.runtime.core.subgraph import common_fields, subgraph_calls
from statewright.state import StateSchema, instance_values

MESSAGES: Final = "messages"
_DEFAULT_NAME: Final = "Graph"
"""The name of a graph that was compiled without a name."""


@dataclass(frozen=True, slots=True)
class MemberOutput:
    """The output of a member: its new messages, and what it wrote to the other fields of its state."""

    messages: Sequence[Message | RemoveMessage]
    update: Mapping[str, Any]
    """The final values of other fields, by name."""
    writes: Sequence[tuple[str, Any]] = ()
    """The writes to fields with a reducer, as pairs of field name and update, for the reducers of the group."""

    def to_subgraph_result(self, messages: Sequence[Message | RemoveMessage], **extra_fields: Any) -> SubgraphResult:
        """Return the result of the node that called the member, with `messages` in place of the member's messages.

        `extra_fields` are further fields of the group's state to write.
        """
        message_update = {MESSAGES: list(messages)} if messages else {}
        return SubgraphResult({**self.update, **message_update, **extra_fields}, self.writes)

    @property
    def last(self) -> Message | None:
        """The last message; None if there is none."""
        return next((message for message in reversed(self.messages) if isinstance(message, Message)), None)


class Member:
    """Calls a compiled graph, which reads and writes the fields of the group's schema.

    With `shares_response=False`, the `structured_response` of the graph is not written to the group's state. Fields in
    `private` are neither read nor written, because they have another meaning in the state of the graph.
    """

    def __init__(
        self,
        graph: CompiledGraph,
        schema: StateSchema,
        *,
        shares_response: bool = True,
        private: frozenset[str] = frozenset(),
    ) -> None:
        self.graph = graph
        self.name = graph.name
        self._private_fields = private
        unwritten_fields = private if shares_response else private | {STRUCTURED_RESPONSE}
        shared_fields = frozenset(schema.fields) - unwritten_fields
        reducer_fields = frozenset(name for name in shared_fields if schema.fields[name].has_reducer)
        self._shared_fields = shared_fields
        _, self._call = subgraph_calls(graph, "call", shared_fields, reducer_fields)

    def metadata(self, label: str | None = None) -> dict[str, Any]:
        """Return metadata for the node that calls the graph, with which drawings show the graph in place of the node.

        `label` is the title of the graph in the drawing, by default its name.
        """
        return {"transparent": True, "boxes": {label or self.name: partial(getattr, self.graph, "graph")}}

    async def call(self, state: Mapping[str, Any]) -> MemberOutput:
        """Run the graph on a state and return its output. Raises the errors of the graph."""
        if self._private_fields:
            state = {name: value for name, value in state.items() if name not in self._private_fields}
        result = await self._call(state)
        # Some graphs return their final state instead: a mapping, or an instance of the state's class.
        if not isinstance(result, SubgraphResult):
            fields = cast(Any, result) if isinstance(result, Mapping) else instance_values(result) or {}
            result = SubgraphResult({**common_fields(fields, self._shared_fields)}, ())
        other_fields: dict[str, Any] = {**result.update}
        all_messages = cast("Iterable[Message]", other_fields.pop(MESSAGES, None) or ())
        input_ids = {message.id for message in state.get(MESSAGES, ())}
        messages: list[Message | RemoveMessage] = [message for message in all_messages if message.id not in input_ids]
        other_writes: list[tuple[str, Any]] = []
        for name, update in result.writes:
            if name == MESSAGES and isinstance(update, MessageBatch):
                messages.extend(update.items)
            else:
                other_writes.append((name, update))
        return MemberOutput(messages, other_fields, other_writes)


def add_memory_notes_field(schema: StateSchema, agents: Iterable[CompiledGraph]) -> None:
    """Add the field `memory_notes` to the schema of a group if the state of one of its agents has it.

    Without the field, the notes of the agents' memory strategies would be lost after each call of an agent.
    """
    if MEMORY_NOTES not in schema.keys and any(MEMORY_NOTES in agent.program.channels for agent in agents):
        schema.add(MEMORY_NOTES, MemoryNotes)


def stored_types(agents: Iterable[CompiledGraph]) -> set[type]:
    """Return the classes of values in the states of agents. The state of their group may contain such values too."""
    return {cls for agent in agents for cls in agent.program.stored_types}


def check_agents(agents: Any, *, owner: str) -> dict[str, CompiledGraph]:
    """Return the agents by name. `owner` is the group's description in errors.

    Raises InvalidConfig if there are no agents, if one is invalid (see `check_agent`), or if two have the same name.
    """
    candidates = list(cast("Iterable[Any]", agents)) if isinstance(agents, Iterable) else [agents]
    if not candidates:
        raise InvalidConfig(f"{owner} has no agents. Pass at least one graph, such as create_agent(...).")
    by_name: dict[str, CompiledGraph] = {}
    for agent in candidates:
        name = check_agent(agent, owner=owner).name
        if name in by_name:
            raise InvalidConfig(f"{owner} has two agents named {name!r}. Compile one of them with another name=.")
        by_name[name] = agent
    return by_name


def check_agent(agent: Any, *, owner: str) -> CompiledGraph:
    """Return an agent: a compiled graph that has a name, and whose state has `messages`.

    Raises InvalidConfig for anything else. `owner` is the group's description in errors.
    """
    if not isinstance(agent, CompiledGraph):
        raise InvalidConfig(
            f"{owner} got {agent!r} of type {type(agent).__name__}, which is not a compiled graph. "
            f"Create one with create_agent(model, tools, prompt=..., name=...), or compile a graph over messages."
        )
    if agent.name == _DEFAULT_NAME or not agent.name.strip():
        raise InvalidConfig(f"{owner} got an agent without a name. Compile it with name=...")
    schema = agent.graph.schema
    if schema.closed and MESSAGES not in schema.fields:
        raise InvalidConfig(
            f"The state of agent {agent.name!r} of {owner} has no field 'messages' (fields: {', '.join(schema.keys)}). "
            f"Add it as Annotated[list[Message], add_messages]."
        )
    return cast(CompiledGraph, agent)


def agent_tools(agent: CompiledGraph) -> list[Tool]:
    """Return the tools in the tool nodes of an agent."""
    nodes = [node.action for node in agent.graph.nodes.values()]
    return [tool for node in nodes if isinstance(node, ToolNode) for tool in node.tools_by_name.values()]
