"""A run of a network: as its caller receives it, as hooks and tools see it, and as one call of an agent needs it.

The context of a call is derived from the network's state, which is saved, and so is not part of the state of the
agent's own graph: a resumed agent receives it again, and a long conversation is not stored once more for each agent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import call_with_kwargs
from statewright.agents.state.data import PREFIX, DataSchema
from statewright.agents.state.result import AgentResult, UsageLimits, total_usage
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.checkpoint import Interrupt
from statewright.errors import InvalidConfig, RoutingError, ToolError, suggestion
from statewright.messages import Message
from statewright.models import ChatModel, Usage

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


# -- one call of an agent

RunBuilder = Callable[[Mapping[str, Any], Usage], NetworkRun[Any]]
"""Builds the network's run from the current data, and the usage of the call that is in no result yet."""


@dataclass(slots=True, kw_only=True)
class AgentCall:
    """The context of one call of an agent, built from the state of its network."""

    network: str
    """The name of the network."""
    build_run: RunBuilder
    schema: DataSchema
    values: Mapping[str, Any]
    """The data before the call."""
    model: ChatModel | None = None
    """Replaces the agent's own model."""
    default_model: ChatModel | None = None
    limits: UsageLimits | None = None
    usage: Usage = field(default_factory=Usage)
    """The usage of the run before the call."""
    requests: int = 0
    """The number of model calls of the run before the call."""
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The notes of memory strategies, by the name of the agent."""
    formatter: Formatter = result_messages
    """Converts the results before the call to messages."""

    def view(self, agent_state: Mapping[str, Any]) -> RunView:
        """Return a view for one hook or tool. `agent_state` has everything that the agent has written since the call.

        Each hook and tool needs a view of its own, since it may change the data.
        """
        values = {**self.values, **data_fields(agent_state)}
        return RunView(self.build_run(values, Usage(*agent_state.get("usage") or ())), self.schema, values)


@dataclass(slots=True)
class RunView:
    """The network's run as one hook or tool sees it, and the update that its changes amount to."""

    network: NetworkRun[Any]
    schema: DataSchema
    values: Mapping[str, Any]
    """The data before any changes."""

    @property
    def state(self) -> State[Any]:
        return self.network.state

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments for user-defined functions."""
        return {"network": self.network, "state": self.network.state}

    def update(self) -> dict[str, Any]:
        """Return the changes as an update of a graph: fields of the data, and scheduled agents."""
        changes = self.schema.changes(self.network.state.data, self.values)
        scheduled = {"scheduled": self.network.scheduled} if self.network.scheduled else {}
        return {**{f"{PREFIX}{name}": value for name, value in changes.items()}, **scheduled}


def data_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the data in the state of a graph, without their prefix."""
    return {name[len(PREFIX) :]: value for name, value in values.items() if name.startswith(PREFIX)}


_current: Final[ContextVar[AgentCall | None]] = ContextVar("statewright_agent_call", default=None)


def current_call() -> AgentCall:
    """Return the call of the current task. Raises InvalidConfig outside of a call."""
    call = _current.get()
    if call is None:
        raise InvalidConfig(
            "An agent's graph was run without a network. Run the agent, or use agent.alone().compile() as a graph."
        )
    return call


@contextmanager
def enter_call(call: AgentCall) -> Generator[None]:
    """Set the current call while an agent's graph runs."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
