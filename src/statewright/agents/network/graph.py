"""The graph of a network: a router chooses an agent, the agent is called, and again.

    route -> agent -> route ... until the router chooses nobody

Both steps are saved supersteps. The router's choice is part of the frontier, so the router is called once per
position, and an agent that was interrupted is resumed where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import await_with
from statewright.agents.loop.call import View, data_in, entered
from statewright.agents.loop.model_call import CUT_SHORT
from statewright.agents.network.routing_agent import RoutingAgent
from statewright.agents.network.start import begun, with_turns
from statewright.agents.network.state import (
    NETWORK_STATE,
    Values,
    called_with,
    check_known,
    crew_of,
    kept_of_discarded,
    said_since,
    spent,
    view_of,
)
from statewright.agents.state.data import PREFIX
from statewright.agents.state.result import AgentResult
from statewright.channels import Overwrite
from statewright.errors import InvalidConfig
from statewright.graph import END, START, Command, Runtime, Send
from statewright.models import Usage
from statewright.runtime import StateGraph
from statewright.runtime.unfinished import DISCARDED

if TYPE_CHECKING:
    from statewright.agents.network.network import Network

NO_LIMIT: Final = 1_000_000_000
"""Supersteps of one call of an agent: it is bound by max_iter, and its tool calls by what its model asks for."""
_WAYS: Final = (("agent", "declared", ""), (END, "declared", ""))

_KEPT: Final = {DISCARDED: kept_of_discarded}


def network_graph(network: Network[Any]) -> StateGraph:
    """The graph, to be compiled."""
    steps = _Steps(network)
    graph = StateGraph({**NETWORK_STATE, **network.form.entries})
    graph.add_node("route", steps.route, destinations=["agent", "route"], metadata={"drawn": _WAYS, **_KEPT})
    graph.add_node("agent", steps.agent, metadata={"transparent": True, **_KEPT, **_boxes(network)})
    graph.add_edge(START, "route")
    graph.add_edge("agent", "route")
    return graph


def _boxes(network: Network[Any]) -> dict[str, Any]:
    """The declared agents, which are drawn in the place of the one node that calls them all."""
    agents = network.agents
    return {"boxes": {name: partial(_graph_of, agent) for name, agent in agents.items()}} if agents else {}


def _graph_of(agent: Agent) -> Any:
    return agent.graph.graph


class _Steps:
    """The nodes."""

    def __init__(self, network: Network[Any]) -> None:
        self._network = network

    # -- route

    async def route(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Decide who comes next, or that nobody does."""
        check_known(state)
        update: dict[str, Any] = {}
        if state.get("input") is not None:
            update = await begun(self._network, state, runtime)
            state = with_turns(state, update)
        view = view_of(self._network, state, runtime)
        if state.get("routing") is None:
            reason = await self._stop_reason(state, view)
            if reason is not None:
                return await self._ended({"stop_reason": reason}, state, update, view, runtime)
        self._check_enabled(view)
        crew, routing = crew_of(self._network, runtime), state.get("routing")
        router: Any = self._network.router if routing is None else crew.find(routing)
        if isinstance(router, RoutingAgent):
            return await self._routed(router, state, update, runtime)
        chosen = await await_with(router, _asked(view))
        if isinstance(chosen, RoutingAgent):  # its turn comes next: what the function decided is saved before
            crew.admit(chosen)
            return Command(update={**update, **_left(view), "routing": chosen.name}, goto="route")
        return await self._next(chosen, state, update, view, runtime)

    async def _routed(
        self, router: RoutingAgent, state: Values, update: dict[str, Any], runtime: Runtime[Any]
    ) -> Command[Any]:
        """Let an agent choose who comes next."""
        result, left, scheduled = await self._called(router, state, f"route {state.get('position', 0)}", runtime)
        routed = Overwrite([result]) if "routed" in update else [result]  # the first of a run begins a new list
        usage = Usage(*state.get("routing_usage") or ()) + result.usage
        update = {**update, **left, "routed": routed, "routing": None, "routing_usage": usage.to_list()}
        view = view_of(self._network, {**state, **left, "routing_usage": usage.to_list()}, runtime)
        if result.stop_reason == "usage_limit":  # it could not say whom it chooses, and nobody could be called
            return await self._ended({"stop_reason": "usage_limit"}, state, update, view, runtime)
        chosen = crew_of(self._network, runtime).names(await router.chosen(result, view.network))
        return await self._next([*scheduled, *chosen], state, update, view, runtime)

    async def _next(
        self, chosen: Any, state: Values, update: dict[str, Any], view: View, runtime: Runtime[Any]
    ) -> Command[Any]:
        """Call the first of those that wait, after those that were chosen have joined them."""
        chosen = crew_of(self._network, runtime).names(chosen)
        queue = [*state.get("queue", ()), *chosen, *view.network.scheduled]
        if not queue:
            summary = view.network.summary
            reason = "done" if summary is not None else _cut_short(said_since(state)) or "completed"
            ended = {"stop_reason": reason, "summary": summary}
            return await self._ended(ended, state, update, view, runtime)
        name, *rest = queue
        called = Send("agent", {"agent": name, "position": state.get("position", 0)})
        return Command(update={**update, **_left(view), "queue": rest}, goto=called)

    def _check_enabled(self, view: View) -> None:
        if self._network.agents and not view.network.available_agents:
            raise InvalidConfig(
                f"There are no agents enabled in network {self._network.name!r}: the hooks `enabled` of all say no."
            )

    async def _stop_reason(self, state: Values, view: View) -> str | None:
        """Why no other agent is called, if that is so before the router is asked."""
        network, calls = self._network, view.network.call_count
        if not calls:
            return None
        asked = {**view.known, "result": view.network.last_result}
        if network.stop_when is not None and await await_with(network.stop_when, asked):
            return "stop_when"
        if network.max_iter and calls >= network.max_iter:
            return "max_iter"
        limits = network.usage_limits
        return "usage_limit" if limits is not None and limits.reached(*spent(state)) else None

    async def _ended(
        self, ended: dict[str, Any], state: Values, update: dict[str, Any], view: View, runtime: Runtime[Any]
    ) -> Command[Any]:
        history = self._network.history
        if history is not None:
            thread = view.state.thread_id
            await history.keep_results(thread, said_since(state), view.known, runtime)
        crew_of(self._network, runtime).forget()
        return Command(update={**update, **_left(view), **ended}, goto=END)

    # -- agent

    async def agent(self, asked: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        """Call an agent, and keep what it said."""
        state, agent = runtime.state, crew_of(self._network, runtime).find(asked["agent"])
        result, left, scheduled = await self._called(agent, state, str(asked["position"]), runtime)
        queue = [*state.get("queue", ()), *scheduled]
        counts = {"position": asked["position"] + 1, "call_count": state.get("call_count", 0) + 1}
        return {**left, "turns": [result], "queue": queue, **counts}

    async def _called(
        self, agent: Agent, state: Values, key: str, runtime: Runtime[Any]
    ) -> tuple[AgentResult, dict[str, Any], Sequence[str]]:
        """What an agent said, what it changed, and whom it scheduled."""
        with entered(called_with(self._network, state, runtime, agent)):
            end = await agent.graph.ainvoke({"iteration": 0}, call_key=key, recursion_limit=NO_LIMIT)
        left = {f"{PREFIX}{name}": value for name, value in data_in(end).items()}
        if end.get("notes"):
            left["notes"] = {**state.get("notes", {}), agent.name: end["notes"]}
        return end["result"], left, end.get("scheduled", ())


def _cut_short(results: Sequence[AgentResult]) -> str | None:
    """The stop reason of the last result, if its answer was cut off or refused."""
    return results[-1].stop_reason if results and results[-1].stop_reason in CUT_SHORT else None


def _asked(view: View) -> dict[str, Any]:
    """What a router that is a function may ask for."""
    network = view.network
    return {
        **view.known,
        "input": network.input,
        "message": network.message,
        "stack": network.stack,
        "call_count": network.call_count,
        "last_result": network.last_result,
    }


def _left(view: View) -> dict[str, Any]:
    """What a router has changed in the data."""
    return {name: value for name, value in view.update().items() if name != "scheduled"}
