"""A server as a workflow or its project writes it, made into one that can be connected."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.agents import Credentials
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.workflow.states.language.model import McpServer as Written
from statewright.workflow.states.mcp.permission import check_command, check_url, check_variables, server_stanza
from statewright.workflow.states.mcp.values import Values, names_context
from statewright.workflow.states.tools import Integrations, ToolSettings, Url, read_url

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer

_OF_CONFIG: Final = ("command", "url", "args", "env", "headers", "type", "auth_token")
_OF_PROJECT: Final = (*_OF_CONFIG, "timeout", "connect_timeout", "cwd")


@dataclass(frozen=True, slots=True)
class Described:
    """A server with all values filled in, that may be connected."""

    server: McpServer
    credentials: Credentials
    """Finds the secrets of the server in what its tools say."""
    is_single: bool
    """Whether it is connected for each call."""


class Descriptions:
    """What a project says about servers."""

    def __init__(
        self, settings: ToolSettings, integrations: Integrations, kept: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._settings = settings
        self._integrations = integrations
        self._kept = kept

    def described(self, written: Written, context: Mapping[str, Any]) -> Described:
        """The server, for a state that sees `context`. It waits for DNS.

        Raises ToolError for what is not allowed, what cannot be, and a server that is nowhere; MissingKey for a
        variable of the environment that is not set.
        """
        kept = self._kept_as(written)
        config = dict(kept) if kept is not None else own_config(written)
        _check_supported(written, config)
        alias = written.settings.get("integration_alias") or config.get("integration_alias")
        credentials = self._integrations.credentials(alias)
        may_name = bool(written.settings.get("resolve_dynamic_values_in_arguments"))
        names: Mapping[str, Any] = context if may_name else {}
        is_single = bool(config.get("single_usage")) or names_context(config.get("args"), names, credentials)
        values = Values(written.name, credentials)
        filled = values.fill(config, names)
        if kept is None:
            self._check(filled, credentials, values)
        server = _made(written, filled, is_kept=kept is not None)
        for secret in values.secrets:
            credentials = _with_secret(credentials, secret)
        return Described(server, credentials, is_single)

    def _kept_as(self, written: Written) -> Mapping[str, Any] | None:
        """What the project keeps under the `mcp_config_id` of a server; None for one that has none."""
        config_id = written.settings.get("mcp_config_id")
        if not config_id:
            return None
        if config_id not in self._kept:
            raise ToolError(
                f"MCP server {written.name!r} is kept as {config_id!r}, which is nowhere. "
                f"{suggestion(config_id, self._kept, noun='Servers')} To add it, write in statewright.toml:\n"
                f"{server_stanza(config_id)}"
            )
        return self._kept[config_id]

    def _check(self, filled: Mapping[str, Any], credentials: Credentials, values: Values) -> None:
        """Raise ToolError for a server of the workflow file itself that its project does not allow."""
        if "command" in filled:
            check_command(str(filled["command"]), self._settings)
            env = filled.get("env")
            check_variables(cast("Mapping[str, Any]", env) if isinstance(env, Mapping) else ())
        if "url" in filled:
            url, base = read_url(str(filled["url"])), _base_of(credentials)
            if base is not None and base.origin != url.origin:
                raise ToolError(
                    f"Integration {credentials.alias!r} is for {base.scheme}://{base.host}, and was used for an MCP "
                    f"server at {url.host!r}. Use it for its own host, or leave its base_url out."
                )
            check_url(url, self._settings, kept=base, holds_secrets=bool(values.secrets or credentials))


def own_config(written: Written) -> dict[str, Any]:
    """How a workflow file itself says that a server is started or reached; `config` counts before the older form."""
    config = {name: written.config[name] for name in (*_OF_CONFIG, "single_usage") if name in written.config}
    if "command" not in config and "url" not in config and written.settings.get("command"):
        config["command"] = written.settings["command"]
        config.setdefault("args", written.settings.get("arguments"))
    config = {name: value for name, value in config.items() if value is not None}
    if isinstance(config.get("args"), str):
        # Split before anything is put into it: a value never becomes two arguments.
        config["args"] = _split(written.name, config["args"])
    return config


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ToolError(f"MCP server {name!r}: the arguments cannot be split: {error}. Write them as a list.") from None


def _check_supported(written: Written, config: Mapping[str, Any]) -> None:
    if not written.enabled:
        raise ToolError(f"MCP server {written.name!r} is disabled. Write enabled: true to use its tools.")
    if written.settings.get("mcp_connect_url") and "command" not in config and "url" not in config:
        raise ToolError(
            f"MCP server {written.name!r} is reached through the proxy of mcp_connect_url, which Statewright does not "
            f"have. Write config: {{command: ...}} or config: {{url: ...}}: servers are started and reached directly."
        )


def _made(written: Written, filled: Mapping[str, Any], *, is_kept: bool) -> McpServer:
    from statewright.agents.mcp import read_server

    entry = {name: filled[name] for name in _OF_PROJECT if name in filled}
    allowed = written.settings.get("tools")
    if allowed is not None:
        entry["allowed_tools"] = allowed
    try:
        return read_server(entry, name=written.name, untyped_url="streamable-http" if is_kept else "sse")
    except InvalidConfig as error:
        raise ToolError(str(error)) from None


def _base_of(credentials: Credentials) -> Url | None:
    base = credentials.get("base_url", credentials.get("url"))
    return read_url(base) if isinstance(base, str) else None


def _with_secret(credentials: Credentials, secret: str) -> Credentials:
    # Never the one that stands for no credentials: it is everybody's.
    found = credentials if credentials.alias else Credentials("the environment", {})
    found.keep_secret(secret)
    return found
