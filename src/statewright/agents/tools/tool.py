"""The port of tools, the context and the options of their calls, and their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, Protocol

from statewright.agents.tools.credentials import NO_CREDENTIALS, Credentials
from statewright.errors import ToolError
from statewright.graph import ExecutionInfo, Runtime
from statewright.runtime import get_config
from statewright.runtime.scope import current_scope
from statewright.store import Store


def _discard(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call is told beside its arguments. A function asks for it by a parameter with this annotation."""

    credentials: Credentials = field(default_factory=lambda: NO_CREDENTIALS)
    """The values of the integration that the call was given; empty if none was."""
    stream_writer: Callable[[Any], None] = _discard
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


# -- options

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider of models takes as the name of a tool."""
Approval = bool | Callable[[Mapping[str, Any], ToolContext], bool]
"""Whether somebody has to agree before a call is made: always, never, or as a function of its arguments says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How a tool is called."""

    approve: Approval = False
    timeout: float | None = None
    """Seconds after which a call is given up; the model is told."""
    strict: bool | None = None
    """Whether the provider holds its model to the schema of the arguments; None leaves it to the provider's adapter."""
    in_order: bool | None = None
    """Whether an agent of a network makes calls of it one after another; None: if it can write to the state."""
    return_direct: bool = False
    """Whether the agent ends with what the tool answers, without asking the model again."""


def check_name(name: str) -> str:
    """The name, if a tool can have it. Raises ToolError."""
    if _NAME.fullmatch(name):
        return name
    if ":" in name:
        raise ToolError(f"{name!r} cannot name a tool: names with a colon are kept for tools of MCP servers.")
    raise ToolError(
        f"{name[:80]!r} cannot name a tool. Names have up to 64 letters, digits, dashes and underscores, and begin "
        f"with a letter or an underscore."
    )


# -- errors


class WrongCall(ToolError):
    """There is no such tool, its arguments do not fit, or nobody agrees to the call."""


class HttpError(ToolError):
    """A status of 400 or above."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        """For how many seconds the service asked to be left alone, if it did."""
        super().__init__(message)
        if status == 429 or status >= 500:
            # Retry policies judge a ToolError by its cause: this one may be gone the next time.
            self.__cause__ = ConnectionError(f"The service is busy or broken (status {status}).")

    @property
    def response(self) -> SimpleNamespace:
        """The status as errors of HTTP libraries have it, which is where other retry policies look for it."""
        return SimpleNamespace(status_code=self.status)
