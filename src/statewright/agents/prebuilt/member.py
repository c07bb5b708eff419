"""Members of a group of agents: compiled graphs over messages, called by the functions of nodes.

A member is not itself a node of the group's graph, since the group chooses which of its messages the conversation keeps
and which node is next. The steps of the member are saved below the task of the node that calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from statewright.agents.loop.request import MEMORY_NOTES, MemoryNotes
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
_RESPONSE: Final = "structured_response"
_DEFAULT_NAME: Final = "Graph"
"""The name of a graph that was compiled without one."""


@dataclass(frozen=True, slots=True)
class MemberOutput:
    """The output of a member: its new messages, and its other writes."""

    messages: Sequence[Message | RemoveMessage]
    update: Mapping[str, Any]
    """The values of the other fields."""
    written: Sequence[tuple[str, Any]] = ()
    """Writes to fields with a reducer, for the group to fold."""

    def to_report(self, messages: Sequence[Message | RemoveMessage], **extra_fields: Any) -> SubgraphResult:
        """Return the answer of the node that has called the member, with `messages` in place of the member's."""
        own = {MESSAGES: list(messages)} if messages else {}
        return SubgraphResult({**self.update, **own, **extra_fields}, self.written)

    @property
    def last(self) -> Message | None:
        """The last message; None if there is none."""
        return next((message for message in reversed(self.messages) if isinstance(message, Message)), None)


class Member:
    """Calls a compiled graph, which shares the fields of the group's schema.

    Without `shares_response`, its structured response does not become that of the group.
    """

    def __init__(self, graph: CompiledGraph, schema: StateSchema, *, shares_response: bool = True) -> None:
        self.graph = graph
        self.name = graph.name
        shared_fields = frozenset(name for name in schema.fields if shares_response or name != _RESPONSE)
        merging = frozenset(name for name in shared_fields if schema.fields[name].has_reducer)
        self._shared_fields = shared_fields
        _, self._call = subgraph_calls(graph, "call", shared_fields, merging)

    def metadata(self, label: str | None = None) -> dict[str, Any]:
        """Return the metadata of the node that calls the graph, which draws the graph in place of the node."""
        return {"transparent": True, "boxes": {label or self.name: partial(getattr, self.graph, "graph")}}

    async def call(self, state: Mapping[str, Any]) -> MemberOutput:
        """Run the graph on a state and return its output. Raises the errors of the graph."""
        answer = await self._call(state)
        if not isinstance(
            answer, SubgraphResult
        ):  # a graph that does not report its writes, or whose state is an instance
            fields = cast(Any, answer) if isinstance(answer, Mapping) else instance_values(answer) or {}
            answer = SubgraphResult({**common_fields(fields, self._shared_fields)}, ())
        other_fields: dict[str, Any] = {**answer.update}
        all_messages = cast("Iterable[Message]", other_fields.pop(MESSAGES, None) or ())
        input_ids = {message.id for message in state.get(MESSAGES, ())}
        messages: list[Message | RemoveMessage] = [message for message in all_messages if message.id not in input_ids]
        written: list[tuple[str, Any]] = []
        for name, update in answer.writes:
            if name == MESSAGES and isinstance(update, MessageBatch):
                messages.extend(update.items)
            else:
                written.append((name, update))
        return MemberOutput(messages, other_fields, written)


def share_notes(schema: StateSchema, agents: Iterable[CompiledGraph]) -> None:
    """Add the field for notes of memory strategies to the schema of a group, if one of its agents has the field."""
    if MEMORY_NOTES not in schema.keys and any(MEMORY_NOTES in agent.program.channels for agent in agents):
        schema.add(MEMORY_NOTES, MemoryNotes)


def stored_types(agents: Iterable[CompiledGraph]) -> set[type]:
    """Return the types that agents may store in their states, since the group that calls them stores them too."""
    return {kind for agent in agents for kind in agent.program.stored_types}


def check_agents(agents: Any, *, owner: str) -> dict[str, CompiledGraph]:
    """Return compiled graphs by name. Raises InvalidConfig without agents, and for invalid or duplicate ones."""
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
    """Return a compiled graph over messages with a name. Raises InvalidConfig for anything else."""
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
