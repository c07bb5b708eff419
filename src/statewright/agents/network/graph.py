"""The graph of a network: a router chooses an agent, the agent is called, and the router is called again.

    route -> agent -> route ... until the router chooses no agent

Each arrow is a saved superstep. The router's choice is part of the checkpoint's frontier, so a router is not called
again for a choice that it has already made, and an agent that was interrupted is resumed where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import CUT_SHORT
from statewright.agents.loop.run import RunView, enter_call
from statewright.agents.network.compiled import NetworkStateGraph
from statewright.agents.network.definition import NetworkDefinition
from statewright.agents.network.router import RoutingAgent
from statewright.agents.network.state import (
    NETWORK_STATE,
    Values,
    build_agent_call,
    build_run_view,
    discarded_usage_update,
    results_of_run,
    run_agents,
    start_run,
    usage_of_run,
    with_start_update,
)
from statewright.agents.state.data import data_fields, with_prefix
from statewright.agents.state.result import AgentResult
from statewright.channels import Overwrite
from statewright.errors import InvalidConfig
from statewright.graph import END, START, Command, Runtime, Send
from statewright.models import Usage
from statewright.runtime import StateGraph
from statewright.runtime.lifecycle.unfinished import DISCARDED

NO_LIMIT: Final = 1_000_000_000
"""The recursion limit of one agent call, too high to be reached: the agent's `max_iter` is the limit instead."""
_DRAWN_EDGES: Final = (("agent", "declared", ""), (END, "declared", ""))
"""The edges of `route` that drawings show. Its edge to itself is left out."""
_ON_DISCARD: Final = {DISCARDED: discarded_usage_update}
"""Metadata of the nodes that call agents: what to save when new input discards an interrupted agent call."""


def build_network_graph(network: NetworkDefinition[Any]) -> StateGraph:
    """Return the graph of a network, before it is compiled."""
    nodes = _NetworkNodes(network)
    graph = NetworkStateGraph({**NETWORK_STATE, **network.data_schema.entries})
    graph.add_node(
        "route", nodes.route, destinations=["agent", "route"], metadata={"drawn": _DRAWN_EDGES, **_ON_DISCARD}
    )
    names_agent = {"agent_in": "agent"}  # the key of the agent's name in the argument of a Send
    metadata = {"transparent": True, **names_agent, **_ON_DISCARD, **_drawn_agents(network)}
    graph.add_node("agent", nodes.agent, metadata=metadata)
    graph.add_edge(START, "route")
    graph.add_edge("agent", "route")
    return graph


def _drawn_agents(network: NetworkDefinition[Any]) -> dict[str, Any]:
    """Return metadata with which drawings show the declared agents in place of the single node that calls them."""
    agents = network.agents
    return {"boxes": {name: partial(_graph_of, agent) for name, agent in agents.items()}} if agents else {}


def _graph_of(agent: Agent) -> Any:
    return agent.graph.graph


