"""The graph of a network: a router decides, an agent is called, and again.

    route -> agent -> route ... until the router names nobody

Both are supersteps that are saved. What the router decided stands in the frontier, so it is asked once for each place;
and an agent that was under way goes on where it was.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.call import AgentCall, View, data_in, entered
from statewright.agents.data import PREFIX
from statewright.agents.given import await_with
from statewright.agents.limits import used_up
from statewright.agents.result import USER, AgentResult
from statewright.agents.routing_agent import RoutingAgent
from statewright.agents.state import user_turn
from statewright.channels import Ephemeral
from statewright.errors import ModelError
from statewright.graph import END, START, Command, Runtime, Send
from statewright.messages import Message
from statewright.runtime import StateGraph

if TYPE_CHECKING:
    from statewright.agents.network import Network

Values = Mapping[str, Any]
NO_AGENTS: Final = "no agents enabled in network"


def network_graph(network: Network[Any]) -> StateGraph:
    """The graph, to be compiled."""
    steps = _Steps(network)
    graph = StateGraph({**_STATE, **network.form.entries})
    graph.add_node("route", steps.route, destinations=["agent", "route"], metadata={"drawn": _WAYS})
    graph.add_node("agent", steps.agent, metadata={"transparent": True, **_boxes(network)})
    graph.add_edge(START, "route")
    graph.add_edge("agent", "route")
    return graph


_WAYS: Final = (("agent", "declared", ""), (END, "declared", ""))


def _boxes(network: Network[Any]) -> dict[str, Any]:
    """The declared agents, which are drawn in the place of the one node that calls them all."""
    agents = network.roster.declared
    return {"boxes": {name: partial(_graph_of, agent) for name, agent in agents.items()}} if agents else {}


def _graph_of(agent: Agent) -> Any:
    return agent.graph.graph


_STATE: Final[Mapping[str, Any]] = {
    "input": Annotated[Any, Ephemeral()],
    "message": Message,
    "messages": list[Message],
    "turns": Annotated[list[AgentResult], operator.add],
    "queue": list[str],
    "routing": str,
    "position": int,
    "call_count": int,
    "first": int,
    "stop_reason": str,
    "summary": str,
    "history_thread": str,
}
"""Beside the fields of the data. `first` is the place among the turns where the present run began."""


class _Steps:
    """The nodes."""

    def __init__(self, network: Network[Any]) -> None:
        self._network = network
        self._roster = network.roster

    # -- route

    async def route(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Decide who comes next, or that nobody does."""
        update: dict[str, Any] = {}
        if state.get("input") is not None:
            update = await self._begun(state, runtime)
            state = _with(state, update)
        view = self._view(state)
        reason = await self._stop_reason(state, view)
        if reason is not None:
            return await self._ended(state, {**update, "stop_reason": reason}, view, runtime)
        return await self._routed(state, update, view, runtime)

    async def _routed(self, state: Values, update: dict[str, Any], view: View, runtime: Runtime[Any]) -> Command[Any]:
        """Ask the router, and call the first of those that wait."""
        chosen = await self._choice(state, view, runtime)
        if isinstance(chosen, RoutingAgent):
            self._roster.admit(chosen)
            return Command(update={**update, **self._left(view), "routing": chosen.name}, goto="route")
        queue = [*state.get("queue", ()), *self._roster.names(chosen), *self._scheduled(view)]
        update = {**update, **self._left(view), "routing": None}
        if not queue:
            summary = view.network.summary
            reason = "done" if summary is not None else "completed"
            return await self._ended(state, {**update, "stop_reason": reason, "summary": summary}, view, runtime)
        name, *rest = queue
        position = state.get("position", 0)
        return Command(update={**update, "queue": rest}, goto=Send("agent", {"agent": name, "position": position}))

    async def _choice(self, state: Values, view: View, runtime: Runtime[Any]) -> Any:
        """What the router answers: agents, or an agent that chooses, whose turn comes next."""
        router = self._network.router
        routing = state.get("routing")
        if routing is not None or isinstance(router, RoutingAgent):
            by = self._roster.find(routing) if routing is not None else router
            return await self._routing_agent(by, state, view)
        network = view.network
        if self._roster.declared and not network.available_agents:
            raise ModelError(f"There are {NO_AGENTS} {self._network.name!r}: the hooks `enabled` of all say no.")
        known = {
            **view.known,
            "input": network.input,
            "message": network.message,
            "stack": network.stack,
            "call_count": network.call_count,
            "last_result": network.last_result,
        }
        return await await_with(router, known)

    async def _routing_agent(self, by: Any, state: Values, view: View) -> Any:
        result, _ = await self._called(by, state, f"route-{state.get('position', 0)}")
        return await by.chosen(result, view.network)

    # -- agent

    async def agent(self, asked: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        """Call an agent, and keep what it said."""
        state = runtime.state
        result, left = await self._called(self._roster.find(asked["agent"]), state, str(asked["position"]))
        queue = [*state.get("queue", ()), *(self._roster.find(name).name for name in left.pop("scheduled", ()))]
        counts = {"position": asked["position"] + 1, "call_count": state.get("call_count", 0) + 1}
        return {**left, "turns": [result], "queue": queue, **counts}

    async def _called(self, agent: Agent, state: Values, key: str) -> tuple[AgentResult, dict[str, Any]]:
        """What an agent said, and what it changed."""
        with entered(self._call(state, agent)):
            end = await agent.graph.ainvoke({"iteration": 0}, call_key=key)
        left = {name: value for name, value in end.items() if name.startswith(PREFIX) or name == "scheduled"}
        return end["result"], left

    # -- the beginning and the end

    async def _begun(self, state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
        """What a run begins with: what the user said, on a conversation that may be older."""
        network, message = self._network, state["input"]
        update: dict[str, Any] = {"message": message, "call_count": 0, "queue": [], "routing": None}
        update.update({"stop_reason": None, "summary": None})
        first = [user_turn(message)] if message.text or message.content else []
        if "position" not in state:
            update.update(self._defaults(state))
        known = self._view({**state, **update}).known
        thread = await self._thread(state, update, known, message, runtime)
        before = [*state.get("turns", ()), *update.get("turns", ())]
        update["turns"] = [*update.get("turns", ()), *first]
        update["first"] = len(before) + len(first)
        if network.history is not None:
            await network.history.keep_message(thread, message, known, runtime)
        return update

    def _defaults(self, state: Values) -> dict[str, Any]:
        """What a new conversation begins with, where its caller has not given it."""
        network = self._network
        given = {f"{PREFIX}{name}": value for name, value in network.defaults.items()}
        found: dict[str, Any] = {name: value for name, value in given.items() if name not in state}
        found["position"] = 0
        if "messages" not in state:
            found["messages"] = network.default_state.messages
        if not state.get("turns"):
            found["turns"] = network.default_state.turns
        return found

    async def _thread(
        self, state: Values, update: dict[str, Any], known: Any, message: Message, runtime: Runtime[Any]
    ) -> str | None:
        """The thread of the conversation at its owner's; what was said there before becomes part of the update."""
        history = self._network.history
        given = state.get("history_thread") or self._network.default_state.thread_id
        given = given or runtime.execution_info.thread_id
        if history is None:
            return given
        asked = {**known, "input": message.text}
        thread = await history.thread_of(given, asked, runtime)
        update["history_thread"] = thread
        has_any = any([*state.get("turns", ()), *update.get("turns", ())]) or bool(known["state"].messages)
        if given is not None and not has_any:
            update["turns"] = await history.before(given, asked, runtime)
        return thread

    async def _stop_reason(self, state: Values, view: View) -> str | None:
        """Why no other agent is called, if that is so before the router is asked."""
        network, calls = self._network, view.network.call_count
        if not calls:
            return None
        last = view.network.last_result
        if network.stop_when is not None and await await_with(network.stop_when, {**view.known, "result": last}):
            return "stop_when"
        if network.max_iter and calls >= network.max_iter:
            return "max_iter"
        usage, requests = used_up(self._of_run(state))
        limits = network.usage_limits
        return "usage_limit" if limits is not None and limits.reached(usage, requests) else None

    async def _ended(self, state: Values, update: dict[str, Any], view: View, runtime: Runtime[Any]) -> Command[Any]:
        if self._network.history is not None:
            thread = state.get("history_thread") or runtime.execution_info.thread_id
            await self._network.history.keep_results(thread, self._of_run(state), view.known, runtime)
        return Command(update={**update, **self._left(view)}, goto=END)

    # -- what the parts see

    def _view(self, state: Values) -> View:
        return View(self._call(state, None), {})

    def _left(self, view: View) -> dict[str, Any]:
        """What the router has changed in the data."""
        return {name: value for name, value in view.update().items() if name != "scheduled"}

    def _scheduled(self, view: View) -> list[str]:
        return [self._roster.find(name).name for name in view.network.scheduled]

    def _of_run(self, state: Values) -> list[AgentResult]:
        """What agents have said since the user spoke."""
        return [one for one in state.get("turns", ())[state.get("first", 0) :] if one.agent_name != USER]

    def _call(self, state: Values, agent: Agent | None) -> AgentCall:
        network = self._network
        usage, requests = used_up(self._of_run(state))
        wants_default = agent is not None and agent.model is None
        return AgentCall(
            network=network.name,
            agents=self._roster.declared,
            form=network.form,
            values=data_in(state),
            messages=state.get("messages", ()),
            turns=state.get("turns", ()),
            message=state.get("message"),
            thread_id=state.get("history_thread"),
            stack=[self._roster.find(name) for name in state.get("queue", ())],
            call_count=state.get("call_count", 0),
            default_model=network.default_chat_model if wants_default else None,
            limits=network.usage_limits,
            usage=usage,
            requests=requests,
            formatter=network.formatter,
        )


def _with(state: Values, update: Values) -> Values:
    """The state as it will be after an update; turns are added."""
    turns = [*state.get("turns", ()), *update.get("turns", ())]
    return {**state, **update, "turns": turns}
