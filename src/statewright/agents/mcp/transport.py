"""How an MCP server is started or reached.

Secrets may be part of environment values, headers, arguments and URL queries; reprs and `shown`, which errors use to
name a server, contain none of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, cast
from urllib.parse import SplitResult, urlsplit

from statewright.redaction import is_secret_name, secrets_in_header, secrets_in_url

Texts = Mapping[str, str]
UrlTransport = Literal["streamable-http", "sse"]


@dataclass(frozen=True, repr=False)
class Stdio:
    """A program that is started, and spoken to over its standard input and output."""

    kind: ClassVar[str] = "stdio"

    command: str
    args: tuple[str, ...] = ()
    env: Texts = field(default_factory=dict[str, str], hash=False)
    """Added to the environment that programs need to start."""
    cwd: str | None = None
    inherit_env: bool = False
    """Pass on the whole environment of this process, with the secrets in it."""

    @property
    def shown(self) -> str:
        return f"command {self.command!r}"

    @property
    def secrets(self) -> Iterator[str]:
        yield from self.env.values()
        yield from _secrets_in_arguments(self.args)

    def problems(self) -> Iterator[str]:
        if not _is_filled(self.command):
            yield f"command is {self.command!r}. Give the program to start."
        if not all(isinstance(one, str) for one in cast("tuple[Any, ...]", self.args)):
            yield "args holds what is no text. Give a list of texts."
        if not isinstance(self.inherit_env, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield f"inherit_env is {self.inherit_env!r}. Give true or false."
        yield from _problems_of_texts("env", self.env)

    def environment(self) -> dict[str, str]:
        """Return the environment that the program is started with."""
        inherited = {name: value for name, value in os.environ.items() if self.inherit_env or _is_needed(name)}
        return {**inherited, **self.env}

    def __repr__(self) -> str:
        return f"Stdio({self.command!r})"


_NEEDED: Final = frozenset(
    """
    PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TMP TEMP VIRTUAL_ENV
    HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE
    APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT USERNAME USERPROFILE COMSPEC PATHEXT
    """.split()  # noqa: SIM905  # one name a line would be thirty lines
)
"""The variables that programs need to start, to find their files and to reach the network, on every system."""


def _is_needed(name: str) -> bool:
    return name.upper() in _NEEDED or name.startswith(("LC_", "XDG_"))


@dataclass(frozen=True, repr=False)
class _AtUrl:
    """A server that is reached over HTTP."""

    kind: ClassVar[str]

    url: str
    headers: Texts = field(default_factory=dict[str, str], hash=False)
    """Sent with each request."""

    @property
    def shown(self) -> str:
        return f"URL {self._bare_url}"

    @property
    def secrets(self) -> Iterator[str]:
        for value in self.headers.values():
            yield from secrets_in_header(value)
        yield from secrets_in_url(self.url)

    def problems(self) -> Iterator[str]:
        parts = _split(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"url is {self._bare_url!r}. Give an address that begins with http:// or https://."
        yield from _problems_of_texts("headers", self.headers)

    @property
    def _bare_url(self) -> str:
        parts = _split(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bare_url!r})"


class StreamableHttp(_AtUrl):
    """A server that is reached over HTTP; the protocol's present form."""

    kind = "streamable-http"


class Sse(_AtUrl):
    """A server that is reached over HTTP and keeps one stream of events open; the protocol's first form."""

    kind = "sse"


Transport = Stdio | StreamableHttp | Sse


def _split(url: Any) -> SplitResult:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        _ = parts.port  # raises for what is no port
    except ValueError:
        return urlsplit("")
    return parts


def _secrets_in_arguments(args: tuple[str, ...]) -> Iterator[str]:
    """Yield the values of options with the name of a secret: `--api-key=x`, or `--api-key x`."""
    for index, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        if not is_secret_name(option):
            continue
        if equals:
            yield value
        elif option.startswith("-"):
            yield from args[index + 1 : index + 2]


def _is_filled(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and "\0" not in text


def _problems_of_texts(name: str, texts: Any) -> Iterator[str]:
    """Says which key is wrong, and never the value."""
    if not isinstance(texts, Mapping):
        yield f"{name} is no mapping. Give names with their values."
        return
    for key, value in cast("Mapping[Any, Any]", texts).items():
        if not _is_filled(key) or not isinstance(value, str) or "\0" in value:
            yield f"{name} has no text under {key!r}. Give every value as text."
