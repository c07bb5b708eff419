"""The definition of a network: its agents, its router, its initial state and its limits.

The saved state of a network has only the names of agents, so a run that is resumed in another process has to find the
agents by name. Declared agents are found in every process. So are undeclared agents to which the router function refers
in its globals, closure, defaults or bound arguments, because the function is inspected for them. Agents that a router
creates while it runs are remembered only for that run, and only in this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from types import CodeType
from typing import Any, Final, Generic, Self, TypeVar, cast

from statewright.agents.agent import Agent, is_count
from statewright.agents.loop.run import NetworkRun
from statewright.agents.network.router import Router, RoutingAgent, default_router
from statewright.agents.state.data import field_values
from statewright.agents.state.result import UsageLimits
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.thread_history import ThreadHistory
from statewright.errors import InvalidConfig, RoutingError, RunError, suggestion
from statewright.lru_cache import LRUCache
from statewright.models import ChatModel, as_chat_model

T = TypeVar("T")

MAX_RUNS: Final = 10_000
"""Maximum number of unfinished runs for which undeclared agents are remembered."""


class NetworkDefinition(Generic[T]):
    """The agents of a network, its router, its initial state and its limits."""

    def __init__(
        self,
        name: str,
        *,
        agents: Sequence[Agent] = (),
        router: Router | None = None,
        state: State[T] | T | type[T] | Mapping[str, Any] | None = None,
        default_model: Any = None,
        max_iter: int = 0,
        stop_when: Callable[..., Any] | None = None,
        usage_limits: UsageLimits | None = None,
        history: ThreadHistory | None = None,
        formatter: Formatter = result_messages,
        description: str = "",
    ) -> None:
        self.name = name
        self.description = description
        self.default_model = default_model
        self.router: Router = cast(Any, router) if router is not None else default_router()
        self.default_state: State[T] = state if isinstance(state, State) else State(cast(Any, state))
        self.data_schema = self.default_state.data_schema
        self.max_iter = max_iter
        """Maximum number of agent calls in one run; 0 for no limit."""
        self.stop_when = stop_when
        """`(result, state, network) -> bool`: called after each agent call; True to end the run."""
        self.usage_limits = usage_limits
        self.history = history
        self.formatter: Formatter = formatter
        problems = [*self._problems(router)]
        if problems:
            raise InvalidConfig(f"Network {name!r} is invalid: " + " ".join(problems))
        self.registry = AgentRegistry(name, agents, router)
        self._models: Mapping[str | None, Any] = {}

    def _problems(self, router: object) -> Iterator[str]:
        name, hook, limits, history = cast("Any", (self.name, self.stop_when, self.usage_limits, self.history))
        if not isinstance(name, str) or not name.strip():
            yield "it has no name."
        if router is None and self.default_model is None:
            yield "it has no router. Pass a router, or a default_model for the default router."
        if not (router is None or isinstance(router, RoutingAgent) or callable(router)):
            yield f"router is {router!r}. Pass a function that returns agents, or a RoutingAgent."
        if not is_count(self.max_iter):
            yield f"max_iter is {self.max_iter!r}. Pass 0 or a positive integer."
        if not (hook is None or callable(hook)):
            yield f"stop_when is {hook!r}. Pass a function."
        if not isinstance(limits, UsageLimits | None):
            yield f"usage_limits is {limits!r}. Pass UsageLimits."
        if not isinstance(history, ThreadHistory | None):
            yield f"history is {history!r}. Pass a ThreadHistory."

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The declared agents, by name."""
        return self.registry.declared

    def add_agent(self, agent: Agent) -> None:
        """Declare another agent. Raises InvalidConfig if its name is taken."""
        self.registry.declare(agent)

    def available_agents(self, state: State[T] | None = None) -> list[Agent]:
        """Return the declared agents that are enabled in a state; by default, in the initial state."""
        return NetworkRun(self.name, state or self.default_state.clone(), self.agents).available_agents

    @property
    def defaults(self) -> dict[str, Any]:
        """The initial data of new conversations."""
        return field_values(self.default_state.data)

    @cached_property
    def default_chat_model(self) -> ChatModel | None:
        """The default model, resolved if it is a name; None if there is none."""
        return as_chat_model(self.default_model) if self.default_model is not None else None

    def with_models(self, model: Any = None, /, **by_agent: Any) -> Self:
        """Return a copy of the network with other models.

        `by_agent` maps names of agents to models, and `model` is the model of all other agents. The agents are not
        copied, so a router may still return them. Raises InvalidConfig for the name of an undeclared agent.
        """
        unknown = next((name for name in by_agent if name not in self.agents), None)
        if unknown is not None:
            hint = suggestion(unknown, self.agents, noun="Agents")
            raise InvalidConfig(f"Network {self.name!r} has no agent {unknown!r}. {hint}")
        models = {name: as_chat_model(value) for name, value in by_agent.items()}
        for_all = {None: as_chat_model(model)} if model is not None else {}
        network = self._copy()
        network._models = {**self._models, **for_all, **models}
        return network

    def model_for(self, agent: Agent) -> ChatModel | None:
        """Return the model that `with_models` set for an agent; None if it set none."""
        return self._models.get(agent.name) or self._models.get(None)

    def _copy(self) -> Self:
        network = copy(self)
        network.__dict__.pop("default_chat_model", None)  # cached for the original's default model
        return network


