"""`NetworkRun`, a run of a network as its caller, hooks and tools see it; and `AgentCall`, the context of one call of
an agent.

An AgentCall is derived from the saved state of the network, so the agent's own graph does not store it. It is built
again when the agent is resumed, and a long conversation is not stored once more for each agent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import call_with_kwargs
from statewright.agents.state.data import DataSchema, data_fields, with_prefix
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
        """`find` returns an agent by name, by default a declared one. `further_usage` is the usage that is not part of
        a result."""
        self.name = name
        """The name of the network."""
        self.state = state
        self.agents = agents
        """The declared agents, by name."""
        self.message = message
        """The user's message."""
        self.stack = list(stack)
        """The queue of agents: the next one to call is the first."""
        self.call_count = call_count
        """The number of agent calls since the user's message."""
        self._further_usage = further_usage or Usage()
        self._find = find or agents.__getitem__
        self.scheduled: list[str] = []
        """The names of the agents scheduled by `schedule`."""
        self.stop_reason: str | None = None
        """The reason why the run ended, see `StopReason`; None until it ends."""
        self.summary: str | None = None
        """The summary that the routing model wrote when it reported that the request is done, if there is one."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """The open interrupts; answer them with `run(Command(resume=...), thread_id=...)`."""

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
        """The usage of all model calls in this conversation: by agents, by their memory strategies, and by routing
        agents.

        The usage of interrupted and discarded agent calls is included.
        """
        return total_usage(self.state.results)[0] + self._further_usage

    def count(self, usage: Usage) -> None:
        """Add usage that is not part of a result."""
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

        Raises ToolError if the network has no such agent. If a tool lets the error pass, it is reported to the model.
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
"""`(data, usage)`: builds a NetworkRun with the current data, and with the usage of the unfinished agent call."""


@dataclass(slots=True, kw_only=True)
class AgentCall:
    """The context of one call of an agent, built from the state of its network."""

    network: str
    """The name of the network."""
    build_run: RunBuilder
    schema: DataSchema
    values: Mapping[str, Any]
    """The values of the network's data before the call, by field."""
    model: ChatModel | None = None
    """The model that replaces the agent's own model; None to use the agent's own."""
    default_model: ChatModel | None = None
    """The model of an agent that has no other; None if there is none, or if it is not needed."""
    limits: UsageLimits | None = None
    usage: Usage = field(default_factory=Usage)
    """The usage of the run before the call."""
    requests: int = 0
    """The number of model calls of the run before the call."""
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The notes of memory strategies, by the name of the agent."""
    formatter: Formatter = result_messages
    """Converts the results before the call to messages."""

    def build_view(self, agent_state: Mapping[str, Any]) -> RunView:
        """Return a view of the run for one hook or tool, which may change the data; so views must not be shared.

        `agent_state` is the state of the agent's graph, which has the data that was changed since the call began.
        """
        values = {**self.values, **data_fields(agent_state)}
        return RunView(self.build_run(values, Usage(*agent_state.get("usage") or ())), self.schema, values)


@dataclass(slots=True)
class RunView:
    """A copy of the network's run for one hook, router or tool, from which the changes to the data are derived."""

    network: NetworkRun[Any]
    schema: DataSchema
    values: Mapping[str, Any]
    """The values of the data before the changes, by field."""

    @property
    def state(self) -> State[Any]:
        return self.network.state

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments that the parameters of user-defined functions may name."""
        return {"network": self.network, "state": self.network.state}

    def update(self) -> dict[str, Any]:
        """Return the changes as an update of the graph's state: changed fields of the data, and scheduled agents."""
        changes = self.schema.changes(self.network.state.data, self.values)
        scheduled = {"scheduled": self.network.scheduled} if self.network.scheduled else {}
        return {**with_prefix(changes), **scheduled}


_current: Final[ContextVar[AgentCall | None]] = ContextVar("statewright_agent_call", default=None)


def current_call() -> AgentCall:
    """Return the agent call in which the current task runs. Raises InvalidConfig outside of an agent call."""
    call = _current.get()
    if call is None:
        raise InvalidConfig(
            "The graph of an agent was run without a network. Run the agent, or use agent.alone().compile() as a graph."
        )
    return call


@contextmanager
def enter_call(call: AgentCall) -> Generator[None]:
    """Make `call` the current agent call inside the `with` block, in which the agent's graph runs."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
