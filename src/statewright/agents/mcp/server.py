"""Descriptions of MCP servers: how to start or reach a server, and which of its tools to use.

Environment values, headers, arguments and URL queries may contain secrets. None of them is part of a repr, or of
`shown`, the name of a server or transport in errors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, cast
from urllib.parse import SplitResult, urlsplit

from statewright.errors import InvalidConfig
from statewright.redaction import KnownSecrets, is_secret_name, secrets_in_header, secrets_in_url

Strings = Mapping[str, str]
UrlTransport = Literal["streamable-http", "sse"]


@dataclass(frozen=True, repr=False)
class Stdio:
    """The transport to a server that is a program, by its standard input and output."""

    kind: ClassVar[str] = "stdio"

    command: str
    args: tuple[str, ...] = ()
    env: Strings = field(default_factory=dict[str, str], hash=False)
    """Variables to add to those that every program inherits, see `environment`."""
    cwd: str | None = None
    inherit_env: bool = False
    """True to pass on the whole environment of this process, including its secrets."""

    @property
    def shown(self) -> str:
        """A description for errors, which contains no secret."""
        return f"command {self.command!r}"

    @property
    def secrets(self) -> Iterator[str]:
        """The values that may be secrets, to be masked in errors."""
        yield from self.env.values()
        yield from _secrets_in_arguments(self.args)

    def problems(self) -> Iterator[str]:
        """Yield the texts of all problems with the fields."""
        if not _is_nonempty_string(self.command):
            yield f"command is {self.command!r}. Write the program to start."
        if not all(isinstance(argument, str) for argument in cast("tuple[Any, ...]", self.args)):
            yield "args has a value that is not a string. Write a list of strings."
        if not isinstance(self.inherit_env, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield f"inherit_env is {self.inherit_env!r}. Write true or false."
        yield from _problems_of_strings("env", self.env)

    def environment(self) -> dict[str, str]:
        """Return the environment in which the program is started."""
        inherited = {name: value for name, value in os.environ.items() if self.inherit_env or _is_inherited(name)}
        return {**inherited, **self.env}

    def __repr__(self) -> str:
        return f"Stdio({self.command!r})"


_INHERITED: Final = frozenset(
    """
    PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TMP TEMP VIRTUAL_ENV
    HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE
    APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT USERNAME USERPROFILE COMSPEC PATHEXT
    """.split()  # noqa: SIM905  # a list would have a line for each name
)
"""The variables that programs inherit, because they need them to start, find files and reach the network."""


def _is_inherited(name: str) -> bool:
    return name.upper() in _INHERITED or name.startswith(("LC_", "XDG_"))


@dataclass(frozen=True, repr=False)
class _HttpTransport:
    """The transport to a server that is reached over HTTP."""

    kind: ClassVar[str]

    url: str
    headers: Strings = field(default_factory=dict[str, str], hash=False)
    """Headers to send with each request."""
    addresses: tuple[str, ...] = field(default=(), compare=False)
    """The only IP addresses to which a connection may be made; empty to allow all addresses of the host."""

    @property
    def shown(self) -> str:
        """A description for errors, which contains no secret."""
        return f"URL {self._public_url}"

    @property
    def secrets(self) -> Iterator[str]:
        """The values that may be secrets, to be masked in errors."""
        for value in self.headers.values():
            yield from secrets_in_header(value)
        yield from secrets_in_url(self.url)

    def problems(self) -> Iterator[str]:
        """Yield the texts of all problems with the fields."""
        parts = _split(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"url is {self._public_url!r}. Write a URL that begins with http:// or https://."
        yield from _problems_of_strings("headers", self.headers)

    @property
    def _public_url(self) -> str:
        parts = _split(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._public_url!r})"


class StreamableHttp(_HttpTransport):
    """Streamable HTTP, the protocol's current HTTP transport."""

    kind = "streamable-http"


class Sse(_HttpTransport):
    """HTTP with server-sent events, the protocol's older HTTP transport."""

    kind = "sse"


Transport = Stdio | StreamableHttp | Sse


