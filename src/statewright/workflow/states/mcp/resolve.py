"""Resolution of servers: from the configuration in a workflow or project file to a server that can be connected."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.agents import Credentials
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.workflow.states.language.model import McpServer as DeclaredServer
from statewright.workflow.states.mcp.permission import check_command, check_url, check_variables, server_stanza
from statewright.workflow.states.mcp.values import ServerValues, names_context
from statewright.workflow.states.tools import Integrations, ToolSettings, Url, read_url

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer

_CONFIG_KEYS: Final = ("command", "url", "args", "env", "headers", "type", "auth_token")
_PROJECT_KEYS: Final = (*_CONFIG_KEYS, "timeout", "connect_timeout", "cwd")


@dataclass(frozen=True, slots=True)
class ResolvedServer:
    """A server with all values filled in, which is allowed to be connected."""

    server: McpServer
    credentials: Credentials
    """Masks the secrets of the server in the output of its tools."""
    is_single: bool
    """True if each call opens a connection of its own."""


class ServerResolver:
    """Resolves servers with the settings of one project."""

    def __init__(
        self, settings: ToolSettings, integrations: Integrations, project_servers: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._settings = settings
        self._integrations = integrations
        self._project_servers = project_servers

    def resolve(self, declared: DeclaredServer, context: Mapping[str, Any]) -> ResolvedServer:
        """Resolve a server for a state with this context. Blocks for DNS.

        Raises ToolError for a server that is not allowed, invalid or unknown, and MissingApiKey for an environment
        variable that is not set.
        """
        project_config = self._find_project_config(declared)
        config = dict(project_config) if project_config is not None else own_config(declared)
        _check_supported(declared, config)
        alias = declared.settings.get("integration_alias") or config.get("integration_alias")
        credentials = self._integrations.credentials(alias)
        may_name = bool(declared.settings.get("resolve_dynamic_values_in_arguments"))
        names: Mapping[str, Any] = context if may_name else {}
        is_single = bool(config.get("single_usage")) or names_context(config.get("args"), names, credentials)
        values = ServerValues(declared.name, credentials)
        filled = values.fill(config, names)
        addresses = self._check(filled, credentials, values) if project_config is None else ()
        server = _build_server(declared, filled, addresses, from_project=project_config is not None)
        for secret in values.secrets:
            credentials = _with_secret(credentials, secret)
        return ResolvedServer(server, credentials, is_single)

    def _find_project_config(self, declared: DeclaredServer) -> Mapping[str, Any] | None:
        """Return the project's configuration for the `mcp_config_id` of a server; None for a server without one."""
        config_id = declared.settings.get("mcp_config_id")
        if not config_id:
            return None
        if config_id not in self._project_servers:
            raise ToolError(
                f"MCP server {declared.name!r} has the mcp_config_id {config_id!r}, which does not exist. "
                f"{suggestion(config_id, self._project_servers, noun='Servers')} To add it, write in "
                f"statewright.toml:\n{server_stanza(config_id)}"
            )
        return self._project_servers[config_id]

    def _check(self, filled: Mapping[str, Any], credentials: Credentials, values: ServerValues) -> Sequence[str]:
        """Return the addresses to connect to, for a server with a URL.

        Raises ToolError if the project does not allow a server that the workflow file defines.
        """
        if "command" in filled:
            check_command(str(filled["command"]), self._settings)
            env = filled.get("env")
            check_variables(cast("Mapping[str, Any]", env) if isinstance(env, Mapping) else ())
        if "url" in filled:
            url, base = read_url(str(filled["url"])), _base_of(credentials)
            if base is not None and base.origin != url.origin:
                raise ToolError(
                    f"Integration {credentials.alias!r} is for {base.scheme}://{base.host}, and was used for an MCP "
                    f"server at {url.host!r}. Use it for its own host, or remove its base_url."
                )
            holds_secrets = bool(values.secrets or credentials)
            return check_url(url, self._settings, integration_url=base, holds_secrets=holds_secrets)
        return ()


def own_config(declared: DeclaredServer) -> dict[str, Any]:
    """Return the configuration in the workflow file; `config` takes precedence over the older keys."""
    config = {name: declared.config[name] for name in (*_CONFIG_KEYS, "single_usage") if name in declared.config}
    if "command" not in config and "url" not in config and declared.settings.get("command"):
        config["command"] = declared.settings["command"]
        config.setdefault("args", declared.settings.get("arguments"))
    config = {name: value for name, value in config.items() if value is not None}
    if isinstance(config.get("args"), str):
        # Split before values are filled in, so that a value never becomes two arguments.
        config["args"] = _split(declared.name, config["args"])
    return config


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ToolError(f"MCP server {name!r}: the arguments cannot be split: {error}. Write them as a list.") from None


def _check_supported(declared: DeclaredServer, config: Mapping[str, Any]) -> None:
    if not declared.enabled:
        raise ToolError(f"MCP server {declared.name!r} is disabled. Write enabled: true to use its tools.")
    if declared.settings.get("mcp_connect_url") and "command" not in config and "url" not in config:
        raise ToolError(
            f"MCP server {declared.name!r} is reached through the proxy of mcp_connect_url, which Statewright does not "
            f"have. Write config: {{command: ...}} or config: {{url: ...}}: servers are started and reached directly."
        )


def _build_server(
    declared: DeclaredServer, filled: Mapping[str, Any], addresses: Sequence[str], *, from_project: bool
) -> McpServer:
    from statewright.agents.mcp import Stdio, read_server

    entry = {name: filled[name] for name in _PROJECT_KEYS if name in filled}
    allowed = declared.settings.get("tools")
    if allowed is not None:
        entry["allowed_tools"] = allowed
    try:
        server = read_server(entry, name=declared.name, untyped_url="streamable-http" if from_project else "sse")
    except InvalidConfig as error:
        raise ToolError(str(error)) from None
    transport = server.transport
    if not addresses or isinstance(transport, Stdio):
        return server
    return replace(server, transport=replace(transport, addresses=tuple(addresses)))


def _base_of(credentials: Credentials) -> Url | None:
    base = credentials.get("base_url", credentials.get("url"))
    return read_url(base) if isinstance(base, str) else None


def _with_secret(credentials: Credentials, secret: str) -> Credentials:
    # The object for "no credentials" is shared by all servers, and must not be modified.
    own = credentials if credentials.alias else Credentials("the environment", {})
    own.keep_secret(secret)
    return own
