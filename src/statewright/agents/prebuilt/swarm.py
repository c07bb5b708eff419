"""A swarm: agents that share a conversation. One agent is active, and may hand the conversation over to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statewright.agents.prebuilt.handoff import Handoff, handoff_tools, handoffs_in
from statewright.agents.prebuilt.member import Member, add_memory_notes_field, check_agents, stored_types
from statewright.agents.prebuilt.react import AgentState, read_agent_schema
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, UnknownTarget, suggestion
from statewright.graph import END, START, Command
from statewright.messages import Message, RemoveMessage, replace
from statewright.runtime import CompiledGraph, StateGraph
from statewright.store import Store

_ACTIVE_AGENT: Final = "active_agent"


class SwarmState(AgentState, total=False):
    """The state of a swarm."""

    active_agent: str
    """The name of the active agent, which also answers the next user message of the thread."""


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

    `default_active_agent` names the agent that answers the first user message of a thread. All agents see the whole
    conversation. If one answer of a model contains several handoffs, only the first is made, and the results of the
    others become errors in the conversation. A tool may also hand over by returning
    `Command(graph=Command.PARENT, goto=name, update={"messages": [...], "active_agent": name})`, whose messages must
    include those of the agent, because these are lost otherwise. A swarm that is an agent of a swarm has an active
    agent of its own, and begins each call with its default agent.

    `state_schema` is a TypedDict or a dict; `messages` and `active_agent` are added if it lacks them. `options` are
    those of `StateGraph.compile`.

    Raises InvalidConfig for invalid agents, for a `default_active_agent` that is not one of them, for handoff tools
    that name the agent itself or an agent that is not in the swarm, and for a `state_schema` of another kind. A run
    raises InvalidConfig if `active_agent` in its state is not one of the agents.
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
    schema = read_agent_schema(state_schema, owner=f"swarm {name!r}", default=SwarmState)
    if _ACTIVE_AGENT not in schema.keys:
        schema.add(_ACTIVE_AGENT, str)
    add_memory_notes_field(schema, members.values())
    graph = StateGraph(schema, context_schema=context_schema).allow_types(*stored_types(members.values()))
    for agent in members.values():
        member = Member(agent, schema, private=frozenset({_ACTIVE_AGENT} if _is_swarm(agent) else ()))
        other_names = [agent_name for agent_name in members if agent_name != agent.name]
        node = _SwarmNode(member, other_names)
        graph.add_node(agent.name, node, destinations=[*other_names, END], metadata=member.metadata())

    def choose_agent(state: Any) -> str:
        active = state.get(_ACTIVE_AGENT) or default_active_agent
        if active not in members:
            hint = suggestion(str(active), members, noun="Agents")
            raise InvalidConfig(f"active_agent is {active!r}, which is not one of the agents of swarm {name!r}. {hint}")
        return active

    graph.add_conditional_edges(START, choose_agent, [*members])
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


def _is_swarm(agent: CompiledGraph) -> bool:
    return any(isinstance(node.action, _SwarmNode) for node in agent.graph.nodes.values())


class _SwarmNode:
    """The node of one agent of a swarm."""

    def __init__(self, member: Member, other_names: Sequence[str]) -> None:
        self._member = member
        self._other_names = other_names
        """The names of the agents to which this one may hand over."""

    async def __call__(self, state: Any) -> list[Any]:
        output = await self._member.call(state)
        handoffs = handoffs_in(output.messages)
        if not handoffs:
            result = output.to_subgraph_result(output.messages, active_agent=self._member.name)
            return [result, Command[Any](goto=END)]
        target = handoffs[0].to
        # Handoff tools are checked when the swarm is created, but the nodes of a custom graph may write handoffs too.
        if target not in self._other_names:
            raise UnknownTarget(self._member.name, target, self._other_names, via="a handoff")
        messages = _with_refusals(handoffs[1:], target, output.messages)
        return [output.to_subgraph_result(messages, active_agent=target), Command[Any](goto=target)]


def _with_refusals(
    refused: Sequence[Handoff], target: str, messages: Sequence[Message | RemoveMessage]
) -> list[Message | RemoveMessage]:
    """Return the messages with the results of the refused handoffs replaced by errors.

    The errors are not handoffs, which an outer group would make. `target` is the agent that takes over.
    """
    call_ids = {handoff.message.tool_call_id for handoff in refused}
    error = f"Error: only one agent can take over, and {target} does."
    return [
        replace(message, content=error, metadata={"status": "error"})
        if isinstance(message, Message) and message.tool_call_id in call_ids
        else message
        for message in messages
    ]
