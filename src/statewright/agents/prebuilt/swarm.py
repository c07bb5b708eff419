"""A swarm: agents of one conversation, of which one is active and may hand over to another.

The active agent is part of the state, and takes the next turn of the thread as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.agents.prebuilt.handoff import Handoff, handoff_tools, handoffs_in
from statewright.agents.prebuilt.member import Member, check_agents, share_notes, stored_types
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
    """The agent of this turn, and of the beginning of the next one."""


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
    """Create a graph of agents that hand a conversation over to each other by tools of `create_handoff_tool`.

    `default_active_agent` starts; later turns of a thread start with `active_agent` of the state. Agents share the
    whole conversation. Of several handoffs in one answer the first is followed, and the others are reported as errors.
    Tools that return a Command for the parent graph work too. `options` are those of `StateGraph.compile`. Raises
    InvalidConfig for invalid agents, and for handoffs to unknown agents.
    """
    members = check_agents(agents, owner=f"Swarm {name!r}")
    if default_active_agent not in members:
        hint = suggestion(default_active_agent, members, noun="Agents")
        raise InvalidConfig(f"Swarm {name!r} begins with {default_active_agent!r}, which is not an agent of it. {hint}")
    for agent in members.values():
        _check_handoffs(agent, [*members])
    schema = _state(state_schema)
    share_notes(schema, members.values())
    graph = StateGraph(schema, context_schema=context_schema).allow_types(*stored_types(members.values()))
    names = {name: name for name in members}
    for agent in members.values():
        member = Member(agent, schema)
        other_names = [member_name for member_name in names if member_name != agent.name]
        graph.add_node(
            agent.name, _SwarmNode(member, [*names]), destinations=[*other_names, END], metadata=member.metadata()
        )

    def active(state: Any) -> str:
        chosen = state.get("active_agent") or default_active_agent
        if chosen not in names:
            hint = suggestion(str(chosen), names, noun="Agents")
            raise InvalidConfig(f"active_agent is {chosen!r}, which is not an agent of swarm {name!r}. {hint}")
        return chosen

    graph.add_conditional_edges(START, active, names)
    return graph.compile(checkpointer, store=store, name=name, **options)


def _check_handoffs(agent: CompiledGraph, names: Sequence[str]) -> None:
    for tool in handoff_tools(agent):
        if tool.agent_name not in names:
            hint = suggestion(tool.agent_name, names, noun="Agents")
            raise InvalidConfig(
                f"Tool {tool.name!r} of agent {agent.name!r} hands over to {tool.agent_name!r}, which is not an agent "
                f"of the swarm. {hint}"
            )
        if tool.agent_name == agent.name:
            raise InvalidConfig(f"Tool {tool.name!r} of agent {agent.name!r} hands over to the agent itself.")


def _state(state_schema: Any) -> StateSchema:
    schema = read_schema(state_schema if state_schema is not None else SwarmState)
    if "active_agent" not in schema.keys:
        schema.add("active_agent", str)
    return schema


class _SwarmNode:
    """The node of one agent."""

    def __init__(self, member: Member, names: Sequence[str]) -> None:
        self._member = member
        self._names = names

    async def __call__(self, state: Any) -> list[Any]:
        output = await self._member.call(state)
        handoffs = handoffs_in(output.messages)
        if not handoffs:
            return [output.to_report(output.messages, active_agent=self._member.name), Command[Any](goto=END)]
        chosen = handoffs[0].to
        if chosen not in self._names:
            raise UnknownTarget(self._member.name, chosen, self._names, via="a handoff")
        messages = _with_refusals(handoffs[1:], chosen, output.messages)
        return [output.to_report(messages, active_agent=chosen), Command[Any](goto=chosen)]


def _with_refusals(
    refused: Sequence[Handoff], chosen: str, messages: Sequence[Message | RemoveMessage]
) -> list[Message | RemoveMessage]:
    """Return the messages, with errors as the results of the refused handoffs."""
    calls = {handoff.message.tool_call_id for handoff in refused}
    return [
        replace(
            message, content=f"Error: one agent takes over at a time, and {chosen} does.", metadata={"status": "error"}
        )
        if isinstance(message, Message) and message.tool_call_id in calls
        else message
        for message in messages
    ]
