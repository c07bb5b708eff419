"""Routers, and the registry that maps the agent names in their answers to agents."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any, Final, cast

from statewright.agents.agent import Agent
from statewright.agents.network.routing_agent import RoutingAgent
from statewright.errors import InvalidConfig, RoutingError, RunError, suggestion

Router = Callable[..., Any] | RoutingAgent
"""A function of `input`, `network`, `state`, `stack`, `call_count` and `last_result`, or an agent that chooses."""


MOST_RUNS: Final = 10_000
"""For how many runs a network remembers agents that were not declared. A run that ends is forgotten anyway."""


class AgentRegistry:
    """The agents of a network by name: those that were declared, and those that stand where its router gets at them."""

    def __init__(self, network: str, agents: Sequence[Agent], router: Router | None) -> None:
        self.network = network
        self.declared: Mapping[str, Agent] = agents_by_name(f"Network {network!r}", agents)
        # A run that goes on in another process must find those whom its router names without their being declared.
        self.implicit = {agent.name: agent for agent in reachable_agents(router)} if callable(router) else {}
        self._admitted: OrderedDict[str, dict[str, Agent]] = OrderedDict()

    def declare(self, agent: Agent) -> None:
        """Add an agent. Raises InvalidConfig if another one has its name."""
        self.declared = agents_by_name(f"Network {self.network!r}", [*self.declared.values(), agent])

    def for_run(self, run: str) -> RunAgents:
        """The agents of one run: those that its own router has made are nobody else's."""
        return RunAgents(self, run)

    def admitted_agents(self, run: str) -> Mapping[str, Agent]:
        """The agents that the router of a run has answered without their being known."""
        return self._admitted.get(run, {})

    def admit(self, run: str, agent: Agent) -> None:
        """Remember an agent for the rest of a run."""
        self._admitted.setdefault(run, {})[agent.name] = agent
        self._admitted.move_to_end(run)
        while len(self._admitted) > MOST_RUNS:
            self._admitted.popitem(last=False)

    def forget(self, run: str) -> None:
        """A run has ended."""
        self._admitted.pop(run, None)


class RunAgents:
    """The agents that one run can call."""

    def __init__(self, roster: AgentRegistry, run: str) -> None:
        self._registry = roster
        self._run = run

    def find(self, name: str) -> Agent:
        """The agent of a name. Raises RoutingError if there is none."""
        roster = self._registry
        known = {**roster.implicit, **roster.declared, **roster.admitted_agents(self._run)}
        if name not in known:
            raise RoutingError(
                f"Network {roster.network!r} has no agent {name!r}. {suggestion(name, known, noun='Agents')} An agent "
                f"that a router makes is found again only where it is declared; a router that was given for one run "
                f"has to be given again to go on with it."
            )
        return known[name]

    def resolve_names(self, answer: Any) -> list[str]:
        """The names of the agents that a router answered. Raises RoutingError for what is no agent."""
        if answer is None:
            return []
        several = list(cast("Iterable[Any]", answer)) if isinstance(answer, list | tuple) else [answer]
        agents = {id(one): one for one in several if isinstance(one, Agent)}
        agents_by_name(f"The router of network {self._registry.network!r}", list(agents.values()), RoutingError)
        return [self._resolve_name(one) for one in several]

    def _resolve_name(self, one: Any) -> str:
        if isinstance(one, str):
            return self.find(one).name
        if not isinstance(one, Agent):
            raise RoutingError(
                f"The router of network {self._registry.network!r} answered {one!r} of type {type(one).__name__}. Return "
                f"an agent, several, their names, or None to stop."
            )
        self.admit(one)
        return one.name

    def admit(self, agent: Agent) -> None:
        """Know an agent by its name. Raises RoutingError if another one was declared under it."""
        declared = self._registry.declared.get(agent.name)
        if declared is not None and declared is not agent:
            raise RoutingError(
                f"The router of network {self._registry.network!r} answered another agent {agent.name!r} than the one "
                f"that was declared. Give one of them another name."
            )
        if declared is None and self._registry.implicit.get(agent.name) is not agent:
            self._registry.admit(self._run, agent)

    def forget(self) -> None:
        """The run has ended."""
        self._registry.forget(self._run)


def agents_by_name(owner: str, agents: Sequence[Agent], refusal: type[RunError] = InvalidConfig) -> dict[str, Agent]:
    """Agents by their names. Raises what is to be raised where two have one, or something is no agent."""
    found: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(f"{owner} has {agent!r} among its agents, which is no Agent.")
        if found.setdefault(agent.name, agent) is not agent:
            raise refusal(f"{owner} has two agents of the name {agent.name!r}.")
    return found


def reachable_agents(router: Any) -> Iterator[Agent]:
    """The agents that a router can name: in what it was bound to, its globals, its closure, its defaults."""
    for value in _reachable_values(router):
        yield from (one for one in _contained_values(value) if isinstance(one, Agent))


def _reachable_values(router: Any) -> Iterator[Any]:
    """The values that the code of a function, or of what can be called like one, gets at by a name."""
    if isinstance(router, partial):
        bound = cast("partial[Any]", router)
        yield from (*bound.args, *bound.keywords.values(), *_reachable_values(bound.func))
        return
    function: Any = inspect.unwrap(router)
    if not hasattr(function, "__code__") and not inspect.ismethod(function):  # an object that can be called
        function = getattr(function, "__call__", function)  # noqa: B004  # the method is wanted
    yield from getattr(getattr(function, "__self__", None), "__dict__", {}).values()
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        known = function.__globals__
        yield from (known.get(name) for name in dict.fromkeys(_global_names(code)))
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_cell_set(cell))
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _contained_values(value: Any) -> Iterable[Any]:
    """The value, or the values that a list or a mapping holds."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).values()
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _is_cell_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading it is the question
    except ValueError:
        return False
    return True
