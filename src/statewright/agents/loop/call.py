"""The input of one call of an agent that its own graph does not save.

It is part of the network's state, which is saved, so a resumed agent receives it again, and the history of a long
conversation is not written once more for each agent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from statewright.agents.network.run import NetworkRun
from statewright.agents.state.data import PREFIX, DataSchema
from statewright.agents.state.result import AgentResult
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.state.usage_limits import UsageLimits
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ChatModel, Usage

if TYPE_CHECKING:
    from statewright.agents.agent import Agent


@dataclass(slots=True, kw_only=True)
class AgentCall:
    """The surroundings of one call of an agent."""

    network: str
    agents: Mapping[str, Agent]
    form: DataSchema
    values: Mapping[str, Any]
    """The data as it was before the call."""
    messages: Sequence[Message]
    turns: Sequence[AgentResult]
    message: Message | None
    thread_id: str | None
    stack: Sequence[Agent] = ()
    call_count: int = 0
    model: ChatModel | None = None
    """Asked in the place of the agent's own."""
    default_model: ChatModel | None = None
    limits: UsageLimits | None = None
    usage: Usage = field(default_factory=Usage)
    """What the run has used up before the call."""
    requests: int = 0
    further_usage: Usage = field(default_factory=Usage)
    """Usage that no agent's result includes: that of routers and of discarded calls."""
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The notes of memory strategies, by the name of the agent."""
    formatter: Formatter = result_messages
    find_agent: Callable[[str], Agent] | None = None
    """The agent of a name, those that were not declared included."""

    @property
    def history(self) -> list[Message]:
        """The conversation before the call, as a model is shown it."""
        return [*self.messages, *(message for turn in self.turns for message in self.formatter(turn))]


class RunView:
    """The run of the network as one hook or tool sees it, and what that leaves changed."""

    __slots__ = ("_form", "_values", "network")

    def __init__(self, call: AgentCall, own: Mapping[str, Any]) -> None:
        """`own` is the state of the agent's graph, which has what was written since the call began."""
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
        """What functions of people may ask for."""
        return {"network": self.network, "state": self.network.state}

    def update(self) -> dict[str, Any]:
        """What has changed, as an update of a graph: the fields of the data, and agents that were scheduled."""
        changed = self._form.changes(self.network.state.data, self._values)
        scheduled = {"scheduled": self.network.scheduled} if self.network.scheduled else {}
        return {**{f"{PREFIX}{name}": value for name, value in changed.items()}, **scheduled}


def data_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the data in the state of a graph, by their own names."""
    return {name[len(PREFIX) :]: value for name, value in values.items() if name.startswith(PREFIX)}


_current: Final[ContextVar[AgentCall | None]] = ContextVar("statewright_agent_call", default=None)


def current_call() -> AgentCall:
    """The call that the present task serves. Raises InvalidConfig outside of one."""
    call = _current.get()
    if call is None:
        raise InvalidConfig(
            "An agent's graph was run by itself. Run the agent; as a graph take agent.alone().compile()."
        )
    return call


@contextmanager
def enter_call(call: AgentCall) -> Generator[None]:
    """Run an agent's graph within a call."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