# -- agents by name


class AgentRegistry:
    """The agents of a network by name: the declared agents, and those that its router refers to or has created."""

    def __init__(self, network: str, agents: Sequence[Agent], router: object) -> None:
        self.network = network
        self.declared: Mapping[str, Agent] = agents_by_name(f"Network {network!r}", agents)
        self.referenced = {agent.name: agent for agent in reachable_agents(router)} if callable(router) else {}
        """The undeclared agents to which the router refers."""
        self.admitted: LRUCache[str, dict[str, Agent]] = LRUCache(MAX_RUNS)
        """The undeclared agents that routers have returned in unfinished runs, by run key and then by agent name."""

    def declare(self, agent: Agent) -> None:
        """Add a declared agent. Raises InvalidConfig if another agent has its name."""
        self.declared = agents_by_name(f"Network {self.network!r}", [*self.declared.values(), agent])


class RunAgents:
    """The agents that one run can call, including those that its router has created."""

    def __init__(self, registry: AgentRegistry, run_key: str) -> None:
        self._registry = registry
        self._run_key = run_key

    def find(self, name: str) -> Agent:
        """Return an agent by name. Raises RoutingError if there is none."""
        registry = self._registry
        agents = {**registry.referenced, **registry.declared, **(registry.admitted.get(self._run_key) or {})}
        if name not in agents:
            raise RoutingError(
                f"Network {registry.network!r} has no agent {name!r}. {suggestion(name, agents, noun='Agents')} "
                f"An agent that a router creates must be declared to be found by a resumed run; and a run that was "
                f"started with router= must be resumed with the same router."
            )
        return agents[name]

    def resolve_names(self, answer: Any) -> list[str]:
        """Return the names of the agents in the answer of a router. Raises RoutingError if the answer is invalid."""
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
        """Remember an agent for this run. Raises RoutingError if another agent was declared under the same name."""
        declared = self._registry.declared.get(agent.name)
        if declared is not None and declared is not agent:
            raise RoutingError(
                f"The router of network {self._registry.network!r} returned an agent {agent.name!r}, but another one "
                f"is declared under this name. Rename one of them."
            )
        if declared is None and self._registry.referenced.get(agent.name) is not agent:
            admitted = self._registry.admitted
            admitted.put(self._run_key, {**(admitted.get(self._run_key) or {}), agent.name: agent})

    def forget(self) -> None:
        """Forget the undeclared agents of this run, which has ended."""
        self._registry.admitted.pop(self._run_key)


def agents_by_name(owner: str, agents: Sequence[Agent], error: type[RunError] = InvalidConfig) -> dict[str, Agent]:
    """Return agents by name. `owner` describes their network in errors.

    Raises `error` for a duplicate name, and InvalidConfig for a value that is not an Agent.
    """
    by_name: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(f"{owner} has {agent!r} among its agents, which is not an Agent.")
        if by_name.setdefault(agent.name, agent) is not agent:
            raise error(f"{owner} has two agents named {agent.name!r}. Rename one of them.")
    return by_name


def reachable_agents(router: Any) -> Iterator[Agent]:
    """Yield the agents to which a router refers, directly or in a list or mapping."""
    for value in _reachable_values(router):
        yield from (item for item in _contained_values(value) if isinstance(item, Agent))


def _reachable_values(router: Any) -> Iterator[Any]:
    """Yield the values of the bound arguments, attributes, globals, closure and defaults of a callable."""
    if isinstance(router, partial):
        bound = cast("partial[Any]", router)
        yield from (*bound.args, *bound.keywords.values(), *_reachable_values(bound.func))
        return
    function: Any = inspect.unwrap(router)
    if not hasattr(function, "__code__") and not inspect.ismethod(function):  # a callable object
        function = getattr(function, "__call__", function)  # noqa: B004  # not to test whether it is callable
    yield from getattr(getattr(function, "__self__", None), "__dict__", {}).values()
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        module_values = function.__globals__
        yield from (module_values.get(name) for name in dict.fromkeys(_global_names(code)))
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_cell_set(cell))
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _contained_values(value: Any) -> Iterable[Any]:
    """Return the items of a list or a mapping; for any other value, the value itself."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).values()
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals in a code object and in the functions defined in it.

    `co_names` has the names of attributes too, which does no harm.
    """
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _is_cell_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises for an empty cell
    except ValueError:
        return False
    return True
