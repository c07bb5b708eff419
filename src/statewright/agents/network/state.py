"""The state of a network's graph, and the views of it that agents, routers and hooks receive."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.loop.call import AgentCall, RunView, data_fields
from statewright.agents.loop.model_call import usage_in_journal
from statewright.agents.network.definition import NetworkDefinition
from statewright.agents.network.router import RunAgents
from statewright.agents.state.data import PREFIX
from statewright.agents.state.result import USER, AgentResult
from statewright.agents.state.usage_limits import total_usage
from statewright.channels import Ephemeral
from statewright.checkpoint import SavedCheckpoint
from statewright.errors import InvalidUpdateError, suggestion
from statewright.graph import Runtime
from statewright.messages import Message, as_message
from statewright.models import Usage

Values = Mapping[str, Any]


def _as_messages(current: Any, update: Any) -> list[Any]:
    """Reducer that replaces messages, and converts the new ones."""
    return [as_message(value) for value in update]


NETWORK_STATE: Final[Mapping[str, Any]] = {
    "input": Annotated[Any, Ephemeral()],
    "message": Message,
    "messages": Annotated[list[Message], _as_messages],
    "turns": Annotated[list[AgentResult], operator.add],
    "routed": Annotated[list[AgentResult], operator.add],
    "queue": list[str],
    "routing": str,
    "routing_usage": list,
    "discarded_usage": list,
    "notes": dict,
    "position": int,
    "call_count": int,
    "first": int,
    "stop_reason": str,
    "summary": str,
    "history_thread": str,
}
"""Fields besides those of the data. `turns` has all turns of the conversation, `first` is the index of the first turn
of this run; `routed` has the results of routing agents in this run, `routing_usage` their usage in all runs, and
`discarded_usage` that of agent calls that fresh input has discarded; `routing` names the routing agent to call next;
`notes` are those of memory strategies, by agent."""


def check_fields(values: Values) -> None:
    """Raise InvalidUpdateError for an unknown field: fields of the data have the prefix `data.`."""
    unknown = next((name for name in values if name not in NETWORK_STATE and not name.startswith(PREFIX)), None)
    if unknown is not None:
        known = [*NETWORK_STATE, *(name for name in values if name.startswith(PREFIX))]
        raise InvalidUpdateError(
            f"The state of the network has no field {unknown!r}. "
            f"{suggestion(unknown, known, noun='Fields')} A field of the data is written as {PREFIX + unknown!r}."
        )


def run_agents(network: NetworkDefinition[Any], runtime: Runtime[Any]) -> RunAgents:
    """Return the agents of the current run, which is identified by its thread or run id, and its namespace."""
    info = runtime.execution_info
    return network.registry.for_run(f"{info.workspace!r}|{info.thread_id or info.run_id}|{info.namespace}")


def build_agent_call(
    network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any], agent: Agent | None = None
) -> AgentCall:
    """Return the context for a call of an agent; without an agent, for a router."""
    usage, requests = usage_of_run(state)
    agents = run_agents(network, runtime)
    model = network.model_for(agent) if agent is not None else None
    wants_default = agent is not None and agent.model is None and model is None
    return AgentCall(
        network=network.name,
        agents=network.agents,
        form=network.form,
        values=data_fields(state),
        messages=state.get("messages", ()),
        turns=state.get("turns", ()),
        message=state.get("message"),
        thread_id=state.get("history_thread") or runtime.execution_info.thread_id,
        stack=[agents.find(name) for name in state.get("queue", ())],
        call_count=state.get("call_count", 0),
        model=model,
        default_model=network.default_chat_model if wants_default else None,
        limits=network.usage_limits,
        usage=usage,
        requests=requests,
        further_usage=further_usage(state),
        notes=state.get("notes", {}),
        formatter=network.formatter,
        find_agent=agents.find,
    )


def build_run_view(network: NetworkDefinition[Any], state: Values, runtime: Runtime[Any]) -> RunView:
    """Return the run as routers and the functions of the network see it."""
    return RunView(build_agent_call(network, state, runtime), {})


def further_usage(state: Values) -> Usage:
    """Return usage that is part of no agent's result: of routers and of discarded calls."""
    return Usage(*state.get("routing_usage") or ()) + Usage(*state.get("discarded_usage") or ())


def usage_of_calls(calls: Iterable[SavedCheckpoint]) -> Usage:
    """Return the usage of agent calls that have not finished."""
    return sum(
        (Usage(*call.checkpoint.values.get("usage") or ()) + usage_in_journal(call.pending) for call in calls), Usage()
    )


def discarded_usage_update(state: Values, calls: Sequence[SavedCheckpoint]) -> dict[str, Any]:
    """Return the update that adds the usage of agent calls that fresh input discards."""
    usage = Usage(*state.get("discarded_usage") or ()) + usage_of_calls(calls)
    return {"discarded_usage": usage.to_list()}


def results_of_run(state: Values) -> Sequence[AgentResult]:
    """Return the results of the agents since the user's message."""
    return [turn for turn in state.get("turns", ())[state.get("first", 0) :] if turn.agent_name != USER]


def usage_of_run(state: Values) -> tuple[Usage, int]:
    """Return the usage of the run, routers included, and its number of model calls."""
    return total_usage([*results_of_run(state), *state.get("routed", ())])
