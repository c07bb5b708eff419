"""The input of one call of an agent that its own graph does not save.

It is part of the network's state, which is saved, so a resumed agent receives it again, and the history of a long
conversation is not written once more for each agent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.agents.agent import Agent
from statewright.agents.loop.run import NetworkRun
from statewright.agents.state.data import PREFIX, DataSchema
from statewright.agents.state.result import AgentResult
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.state.usage_limits import UsageLimits
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel, Usage


@dataclass(slots=True, kw_only=True)
class AgentCall:
    """The context of one call of an agent, built from the state of its network."""

    network: str
    agents: Mapping[str, Agent]
    form: DataSchema
    values: Mapping[str, Any]
    """The data before the call."""
    messages: Sequence[Message]
    turns: Sequence[AgentResult]
    message: Message | None
    thread_id: str | None
    stack: Sequence[Agent] = ()
    call_count: int = 0
    model: ChatModel | None = None
    """Replaces the agent's own model."""
    default_model: ChatModel | None = None
    limits: UsageLimits | None = None
    usage: Usage = field(default_factory=Usage)
    """The usage of the run before the call."""
    requests: int = 0
    further_usage: Usage = field(default_factory=Usage)
    """Usage that is part of no agent's result: of routers and of discarded calls."""
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The notes of memory strategies, by the name of the agent."""
    formatter: Formatter = result_messages
    find_agent: Callable[[str], Agent] | None = None
    """Find an agent by name, including agents that were not declared."""

    @property
    def history(self) -> list[Message]:
        """The conversation before the call, as it is sent to a model."""
        return [*self.messages, *(message for turn in self.turns for message in self.formatter(turn))]


class RunView:
    """The network's run as one hook or tool sees it, and the update that its changes amount to."""

    __slots__ = ("_form", "_values", "network")

    def __init__(self, call: AgentCall, own: Mapping[str, Any]) -> None:
        """`own` is the state of the agent's graph, with everything written since the call began."""
        self._form = call.form
        self._values = {**call.values, **data_fields(own)}
        state = State.of(call.form, self._values, call.messages, call.turns, call.thread_id)
        self.network: NetworkRun[Any] = NetworkRun(
            call.network,
            state,
            call.agents,
            message=call.message,
            stack=call.stack,
            call_count=call.call_count,
            find=call.find_agent,
            further_usage=call.further_usage + Usage(*own.get("usage") or ()),
        )

    @property
    def state(self) -> State[Any]:
        return self.network.state

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments for user-defined functions."""
        return {"network": self.network, "state": self.network.state}

    def update(self) -> dict[str, Any]:
        """Return the changes as an update of a graph: fields of the data, and scheduled agents."""
        changes = self._form.changes(self.network.state.data, self._values)
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
