"""The state of a network's graph, and the views of it that agents, routers and hooks receive."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.loop.call import AgentCall, RunView, data_fields
from statewright.agents.loop.model_call import usage_in_journal
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

if TYPE_CHECKING:
    from statewright.agents.network.network import Network

Values = Mapping[str, Any]


def _as_messages(before: Any, given: Any) -> list[Any]:
    """Messages in the place of those that were there, whatever form they were given in."""
    return [as_message(one) for one in given]


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
"""Beside the fields of the data. `turns` is everything that was said, `first` the place where the present run began in
it; `routed` holds the results of routing agents in this run, `routing_usage` the usage of those of all runs, and
`discarded_usage` that of calls of agents that fresh input has discarded; `routing` is the one whose turn to choose
comes next. `notes` are those of memory strategies, by agent."""


def check_fields(values: Values) -> None:
    """Raise InvalidUpdateError for a field that means nothing here: data has its fields under `data.`."""
    strange = next((name for name in values if name not in NETWORK_STATE and not name.startswith(PREFIX)), None)
    if strange is not None:
        known = [*NETWORK_STATE, *(name for name in values if name.startswith(PREFIX))]
        raise InvalidUpdateError(
            f"The state of the network was given {strange!r}, which it does not know. "
            f"{suggestion(strange, known, noun='Fields')} A field of the data is written as {PREFIX + strange!r}."
        )


def run_agents(network: Network[Any], runtime: Runtime[Any]) -> RunAgents:
    """The agents that the present run can call. Runs on one thread follow each other, and a call has its namespace."""
    info = runtime.execution_info
    return network.registry.for_run(f"{info.workspace!r}|{info.thread_id or info.run_id}|{info.namespace}")


def build_agent_call(
    network: Network[Any], state: Values, runtime: Runtime[Any], agent: Agent | None = None
) -> AgentCall:
    """What an agent is called with; without an agent, what a router is shown."""
    usage, requests = usage_of_run(state)
    crew = run_agents(network, runtime)
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
        stack=[crew.find(name) for name in state.get("queue", ())],
        call_count=state.get("call_count", 0),
        model=model,
        default_model=network.default_chat_model if wants_default else None,
        limits=network.usage_limits,
        usage=usage,
        requests=requests,
        further_usage=further_usage(state),
        notes=state.get("notes", {}),
        formatter=network.formatter,
        find_agent=crew.find,
    )


def build_run_view(network: Network[Any], state: Values, runtime: Runtime[Any]) -> RunView:
    """The run as routers and the network's own functions see it."""
    return RunView(build_agent_call(network, state, runtime), {})


def further_usage(state: Values) -> Usage:
    """Usage that no agent's result includes: that of routers and of discarded calls."""
    return Usage(*state.get("routing_usage") or ()) + Usage(*state.get("discarded_usage") or ())


def usage_of_calls(calls: Iterable[SavedCheckpoint]) -> Usage:
    """What calls of agents that have not ended have used so far."""
    return sum(
        (Usage(*one.checkpoint.values.get("usage") or ()) + usage_in_journal(one.pending) for one in calls), Usage()
    )


def discarded_usage_update(state: Values, calls: Sequence[SavedCheckpoint]) -> dict[str, Any]:
    """The update where fresh input discards calls of agents: what these have used is paid all the same."""
    used = Usage(*state.get("discarded_usage") or ()) + usage_of_calls(calls)
    return {"discarded_usage": used.to_list()}


def results_of_run(state: Values) -> Sequence[AgentResult]:
    """What agents have said since the user spoke."""
    return [one for one in state.get("turns", ())[state.get("first", 0) :] if one.agent_name != USER]


def usage_of_run(state: Values) -> tuple[Usage, int]:
    """What the run has used up, routers included, and with how many calls of models."""
    return total_usage([*results_of_run(state), *state.get("routed", ())])