class _NetworkNodes:
    """The nodes of a network's graph."""

    def __init__(self, network: NetworkDefinition[Any]) -> None:
        self._network = network

    async def route(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Choose the next agent, or end the run."""
        update: dict[str, Any] = {}
        if state.get("input") is not None:
            update = await start_run(self._network, state, runtime)
            state = with_start_update(state, update)
        run_view = build_run_view(self._network, state, runtime)
        if state.get("routing") is None:
            reason = await self._stop_reason(state, run_view)
            if reason is not None:
                return await self._end_run({"stop_reason": reason}, state, update, run_view, runtime)
        if self._network.agents and not run_view.network.available_agents:
            raise InvalidConfig(
                f"No agent of network {self._network.name!r} is enabled. Check the `enabled` hooks of its agents."
            )
        agents, routing = run_agents(self._network, runtime), state.get("routing")
        router: Any = self._network.router if routing is None else agents.find(routing)
        if isinstance(router, RoutingAgent):
            return await self._run_routing_agent(router, state, update, runtime)
        choice = await acall_with_kwargs(router, _router_kwargs(run_view))
        if isinstance(choice, RoutingAgent):
            # The routing agent is called in the next superstep, so that the function's choice of it is saved first.
            agents.admit(choice)
            return Command(update={**update, **_data_update(run_view), "routing": choice.name}, goto="route")
        return await self._call_next(choice, state, update, run_view, runtime)

    async def _run_routing_agent(
        self, router: RoutingAgent, state: Values, update: dict[str, Any], runtime: Runtime[Any]
    ) -> Command[Any]:
        """Call a routing agent, and return the Command that calls the first of the agents that it chooses."""
        result, data, scheduled = await self._call_agent(router, state, f"route {state.get('position', 0)}", runtime)
        routed = Overwrite([result]) if "routed" in update else [result]  # the first update of a run clears the list
        usage = Usage(*state.get("routing_usage") or ()) + result.usage
        update = {**update, **data, "routed": routed, "routing": None, "routing_usage": usage.to_list()}
        run_view = build_run_view(self._network, {**state, **data, "routing_usage": usage.to_list()}, runtime)
        if result.stop_reason == "usage_limit":  # the routing agent made no choice, and no agent may be called
            return await self._end_run({"stop_reason": "usage_limit"}, state, update, run_view, runtime)
        choice = run_agents(self._network, runtime).resolve_names(await router.choose(result, run_view.network))
        return await self._call_next([*scheduled, *choice], state, update, run_view, runtime)

    async def _call_next(
        self, choice: Any, state: Values, update: dict[str, Any], run_view: RunView, runtime: Runtime[Any]
    ) -> Command[Any]:
        """Return the Command that calls the next agent, or that ends the run if there is none.

        `choice` is the answer of a router: the agents, or their names, to add to the queue.
        """
        choice = run_agents(self._network, runtime).resolve_names(choice)
        queue = [*state.get("queue", ()), *choice, *run_view.network.scheduled]
        if not queue:
            summary = run_view.network.summary
            reason = "done" if summary is not None else _last_cut_short(results_of_run(state)) or "completed"
            outcome = {"stop_reason": reason, "summary": summary}
            return await self._end_run(outcome, state, update, run_view, runtime)
        name, *remaining = queue
        call = Send("agent", {"agent": name, "position": state.get("position", 0)})
        return Command(update={**update, **_data_update(run_view), "queue": remaining}, goto=call)

    async def _stop_reason(self, state: Values, run_view: RunView) -> str | None:
        """Return the reason to end the run without calling the router; None if the run continues."""
        network, call_count = self._network, run_view.network.call_count
        if not call_count:
            return None
        kwargs = {**run_view.kwargs, "result": run_view.network.last_result}
        if network.stop_when is not None and await acall_with_kwargs(network.stop_when, kwargs):
            return "stop_when"
        if network.max_iter and call_count >= network.max_iter:
            return "max_iter"
        limits = network.usage_limits
        return "usage_limit" if limits is not None and limits.reached(*usage_of_run(state)) else None

    async def _end_run(
        self, outcome: dict[str, Any], state: Values, update: dict[str, Any], run_view: RunView, runtime: Runtime[Any]
    ) -> Command[Any]:
        """Save the results of the run in the user-supplied storage, and return the Command that ends the run."""
        history = self._network.history
        if history is not None:
            await history.save_results(run_view.state.thread_id, results_of_run(state), run_view.kwargs, runtime)
        run_agents(self._network, runtime).forget()
        return Command(update={**update, **_data_update(run_view), **outcome}, goto=END)

    async def agent(self, target: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        """Call an agent, and return the update with its result.

        `target` has the name of the agent under `agent`, and the position of the call in the thread under `position`.
        """
        state, agent = runtime.state, run_agents(self._network, runtime).find(target["agent"])
        result, data, scheduled = await self._call_agent(agent, state, str(target["position"]), runtime)
        queue = [*state.get("queue", ()), *scheduled]
        counts = {"position": target["position"] + 1, "call_count": state.get("call_count", 0) + 1}
        return {**data, "turns": [result], "queue": queue, **counts}

    async def _call_agent(
        self, agent: Agent, state: Values, key: str, runtime: Runtime[Any]
    ) -> tuple[AgentResult, dict[str, Any], Sequence[str]]:
        """Call an agent; return its result, the update of data and notes, and the names of the agents it scheduled.

        `key` identifies the call in the thread.
        """
        with enter_call(build_agent_call(self._network, state, runtime, agent)):
            values = await agent.graph.ainvoke({"iteration": 0}, call_key=key, recursion_limit=NO_LIMIT)
        update = with_prefix(data_fields(values))
        if values.get("notes"):
            update["notes"] = {**state.get("notes", {}), agent.name: values["notes"]}
        return values["result"], update, values.get("scheduled", ())


def _last_cut_short(results: Sequence[AgentResult]) -> str | None:
    """Return the stop reason of the last result if its answer was cut off or refused; None otherwise."""
    return results[-1].stop_reason if results and results[-1].stop_reason in CUT_SHORT else None


def _router_kwargs(run_view: RunView) -> dict[str, Any]:
    """Return the arguments that the parameters of a router function may name."""
    network = run_view.network
    return {
        **run_view.kwargs,
        "input": network.input,
        "message": network.message,
        "stack": network.stack,
        "call_count": network.call_count,
        "last_result": network.last_result,
    }


def _data_update(run_view: RunView) -> dict[str, Any]:
    """Return the update with the changes that a router made to the data."""
    return {name: value for name, value in run_view.update().items() if name != "scheduled"}
