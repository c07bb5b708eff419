"""The port of tools, and what belongs to a tool call: its context, credentials, options and errors.

Templates, models and logs must not receive credentials. Therefore the repr of credentials does not show their values,
and the values are masked in the answers and errors of tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, Protocol

from statewright.errors import ToolError
from statewright.graph import ExecutionInfo, Runtime
from statewright.messages import ToolCall
from statewright.redaction import KnownSecrets
from statewright.runtime import get_config
from statewright.runtime.tasks.scope import current_scope
from statewright.store import Store


class Credentials(Mapping[str, Any]):
    """The credentials of an integration, by name, for one tool call."""

    __slots__ = ("_secrets", "_values", "alias")

    def __init__(self, alias: str, values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> None:
        self.alias = alias
        self._values = values
        self._secrets = KnownSecrets(secrets)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Credentials({self.alias!r}: {', '.join(self._values) or 'nothing'})"

    def __reduce__(self) -> Any:
        raise TypeError("Credentials cannot be pickled or copied: they must not be stored or sent anywhere.")

    def keep_secret(self, text: str) -> None:
        """Mask `text` too, for example because it is derived from a secret."""
        self._secrets.add(text)

    def appear_in(self, text: str) -> bool:
        """Return True if the text contains a secret."""
        return self._secrets.occur_in(text)

    def hidden_in(self, value: Any) -> Any:
        """Return text, or a JSON value, with the secrets in it masked."""
        return self._secrets.mask_json(value)


NO_CREDENTIALS: Final = Credentials("", {})


def _discard(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of one tool call. A function gets it through a parameter that is annotated with this class."""

    credentials: Credentials = field(default_factory=lambda: NO_CREDENTIALS)
    """The credentials of the tool's integration; empty if it has none."""
    stream_writer: Callable[[Any], None] = _discard
    """Writes a value to the stream of the run."""
    idempotency_key: str | None = None
    """A key that is the same in all attempts at the call, for services that support idempotency keys."""
    tool_call_id: str | None = None
    """The id of the model's tool call; None if no model requested the call."""
    runtime: Runtime[Any] | None = None
    """The runtime of the task that makes the call."""
    state: Any = None
    """The state of the agent whose model requested the call: a mapping; in a network, a `State`."""
    network: Any = None
    """The NetworkRun, if the agent is in a network."""
    agent: Any = None
    """The agent whose model requested the call."""
    tools: Sequence[Any] = ()
    """All tools that the model may call, as they were passed to a ToolNode."""
    in_place: bool = False
    """True to call plain functions on the current thread, on which no event loop is running."""

    @classmethod
    def for_call(cls, call: ToolCall, runtime: Runtime[Any], **fields: Any) -> ToolContext:
        """Return the context of a call that a model requested, in the task that makes it."""
        return cls(
            stream_writer=runtime.stream_writer,
            idempotency_key=runtime.idempotency_key,
            tool_call_id=call.id,
            runtime=runtime,
            **fields,
        )

    @property
    def store(self) -> Store | None:
        """The store of the run; None if there is none."""
        return self.runtime.store if self.runtime is not None else None

    @property
    def context(self) -> Any:
        """The dependencies that the caller passed to the run."""
        return self.runtime.context if self.runtime is not None else None

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The config of the run, as nodes receive it; None outside of a run."""
        return get_config() if self.runtime is not None and current_scope() is not None else None

    @property
    def execution_info(self) -> ExecutionInfo | None:
        """The execution of the node that makes the call; None outside of a run."""
        return self.runtime.execution_info if self.runtime is not None else None


class Tool(Protocol):
    """A tool that workflows and models may call with arguments.

    A tool may have two more attributes. `options` are its ToolOptions. With `in_order = True`, the calls in one answer
    of a model are made one after another, and each call sees the state that the previous call left.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, which are an object."""
        ...

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """Make a call, and return the answer. Raises ToolError for wrong arguments, and the errors of the tool."""
        ...


# -- options

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Matches the tool names that every provider accepts."""
Approval = bool | Callable[[Mapping[str, Any], ToolContext], bool]
"""True if a person must approve each call; or `(arguments, context) -> bool`, which decides this for each call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Options for all calls of one tool."""

    approve: Approval = False
    timeout: float | None = None
    """Seconds after which a call fails, which is then reported to the model; None for no limit."""
    strict: bool | None = None
    """True if the provider should enforce the schema of the arguments; None leaves it to the provider's adapter."""
    in_order: bool | None = None
    """True to make the calls in one answer one after another; None to do so if the tool can write to the state."""
    return_direct: bool = False
    """True to end the agent with the answer of the tool, without another model call."""


def check_name(name: str) -> str:
    """Return a tool name unchanged if it is valid. Raises ToolError otherwise."""
    if _NAME.fullmatch(name):
        return name
    if ":" in name:
        raise ToolError(f"{name!r} is not a valid tool name: names with a colon are reserved for tools of MCP servers.")
    raise ToolError(
        f"{name[:80]!r} is not a valid tool name. Use up to 64 letters, digits, dashes and underscores, beginning "
        f"with a letter or an underscore."
    )


# -- errors


def describe_problems(errors: Iterable[Any], root: str = "") -> str:
    """Return pydantic's list of errors as text. `root` is the name to use for the value as a whole."""
    return "; ".join(f"{'.'.join(map(str, error['loc'])) or root}: {error['msg']}" for error in errors)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, from any of the attributes that libraries use; None if it has none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    return None


class WrongCall(ToolError):
    """A call was not made: the tool does not exist, the arguments are wrong, or the call was not approved."""


class HttpError(ToolError):
    """A service answered with a status of 400 or above."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        """The seconds in the header Retry-After of the response; None if it has no such header."""
        super().__init__(message)
        if status == 429 or status >= 500:
            # The fault may be temporary. Retry policies retry after a ToolError only if its cause may be temporary.
            self.__cause__ = ConnectionError(f"The service is busy or failing (status {status}).")

    @property
    def response(self) -> SimpleNamespace:
        """An object with the status as `status_code`, for retry policies made for the errors of HTTP libraries."""
        return SimpleNamespace(status_code=self.status)
