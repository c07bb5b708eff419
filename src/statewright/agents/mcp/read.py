"""Read descriptions of MCP servers from configuration files.

The entry of a server is a mapping. The keys of its transport (such as `command`, `args` and `env`, or `url` and
`headers`) are in the entry itself, or in a mapping under `transport` or `config`. Unknown keys are errors, and all
problems are reported together.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from statewright.agents.mcp.server import (
    SETTINGS,
    McpServer,
    Sse,
    Stdio,
    StreamableHttp,
    Transport,
    UrlTransport,
    find_problems,
    format_problems,
)
from statewright.errors import InvalidConfig, suggestion

_NESTED_KEYS: Final = ("transport", "config", "requestInit")
_ALIASES: Final = {"transport": "type", "arguments": "args", "tools": "allowed_tools", "disabled": "enabled"}
_TRANSPORT_TYPES: Final = {
    "stdio": "stdio",
    "sse": "sse",
    **dict.fromkeys(("streamable-http", "streamable_http", "streamableHttp", "http"), "streamable-http"),
}
_COMMAND_KEYS: Final = ("command", "args", "env", "cwd", "inherit_env")
_URL_KEYS: Final = ("url", "headers", "auth_token")
_KEYS: Final = ("name", "description", "type", *_COMMAND_KEYS, *_URL_KEYS, *SETTINGS)


def read_server(
    data: Mapping[str, Any], *, name: str | None = None, untyped_url: UrlTransport = "streamable-http"
) -> McpServer:
    """Read the entry of a server; `untyped_url` is the transport of an entry that has a `url` and no `type`.

    Raises InvalidConfig with all problems.
    """
    return read_servers([data if name is None else {"name": name, **data}], untyped_url=untyped_url)[0]


def read_servers(
    data: Mapping[str, Any] | Iterable[Mapping[str, Any] | McpServer], *, untyped_url: UrlTransport = "streamable-http"
) -> tuple[McpServer, ...]:
    """Read a list of entries, or a mapping from names to entries, which may be nested under `mcpServers`.

    Raises InvalidConfig with all problems of all entries.
    """
    servers: list[McpServer] = []
    problems: list[str] = []
    for entry in _entries(data):
        if isinstance(entry, McpServer):
            servers.append(entry)
            continue
        reader = _EntryReader(entry, untyped_url)
        server = reader.server()
        problems += reader.problems
        servers += [server] if server is not None else []
    names = [server.name for server in servers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"MCP server {name!r}: {names.count(name)} servers have this name. Rename all but one.")
    if problems:
        raise InvalidConfig(format_problems(problems))
    return tuple(servers)


def _entries(data: Any) -> Iterator[Any]:
    """Yield the entries of a list or a mapping. The name under which a mapping has an entry is added to the entry."""
    if not isinstance(data, Mapping):
        yield from data
        return
    servers = cast("Mapping[str, Any]", data)
    for name, entry in cast("Mapping[str, Any]", servers.get("mcpServers", servers)).items():
        yield {"name": name, **entry} if isinstance(entry, Mapping) else {"name": name, "config": entry}


class _EntryReader:
    """Reads one entry, and collects its problems."""

    def __init__(self, data: Any, untyped_url: UrlTransport) -> None:
        self.problems: list[str] = []
        self._untyped_url = untyped_url
        self._values: dict[str, Any] = {}
        self._prefix = "MCP server: "
        if not isinstance(data, Mapping):
            self._add_problem(f"an entry is a {type(data).__name__}. Write a mapping with a command or a url.")
            return
        entry = cast("Mapping[str, Any]", data)
        self._prefix = f"MCP server {entry.get('name', '')!r}: "
        self._collect(entry)

    def server(self) -> McpServer | None:
        """Return the description of the server; None if the entry has problems."""
        if self.problems:  # further problems might be consequences of these
            return None
        transport = self._transport()
        settings = {name: self._values[name] for name in SETTINGS if name in self._values}
        if transport is None or self.problems:
            return None
        name = self._values.get("name", "")
        self.problems += find_problems(name, transport, settings)
        return None if self.problems else McpServer(name, transport, **settings)

    def _add_problem(self, text: str) -> None:
        self.problems.append(self._prefix + text)

    def _collect(self, entry: Mapping[str, Any]) -> None:
        """Collect the values of an entry, and of the mappings nested in it, under their standard keys."""
        for key, value in entry.items():
            if value is None:  # equivalent to a missing key
                continue
            if key in _NESTED_KEYS and not (key == "transport" and isinstance(value, str)):
                self._collect_nested(key, value)
                continue
            name = _ALIASES.get(key, key)
            if name not in _KEYS:
                self._add_problem(f"unknown key {key!r}. {suggestion(key, _KEYS, noun='Keys')}")
            elif name in self._values:
                self._add_problem(f"{name} is set twice. Write it only once.")
            else:
                self._values[name] = not value if key == "disabled" else value

    def _collect_nested(self, key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            self._collect(cast("Mapping[str, Any]", value))
        else:
            self._add_problem(f"{key} is a {type(value).__name__}. Write a mapping with a command or a url.")

    def _transport(self) -> Transport | None:
        transport_type = self._transport_type()
        if transport_type is None:
            return None
        for name in _URL_KEYS if transport_type == "stdio" else _COMMAND_KEYS:
            if name in self._values:
                self._add_problem(f"{name} does not apply to a server of type {transport_type}. Remove it.")
        if transport_type == "stdio":
            command, cwd = self._values.get("command", ""), self._values.get("cwd")
            inherit_env = self._values.get("inherit_env", False)
            return Stdio(command, self._args(), self._strings("env"), str(cwd) if cwd else None, inherit_env)
        transport_class = Sse if transport_type == "sse" else StreamableHttp
        return transport_class(self._values.get("url", ""), self._headers())

    def _transport_type(self) -> str | None:
        """Return `stdio`, `sse` or `streamable-http`; None if the entry has a problem."""
        has_command, has_url = "command" in self._values, "url" in self._values
        value = self._values.get("type")
        if has_command == has_url:
            transports = "both a command and a url" if has_url else "neither a command nor a url"
            self._add_problem(f"it has {transports}. Write one of them.")
            return None
        if value is None:
            return "stdio" if has_command else self._untyped_url
        transport_type = _TRANSPORT_TYPES.get(value) if isinstance(value, str) else None
        if transport_type is None:
            # The value is not quoted, since it may be a secret that was written here by mistake.
            self._add_problem(f"type is unknown. {suggestion(str(value), _TRANSPORT_TYPES, noun='Types')}")
        return transport_type

    def _args(self) -> tuple[str, ...]:
        value = self._values.get("args", ())
        if isinstance(value, str):
            return self._split(value)
        if not isinstance(value, list | tuple):
            self._add_problem(f"args is a {type(value).__name__}. Write a list of strings.")
            return ()
        return tuple(self._string("args", item) for item in cast("list[Any]", value))

    def _split(self, value: str) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(value))
        except ValueError:
            self._add_problem("args is a string with unbalanced quotes. Write a list of strings.")
            return ()

    def _strings(self, name: str) -> dict[str, str]:
        value = self._values.get(name, {})
        if not isinstance(value, Mapping):
            self._add_problem(f"{name} is a {type(value).__name__}. Write a mapping from names to strings.")
            return {}
        return {key: self._string(name, item) for key, item in cast("Mapping[str, Any]", value).items()}

    def _headers(self) -> dict[str, str]:
        headers = self._strings("headers")
        token = self._values.get("auth_token")
        if token is None:
            return headers
        if any(name.lower() == "authorization" for name in headers):
            self._add_problem("it has both an auth_token and a header Authorization. Write one of them.")
        return {**headers, "Authorization": f"Bearer {token}"}

    def _string(self, name: str, value: Any) -> str:
        """Return a value as a string. If it is invalid, add a problem that does not quote it: it may be a secret."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        self._add_problem(f"{name} contains a {type(value).__name__}. Write strings or numbers.")
        return ""
