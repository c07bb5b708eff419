"""The description of an MCP server: how to reach it, and which of its tools are wanted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from statewright.agents.mcp.transport import Sse, Stdio, StreamableHttp, Transport
from statewright.errors import InvalidConfig
from statewright.redaction import KnownSecrets

_MIN_SECRET: Final = 4
"""Characters. It may be lower than for results of tools: a common word that is masked in a message costs little."""


@dataclass(frozen=True)
class McpServer:
    """How to reach one server, and which of its tools to use. Raises InvalidConfig with all problems.

    Nothing is started or reached until its tools are asked for.
    """

    name: str
    """Its tools are named `<name>-<tool>`."""
    transport: Transport
    allowed_tools: tuple[str, ...] | None = None
    """The tools to use, by the server's names; None for all."""
    timeout: float = 60.0
    """Seconds after which a call fails."""
    connect_timeout: float = 30.0
    """Seconds to start or reach the server, and the same again to list its tools."""
    enabled: bool = True
    """False for a server without tools that is never started."""

    def __post_init__(self) -> None:
        settings = {name: getattr(self, name) for name in SETTINGS}
        if problems := tuple(find_problems(self.name, self.transport, settings)):
            raise InvalidConfig(format_problems(problems))
        if self.allowed_tools is not None:
            object.__setattr__(self, "allowed_tools", tuple(self.allowed_tools))

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        inherit_env: bool = False,
        **settings: Any,
    ) -> McpServer:
        """Return a server that is a program, started when its tools are first used.

        Its environment is `env` and the variables that programs need, such as PATH, HOME, LANG and the proxies; with
        `inherit_env` the whole environment of this process.
        """
        if isinstance(args, str):
            raise InvalidConfig(f"MCP server {name!r}: args is a text. Give a list of texts, one for each argument.")
        folder = os.fspath(cwd) if cwd is not None else None
        return cls(name, Stdio(command, tuple(args), dict(env or {}), folder, inherit_env), **settings)

    @classmethod
    def http(cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **settings: Any) -> McpServer:
        """Return a server that is reached by streamable HTTP."""
        return cls(name, StreamableHttp(url, dict(headers or {})), **settings)

    @classmethod
    def sse(cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **settings: Any) -> McpServer:
        """Return a server that is reached by HTTP with server-sent events: the older transport."""
        return cls(name, Sse(url, dict(headers or {})), **settings)

    @property
    def shown(self) -> str:
        """The name of the server in errors."""
        return f"MCP server {self.name!r} ({self.transport.shown})"

    @property
    def connection_key(self) -> tuple[object, ...]:
        """Equal for descriptions that share a connection."""
        return self.name, self.transport, self.connect_timeout

    def without_secrets(self, text: str) -> str:
        """Return a message of the server or of a library with possible secrets masked."""
        return KnownSecrets(self.transport.secrets, min_length=_MIN_SECRET).mask(text)


def find_problems(name: Any, transport: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield all problems of a server description."""
    where = f"MCP server {name!r}: "
    if not isinstance(name, str) or not name.strip():
        yield f"An MCP server has the name {name!r}. Give it one: its tools are named after it."
    if isinstance(transport, Transport):
        yield from (where + problem for problem in transport.problems())
    else:
        yield f"{where}transport is {transport!r}. Use McpServer.stdio, McpServer.http or McpServer.sse."
    for key, value in settings.items():
        if not _VALIDATORS[key](value):
            yield f"{where}{key} is {value!r}. Give {_EXPECTED[key]}."


def format_problems(problems: Sequence[str]) -> str:
    """Format one problem unchanged, several as a numbered list."""
    if len(problems) == 1:
        return problems[0]
    numbered = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
    return f"The MCP servers have {len(problems)} problems:\n{numbered}"


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and math.isfinite(value)


def _is_list_of_names(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(one, str) and one for one in cast("Sequence[Any]", value)
    )


_SECONDS: Final = "a number of seconds above 0"
_EXPECTED: Final = {
    "allowed_tools": "a list of names of tools",
    "timeout": _SECONDS,
    "connect_timeout": _SECONDS,
    "enabled": "true or false",
}
_VALIDATORS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "allowed_tools": _is_list_of_names,
    "timeout": _is_duration,
    "connect_timeout": _is_duration,
    "enabled": lambda value: isinstance(value, bool),
}
SETTINGS: Final = tuple(_EXPECTED)
"""The settings of a server besides its name and transport."""