def _split(url: Any) -> SplitResult:
    """Return the parts of a URL; those of an empty URL if it is not valid."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return urlsplit("")
    return parts


def _secrets_in_arguments(args: tuple[str, ...]) -> Iterator[str]:
    """Yield the values of command-line options that are named like secrets: `--api-key=x`, or `--api-key x`."""
    for index, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        if not is_secret_name(option):
            continue
        if equals:
            yield value
        elif option.startswith("-"):
            yield from args[index + 1 : index + 2]


def _is_nonempty_string(value: Any) -> bool:
    """Return True for a string that is not blank and has no null character."""
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _problems_of_strings(name: str, strings: Any) -> Iterator[str]:
    """Yield the problems with a mapping from names to strings. They do not quote the strings, which may be secrets."""
    if not isinstance(strings, Mapping):
        yield f"{name} is not a mapping. Write a mapping from names to strings."
        return
    for key, value in cast("Mapping[Any, Any]", strings).items():
        if not _is_nonempty_string(key) or not isinstance(value, str) or "\0" in value:
            yield f"{name} has an invalid name or value under {key!r}. Write every value as a string."


_MIN_SECRET: Final = 4
"""Minimum characters of a secret that is masked in errors. In the results of tools the minimum is higher, because they
must not lose common words."""


@dataclass(frozen=True)
class McpServer:
    """The description of one server. Raises InvalidConfig with all problems.

    The server is not started or contacted before its tools are listed.
    """

    name: str
    """The prefix of the names of its tools: `<name>-<tool>`."""
    transport: Transport
    allowed_tools: tuple[str, ...] | None = None
    """The tools to use, under the server's names for them; None for all."""
    timeout: float = 60.0
    """Seconds after which a call fails."""
    connect_timeout: float = 30.0
    """Seconds after which connecting to the server fails, and also after which listing its tools fails."""
    enabled: bool = True
    """False to ignore the server: it is never started, and has no tools."""

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
        """Return the description of a server that is a program, which is started when its tools are first used.

        The program's environment has `env`, and the variables that programs need, such as PATH, HOME, LANG and the
        proxies. With `inherit_env`, it has all variables of this process.
        """
        if isinstance(args, str):
            raise InvalidConfig(
                f"MCP server {name!r}: args is a string. Pass a list of strings, one for each argument."
            )
        folder = os.fspath(cwd) if cwd is not None else None
        return cls(name, Stdio(command, tuple(args), dict(env or {}), folder, inherit_env), **settings)

    @classmethod
    def http(cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **settings: Any) -> McpServer:
        """Return the description of a server that is reached by streamable HTTP."""
        return cls(name, StreamableHttp(url, dict(headers or {})), **settings)

    @classmethod
    def sse(cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **settings: Any) -> McpServer:
        """Return the description of a server that is reached by HTTP with server-sent events, the older transport."""
        return cls(name, Sse(url, dict(headers or {})), **settings)

    @property
    def shown(self) -> str:
        """The name of the server in errors, which contains no secret."""
        return f"MCP server {self.name!r} ({self.transport.shown})"

    @property
    def connection_key(self) -> tuple[object, ...]:
        """The key of the connection. Descriptions with equal keys share a connection."""
        return self.name, self.transport, self.connect_timeout

    def without_secrets(self, text: str) -> str:
        """Return a text from the server or from a library with the secrets of the transport masked."""
        return KnownSecrets(self.transport.secrets, min_length=_MIN_SECRET).mask(text)


def find_problems(name: Any, transport: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield all problems of a server description."""
    prefix = f"MCP server {name!r}: "
    if not isinstance(name, str) or not name.strip():
        yield f"An MCP server has the name {name!r}. Write a name, which becomes the prefix of its tools."
    if isinstance(transport, Transport):
        yield from (prefix + problem for problem in transport.problems())
    else:
        yield f"{prefix}transport is {transport!r}. Use McpServer.stdio, McpServer.http or McpServer.sse."
    for key, value in settings.items():
        is_valid, expected = _SETTING_RULES[key]
        if not is_valid(value):
            yield f"{prefix}{key} is {value!r}. Write {expected}."


def format_problems(problems: Sequence[str]) -> str:
    """Return a single problem unchanged, several as a numbered list."""
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
        isinstance(name, str) and name for name in cast("Sequence[Any]", value)
    )


_DURATION: Final = (_is_duration, "a number of seconds above 0")
_SETTING_RULES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    # for each setting: a predicate for valid values, and their description for errors
    "allowed_tools": (_is_list_of_names, "a list of tool names"),
    "timeout": _DURATION,
    "connect_timeout": _DURATION,
    "enabled": (lambda value: isinstance(value, bool), "true or false"),
}
SETTINGS: Final = tuple(_SETTING_RULES)
"""The names of the fields of McpServer other than `name` and `transport`."""
