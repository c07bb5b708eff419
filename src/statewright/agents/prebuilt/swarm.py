"""A swarm: agents that share a conversation. One agent is active, and may hand the conversation over to another.

The state has the name of the active agent, which also answers the next user message of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.agents.prebuilt.handoff import Handoff, handoff_tools, handoffs_in
from statewright.agents.prebuilt.member import Member, add_memory_notes_field, check_agents, stored_types
from statewright.agents.prebuilt.react import AgentState
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, UnknownTarget, suggestion
from statewright.graph import END, START, Command
from statewright.messages import Message, RemoveMessage, replace
from statewright.runtime import CompiledGraph, StateGraph
from statewright.state import StateSchema, read_schema
from statewright.store import Store


class SwarmState(AgentState, total=False):
    """The state of a swarm. A custom state needs at least `messages`."""

    active_agent: str
    """The name of the active agent, which also answers the next user message."""


def create_swarm(
    agents: Sequence[CompiledGraph],
    *,
    default_active_agent: str,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "swarm",
    **options: Any,
) -> CompiledGraph:
    """Create a graph of agents that hand the conversation over to each other with tools made by `create_handoff_tool`.

    `default_active_agent` names the agent that answers the first user message of a thread. Later messages are answered
    by the agent that was active last; the field `active_agent` of the state has its name. All agents see the whole
    conversation. If one answer of a model contains several handoffs, only the first is made, and the results of the
    others become errors in the conversation. A tool may also hand over by returning a Command for the parent graph.
    `options` are those of `StateGraph.compile`.

    Raises InvalidConfig for invalid agents, and for handoff tools that name an agent that is not in the swarm.
    """
    members = check_agents(agents, owner=f"Swarm {name!r}")
    if default_active_agent not in members:
        hint = suggestion(default_active_agent, members, noun="Agents")
        raise InvalidConfig(
            f"default_active_agent of swarm {name!r} is {default_active_agent!r}, which is not one of its agents. "
            f"{hint}"
        )
    for agent in members.values():
        _check_handoffs(agent, [*members])
    schema = _build_schema(state_schema)
    add_memory_notes_field(schema, members.values())
    graph = StateGraph(schema, context_schema=context_schema).allow_types(*stored_types(members.values()))
    for agent in members.values():
        member = Member(agent, schema)
        other_names = [name for name in members if name != agent.name]
        node = _SwarmNode(member, [*members])
        graph.add_node(agent.name, node, destinations=[*other_names, END], metadata=member.metadata())

    def active_agent(state: Any) -> str:
        active = state.get("active_agent") or default_active_agent
        if active not in members:
            hint = suggestion(str(active), members, noun="Agents")
            raise InvalidConfig(f"active_agent is {active!r}, which is not one of the agents of swarm {name!r}. {hint}")
        return active

    graph.add_conditional_edges(START, active_agent, {member: member for member in members})
    return graph.compile(checkpointer, store=store, name=name, **options)


def _check_handoffs(agent: CompiledGraph, names: Sequence[str]) -> None:
    """Raise InvalidConfig if a handoff tool of an agent names the agent itself, or an agent that is not in `names`."""
    for tool in handoff_tools(agent):
        if tool.agent_name not in names:
            hint = suggestion(tool.agent_name, names, noun="Agents")
            raise InvalidConfig(
                f"Tool {tool.name!r} of agent {agent.name!r} hands over to {tool.agent_name!r}, which is not an agent "
                f"of the swarm. {hint}"
            )
        if tool.agent_name == agent.name:
            raise InvalidConfig(f"Tool {tool.name!r} of agent {agent.name!r} hands over to the agent itself.")


def _build_schema(state_schema: Any) -> StateSchema:
    """Return the schema of the state: the user's fields, and `active_agent`."""
    schema = read_schema(state_schema if state_schema is not None else SwarmState)
    if "active_agent" not in schema.keys:
        schema.add("active_agent", str)
    return schema


class _SwarmNode:
    """The node of one agent of a swarm."""

    def __init__(self, member: Member, agent_names: Sequence[str]) -> None:
        self._member = member
        self._agent_names = agent_names

    async def __call__(self, state: Any) -> list[Any]:
        output = await self._member.call(state)
        handoffs = handoffs_in(output.messages)
        if not handoffs:
            result = output.to_subgraph_result(output.messages, active_agent=self._member.name)
            return [result, Command[Any](goto=END)]
        target = handoffs[0].to
        if target not in self._agent_names:
            raise UnknownTarget(self._member.name, target, self._agent_names, via="a handoff")
        messages = _with_refusals(handoffs[1:], target, output.messages)
        return [output.to_subgraph_result(messages, active_agent=target), Command[Any](goto=target)]


def _with_refusals(
    refused: Sequence[Handoff], target: str, messages: Sequence[Message | RemoveMessage]
) -> list[Message | RemoveMessage]:
    """Return the messages, in which the results of the refused handoffs are replaced by errors.

    `target` is the agent that takes over.
    """
    call_ids = {handoff.message.tool_call_id for handoff in refused}
    error = f"Error: only one agent can take over, and {target} does."
    return [
        replace(message, content=error, metadata={"status": "error"})
        if isinstance(message, Message) and message.tool_call_id in call_ids
        else message
        for message in messages
    ]
