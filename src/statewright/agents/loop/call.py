"""The context of one call of an agent, and the views of the network's run for its hooks and tools.

The context is derived from the network's state, which is saved, and so is not part of the state of the agent's own
graph: a resumed agent receives it again, and a long conversation is not stored once more for each agent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.agents.loop.run import NetworkRun
from statewright.agents.state.data import PREFIX, DataSchema
from statewright.agents.state.state import Formatter, State, result_messages
from statewright.agents.state.usage_limits import UsageLimits
from statewright.errors import InvalidConfig
from statewright.models import ChatModel, Usage

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


class RunView:
    """The network's run as one hook or tool sees it, and the update that its changes amount to."""

    __slots__ = ("_schema", "_values", "network")

    def __init__(self, run: NetworkRun[Any], schema: DataSchema, values: Mapping[str, Any]) -> None:
        """`values` are those from which the data of the run was built."""
        self.network = run
        self._schema = schema
        self._values = values

    @property
    def state(self) -> State[Any]:
        return self.network.state

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments for user-defined functions."""
        return {"network": self.network, "state": self.network.state}

    def update(self) -> dict[str, Any]:
        """Return the changes as an update of a graph: fields of the data, and scheduled agents."""
        changes = self._schema.changes(self.network.state.data, self._values)
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
