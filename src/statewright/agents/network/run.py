"""A run of a network, as its routers, hooks and tools see it, and as its caller receives it at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from statewright.agents.kwargs_injection import call_with_kwargs
from statewright.agents.state.result import AgentResult
from statewright.agents.state.state import State
from statewright.agents.state.usage_limits import total_usage
from statewright.checkpoint import Interrupt
from statewright.errors import RoutingError, ToolError, suggestion
from statewright.messages import Message
from statewright.models import Usage

if TYPE_CHECKING:
    from statewright.agents.agent import Agent

T = TypeVar("T")


class NetworkRun(Generic[T]):
    """What can be known of the run of a network, and asked of it."""

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
        """The agents that were declared, by name."""
        self.message = message
        """What the user said."""
        self.stack = list(stack)
        """The agents that are still to be called, the next one first."""
        self.call_count = call_count
        """How many agents have been called since the user spoke."""
        self._further_usage = further_usage or Usage()
        self._find = find or agents.__getitem__
        self.scheduled: list[str] = []
        """The agents that were scheduled here."""
        self.stop_reason: str | None = None
        """Why the run ended, once it has: see `StopReason`."""
        self.summary: str | None = None
        """What the model that routes said at the end."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """What the run waits for: answer with `run(Command(resume=...), thread_id=...)`."""

    @property
    def input(self) -> str:
        """The text of what the user said."""
        return self.message.text if self.message is not None else ""

    @property
    def results(self) -> list[AgentResult]:
        """What agents have said."""
        return self.state.results

    @property
    def last_result(self) -> AgentResult | None:
        """The last of them."""
        results = self.state.results
        return results[-1] if results else None

    @property
    def usage(self) -> Usage:
        """The usage of all models in this conversation: of agents, of their memory, and of routing agents.

        What an agent has used counts at once, also while it waits for an answer, and if it was given up.
        """
        return total_usage(self.state.results)[0] + self._further_usage

    def count(self, usage: Usage) -> None:
        """Add what was used for something that has not left a result."""
        self._further_usage += usage

    @property
    def available_agents(self) -> list[Agent]:
        """The declared agents whose hook `enabled` does not say no."""
        return [agent for agent in self.agents.values() if self._is_enabled(agent)]

    def _is_enabled(self, agent: Agent) -> bool:
        hook = agent.lifecycle.enabled
        return hook is None or bool(call_with_kwargs(hook, {"agent": agent, "network": self, "state": self.state}))

    def schedule(self, agent: Agent | str) -> None:
        """Let an agent be called after those that are waiting.

        Raises ToolError, which a model is told, for what is no agent of the network.
        """
        name = agent if isinstance(agent, str) else getattr(agent, "name", None)
        try:
            self.scheduled.append(self._find(cast(str, name)).name)
        except (RoutingError, KeyError, TypeError) as error:
            hint = suggestion(str(name), self.agents, noun="Agents")
            raise ToolError(f"{agent!r} cannot be scheduled: it is no agent of this network. {hint}") from error

    def __repr__(self) -> str:
        ended = f", stop_reason={self.stop_reason!r}" if self.stop_reason is not None else ""
        return f"NetworkRun({self.name!r}, {self.call_count} calls{ended})"
