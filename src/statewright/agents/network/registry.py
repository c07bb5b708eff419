"""The registry of the agents that a network can call, by name.

The state of a network stores names of agents, so that it can be saved; a run that is resumed in another process has
nothing but these. Declared agents are found by name in every process. So are undeclared ones that the router function
refers to, in its globals, closure, defaults or bound arguments: they are found by inspecting it. Agents that a router
creates while it runs are remembered for that run only, in this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any, Final, cast

from statewright.agents.agent import Agent
from statewright.errors import InvalidConfig, RoutingError, RunError, suggestion
from statewright.lru_cache import LRUCache

MAX_RUNS: Final = 10_000
"""Maximum number of runs for which undeclared agents are remembered. They are forgotten when a run ends."""


class AgentRegistry:
    """The agents of a network by name: declared ones, and those that the router function refers to."""

    def __init__(self, network: str, agents: Sequence[Agent], router: object) -> None:
        self.network = network
        self.declared: Mapping[str, Agent] = agents_by_name(f"Network {network!r}", agents)
        # A run that is resumed in another process must find undeclared agents that its router returns.
        self.implicit = {agent.name: agent for agent in reachable_agents(router)} if callable(router) else {}
        self.admitted: LRUCache[str, dict[str, Agent]] = LRUCache(MAX_RUNS)
        """The undeclared agents that the router of a run has returned, by run and name."""

    def declare(self, agent: Agent) -> None:
        """Add a declared agent. Raises InvalidConfig if another one has its name."""
        self.declared = agents_by_name(f"Network {self.network!r}", [*self.declared.values(), agent])


class RunAgents:
    """The agents that one run can call, with those that its own router has created."""

    def __init__(self, registry: AgentRegistry, run: str) -> None:
        self._registry = registry
        self._run = run

    def find(self, name: str) -> Agent:
        """Return an agent by name. Raises RoutingError if there is none."""
        registry = self._registry
        agents = {**registry.implicit, **registry.declared, **(registry.admitted.get(self._run) or {})}
        if name not in agents:
            raise RoutingError(
                f"Network {registry.network!r} has no agent {name!r}. {suggestion(name, agents, noun='Agents')} "
                f"A resumed run finds an agent that a router creates only if it is declared, and needs the router that "
                f"was passed for it again."
            )
        return agents[name]

    def resolve_names(self, answer: Any) -> list[str]:
        """Return the names of the agents that a router returned. Raises RoutingError for anything else."""
        if answer is None:
            return []
        items = list(cast("Iterable[Any]", answer)) if isinstance(answer, list | tuple) else [answer]
        agents = {id(item): item for item in items if isinstance(item, Agent)}
        agents_by_name(f"The router of network {self._registry.network!r}", list(agents.values()), RoutingError)
        return [self._resolve_name(item) for item in items]

    def _resolve_name(self, item: Any) -> str:
        if isinstance(item, str):
            return self.find(item).name
        if not isinstance(item, Agent):
            raise RoutingError(
                f"The router of network {self._registry.network!r} returned {item!r} of type {type(item).__name__}. "
                f"Return an agent, a list of agents or names, or None to stop."
            )
        self.admit(item)
        return item.name

    def admit(self, agent: Agent) -> None:
        """Remember an agent for this run. Raises RoutingError if another one was declared with its name."""
        declared = self._registry.declared.get(agent.name)
        if declared is not None and declared is not agent:
            raise RoutingError(
                f"The router of network {self._registry.network!r} returned another agent {agent.name!r} than the one "
                f"that was declared. Rename one of them."
            )
        if declared is None and self._registry.implicit.get(agent.name) is not agent:
            admitted = self._registry.admitted
            admitted.put(self._run, {**(admitted.get(self._run) or {}), agent.name: agent})

    def forget(self) -> None:
        """Forget the agents of this run, which has ended."""
        self._registry.admitted.pop(self._run)


def agents_by_name(owner: str, agents: Sequence[Agent], error: type[RunError] = InvalidConfig) -> dict[str, Agent]:
    """Return agents by name. Raises `error` for a duplicate name, and InvalidConfig for anything but an agent."""
    by_name: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(f"{owner} has {agent!r} among its agents, which is not an Agent.")
        if by_name.setdefault(agent.name, agent) is not agent:
            raise error(f"{owner} has two agents named {agent.name!r}. Rename one of them.")
    return by_name


def reachable_agents(router: Any) -> Iterator[Agent]:
    """Yield the agents that a router refers to: in bound arguments, globals, its closure and defaults."""
    for value in _reachable_values(router):
        yield from (item for item in _contained_values(value) if isinstance(item, Agent))


def _reachable_values(router: Any) -> Iterator[Any]:
    """Yield the values that the code of a function or callable object refers to by name."""
    if isinstance(router, partial):
        bound = cast("partial[Any]", router)
        yield from (*bound.args, *bound.keywords.values(), *_reachable_values(bound.func))
        return
    function: Any = inspect.unwrap(router)
    if not hasattr(function, "__code__") and not inspect.ismethod(function):  # a callable object
        function = getattr(function, "__call__", function)  # noqa: B004  # the method is wanted
    yield from getattr(getattr(function, "__self__", None), "__dict__", {}).values()
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        module_values = function.__globals__
        yield from (module_values.get(name) for name in dict.fromkeys(_global_names(code)))
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_cell_set(cell))
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _contained_values(value: Any) -> Iterable[Any]:
    """Return a value, or the items of a list or a mapping."""
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
