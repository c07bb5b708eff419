"""A run of a network, as its routers, hooks and tools see it, and as its caller receives it at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar, cast

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import call_with_kwargs
from statewright.agents.state.result import AgentResult
from statewright.agents.state.state import State
from statewright.agents.state.usage_limits import total_usage
from statewright.checkpoint import Interrupt
from statewright.errors import RoutingError, ToolError, suggestion
from statewright.messages import Message
from statewright.models import Usage

T = TypeVar("T")


class NetworkRun(Generic[T]):
    """A run of a network: its state, agents, usage and outcome."""

    injected_as: ClassVar = "network"

    def __init__(
        self,
        name: str,
        state: State[T],
        agents: Mapping[str, Agent],
        *,
        message: Message | None = None,
        stack: Sequence[Agent] = (),
        call_count: int = 0,
        find: Callable[[str], Agent] | None = None,
        further_usage: Usage | None = None,
    ) -> None:
        self.name = name
        self.state = state
        self.agents = agents
        """The declared agents, by name."""
        self.message = message
        """The user's message."""
        self.stack = list(stack)
        """The agents still to be called, the next one first."""
        self.call_count = call_count
        """The number of agent calls since the user's message."""
        self._further_usage = further_usage or Usage()
        self._find = find or agents.__getitem__
        self.scheduled: list[str] = []
        """The names of agents that were scheduled through this object."""
        self.stop_reason: str | None = None
        """The reason why the run ended; None before. See `StopReason`."""
        self.summary: str | None = None
        """The closing summary of the routing model, if there is one."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """The open interrupts; answer with `run(Command(resume=...), thread_id=...)`."""

    @property
    def input(self) -> str:
        """The text of the user's message."""
        return self.message.text if self.message is not None else ""

    @property
    def results(self) -> list[AgentResult]:
        """The results of the agents, oldest first."""
        return self.state.results

    @property
    def last_result(self) -> AgentResult | None:
        """The last result; None if there is none."""
        results = self.state.results
        return results[-1] if results else None

    @property
    def usage(self) -> Usage:
        """The usage of all models in this conversation: of agents, of their memory, and of routing agents.

        It includes interrupted and discarded calls of agents.
        """
        return total_usage(self.state.results)[0] + self._further_usage

    def count(self, usage: Usage) -> None:
        """Add usage that is part of no result."""
        self._further_usage += usage

    @property
    def available_agents(self) -> list[Agent]:
        """The declared agents that are enabled."""
        return [agent for agent in self.agents.values() if self._is_enabled(agent)]

    def _is_enabled(self, agent: Agent) -> bool:
        hook = agent.lifecycle.enabled
        return hook is None or bool(call_with_kwargs(hook, {"agent": agent, "network": self, "state": self.state}))

    def schedule(self, agent: Agent | str) -> None:
        """Add an agent to the end of the queue.

        Raises ToolError, which is reported to the model, if it is not an agent of the network.
        """
        name = agent if isinstance(agent, str) else getattr(agent, "name", None)
        try:
            self.scheduled.append(self._find(cast(str, name)).name)
        except (RoutingError, KeyError, TypeError) as error:
            hint = suggestion(str(name), self.agents, noun="Agents")
            raise ToolError(f"{agent!r} cannot be scheduled: it is not an agent of this network. {hint}") from error

    def __repr__(self) -> str:
        outcome = f", stop_reason={self.stop_reason!r}" if self.stop_reason is not None else ""
        return f"NetworkRun({self.name!r}, {self.call_count} calls{outcome})"
