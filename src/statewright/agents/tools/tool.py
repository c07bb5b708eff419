"""What a tool is, and what it is told beside its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from statewright.agents.tools.credentials import NO_CREDENTIALS, Credentials
from statewright.graph import ExecutionInfo, Runtime
from statewright.runtime import get_config
from statewright.runtime.tasks.scope import current_scope
from statewright.store import Store


def _to_nobody(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call is told beside its arguments. A function asks for it by a parameter with this annotation."""

    credentials: Credentials = field(default_factory=lambda: NO_CREDENTIALS)
    """The values of the integration that the call was given; empty if none was."""
    stream_writer: Callable[[Any], None] = _to_nobody
    """Sends a value to whoever watches the run."""
    idempotency_key: str | None = None
    """The same for every attempt at the call: for services that know such keys."""
    tool_call_id: str | None = None
    """The call of a model that this is."""
    runtime: Runtime[Any] | None = None
    """What the runtime offers to the task that makes the call."""
    state: Any = None
    """The state of the agent that asked: a mapping, or in a network its `State`."""
    network: Any = None
    """The run of the network, where the agent is in one."""
    agent: Any = None
    """The agent whose model asked."""
    tools: Sequence[Any] = ()
    """All tools that the model may ask for, as they were given to a ToolNode."""
    in_place: bool = False
    """Whether a plain function is called on the present thread, on which nobody else has to do anything."""

    @property
    def store(self) -> Store | None:
        """Memory across threads, if there is some."""
        return self.runtime.store if self.runtime is not None else None

    @property
    def context(self) -> Any:
        """The dependencies that the caller gave to the run."""
        return self.runtime.context if self.runtime is not None else None

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The config of the run, as nodes get it; None outside of one."""
        return get_config() if self.runtime is not None and current_scope() is not None else None

    @property
    def execution_info(self) -> ExecutionInfo | None:
        """Which execution of a node makes the call; None outside of a run."""
        return self.runtime.execution_info if self.runtime is not None else None


class Tool(Protocol):
    """Does one thing with arguments, for a state or for a model that asks for it.

    A tool may also have `in_order = True`: calls of it that one answer asks for are made one after another, each on
    the state that the one before left. And `approve`, `timeout` and `strict`, as `tool` takes them.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]:
        """A JSON Schema of an object: the arguments."""
        ...

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What it answers. Raises ToolError for arguments that it does not take, and whatever else goes wrong."""
        ...
