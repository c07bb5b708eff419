"""The definition of a network: what its graph and its runs are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, cast

from statewright.agents.agent import Agent, is_count
from statewright.agents.loop.run import NetworkRun
from statewright.agents.network.registry import AgentRegistry
from statewright.agents.network.router import Router, RoutingAgent, default_router
from statewright.agents.state.data import field_values
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.state.usage_limits import UsageLimits
from statewright.agents.thread_history import ThreadHistory
from statewright.errors import InvalidConfig, suggestion
from statewright.models import ChatModel, as_chat_model

T = TypeVar("T")


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
        """Maximum number of agent calls in one run; 0: no limit."""
        self.stop_when = stop_when
        """`(result, state, network) -> bool`: True to end the run after a call of an agent."""
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
            yield "it has no router. Pass a router, or a default_model that chooses."
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
        """Declare another agent. Raises InvalidConfig if one has its name."""
        self.registry.declare(agent)

    def available_agents(self, state: State[T] | None = None) -> list[Agent]:
        """Return the declared agents that are enabled in a state, by default the initial one."""
        return NetworkRun(self.name, state or self.default_state.clone(), self.agents).available_agents

    @property
    def defaults(self) -> dict[str, Any]:
        """The initial data of new conversations."""
        return field_values(self.default_state.data)

    @cached_property
    def default_chat_model(self) -> ChatModel | None:
        """The default model, connected if it was given by name."""
        return as_chat_model(self.default_model) if self.default_model is not None else None

    def with_models(self, model: Any = None, /, **by_agent: Any) -> Self:
        """Return the network with other models: one for all agents, and one for each agent that is named.

        The agents stay the same objects, so a router may still return them. Raises InvalidConfig for an agent that is
        not declared.
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
        """Return the model that replaces an agent's own; None if there is none."""
        return self._models.get(agent.name) or self._models.get(None)

    def _copy(self) -> Self:
        network = copy(self)
        network.__dict__.pop("default_chat_model", None)  # cached for the original's default model
        return network
