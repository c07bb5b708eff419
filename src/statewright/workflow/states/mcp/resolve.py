"""Resolution of servers: from the configuration in a workflow or project file to a server that can be connected.

The configuration may refer to values of an integration and of the environment. Answers of models and tools are inserted
only into program arguments, and only if the workflow enables this, because a URL or a header that a model chose could
send the secrets anywhere. Inserted values are never read as templates themselves.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.agents import Credentials
from statewright.data.mappings import without_none
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.workflow.states.language.model import McpServer as DeclaredServer
from statewright.workflow.states.mcp.permission import check_command, check_url, check_variables, server_snippet
from statewright.workflow.states.tools import (
    Integrations,
    ToolSettings,
    base_url,
    check_origin,
    read_url,
    read_variable,
)

if TYPE_CHECKING:
    from statewright.agents.mcp import McpServer
    from statewright.workflow.states.templates.template import Template

_CONFIG_KEYS: Final = ("command", "url", "args", "env", "headers", "type", "auth_token")
_PROJECT_KEYS: Final = (*_CONFIG_KEYS, "timeout", "connect_timeout", "cwd")


@dataclass(frozen=True, slots=True)
class ResolvedServer:
    """A server whose configuration contains all values, and which the project allows."""

    server: McpServer
    credentials: Credentials
    """The credentials of the integration, which mask the secrets of the server in the output of its tools."""
    is_single_use: bool
    """True if each call opens a new connection."""


class ServerResolver:
    """Resolves servers with the settings of one project."""

    def __init__(
        self, settings: ToolSettings, integrations: Integrations, project_servers: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._settings = settings
        self._integrations = integrations
        self._project_servers = project_servers

    def resolve(self, declaration: DeclaredServer, context: Mapping[str, Any]) -> ResolvedServer:
        """Resolve a server for a state with this context. Blocks for DNS.

        Raises ToolError for a server that the project does not define or does not allow, and for an invalid server.
        Raises MissingApiKey for an environment variable that is not set.
        """
        project_config = self._find_project_config(declaration)
        config = dict(project_config) if project_config is not None else read_config(declaration)
        _check_supported(declaration, config)
        alias = declaration.settings.get("integration_alias") or config.get("integration_alias")
        credentials = self._integrations.credentials(alias)
        if not declaration.settings.get("resolve_dynamic_values_in_arguments"):
            context = {}
        # Arguments that contain values of the context differ from call to call, so calls cannot share a connection.
        is_single_use = bool(config.get("single_usage")) or refers_to_context(config.get("args"), context, credentials)
        values = ServerValues(declaration.name, credentials)
        filled_config = values.fill(config, context)
        addresses = self._check_permission(filled_config, credentials, values) if project_config is None else ()
        server = _build_server(declaration, filled_config, addresses, from_project=project_config is not None)
        if values.secrets and not credentials.alias:
            # The object for "no credentials" is shared by all servers, and must not be modified.
            credentials = Credentials("the environment", {})
        for secret in values.secrets:
            credentials.keep_secret(secret)
        return ResolvedServer(server, credentials, is_single_use)

    def _find_project_config(self, declaration: DeclaredServer) -> Mapping[str, Any] | None:
        """Return the configuration in the project that `mcp_config_id` refers to; None without an `mcp_config_id`."""
        config_id = declaration.settings.get("mcp_config_id")
        if not config_id:
            return None
        if config_id not in self._project_servers:
            raise ToolError(
                f"MCP server {declaration.name!r} has the mcp_config_id {config_id!r}, which is not in the project. "
                f"{suggestion(config_id, self._project_servers, noun='Servers')} To add it, write in "
                f"statewright.toml:\n{server_snippet(config_id)}"
            )
        return self._project_servers[config_id]

    def _check_permission(
        self, filled_config: Mapping[str, Any], credentials: Credentials, values: ServerValues
    ) -> Sequence[str]:
        """Check a server that the workflow file defines. If it has a URL, return the addresses to connect to.

        Raises ToolError if the project does not allow the server.
        """
        if "command" in filled_config:
            check_command(str(filled_config["command"]), self._settings)
            env = filled_config.get("env")
            check_variables(cast("Mapping[str, Any]", env) if isinstance(env, Mapping) else ())
        if "url" in filled_config:
            url, base = read_url(str(filled_config["url"])), base_url(credentials)
            if base is not None:
                check_origin(credentials, base, url)
            holds_secrets = bool(values.secrets or credentials)
            return check_url(url, self._settings, integration_url=base, holds_secrets=holds_secrets)
        return ()


def read_config(declaration: DeclaredServer) -> dict[str, Any]:
    """Return the configuration of a server that the workflow file defines.

    The key `config` takes precedence over the older keys `command` and `arguments`.
    """
    config = {name: declaration.config[name] for name in (*_CONFIG_KEYS, "single_usage") if name in declaration.config}
    if "command" not in config and "url" not in config and declaration.settings.get("command"):
        config["command"] = declaration.settings["command"]
        config.setdefault("args", declaration.settings.get("arguments"))
    config = without_none(config)
    if isinstance(config.get("args"), str):
        # Split before values are inserted, so that a value never becomes two arguments.
        try:
            config["args"] = shlex.split(config["args"])
        except ValueError as error:
            raise ToolError(
                f"MCP server {declaration.name!r}: the arguments cannot be split: {error}. Write them as a list."
            ) from None
    return config


def _check_supported(declaration: DeclaredServer, config: Mapping[str, Any]) -> None:
    if not declaration.enabled:
        raise ToolError(f"MCP server {declaration.name!r} is disabled. Write enabled: true to use its tools.")
    if declaration.settings.get("mcp_connect_url") and "command" not in config and "url" not in config:
        raise ToolError(
            f"MCP server {declaration.name!r} has an mcp_connect_url, which is not supported: servers are started or "
            f"reached directly, without a proxy. Write config: {{command: ...}} or config: {{url: ...}}."
        )


def _build_server(
    declaration: DeclaredServer, filled_config: Mapping[str, Any], addresses: Sequence[str], *, from_project: bool
) -> McpServer:
    from statewright.agents.mcp import Stdio, read_server

    entry = {name: filled_config[name] for name in _PROJECT_KEYS if name in filled_config}
    allowed = declaration.settings.get("tools")
    if allowed is not None:
        entry["allowed_tools"] = allowed
    try:
        server = read_server(entry, name=declaration.name, untyped_url="streamable-http" if from_project else "sse")
    except InvalidConfig as error:
        raise ToolError(str(error)) from None
    transport = server.transport
    if not addresses or isinstance(transport, Stdio):
        return server
    return replace(server, transport=replace(transport, addresses=tuple(addresses)))


# -- values of a configuration


class ServerValues:
    """Inserts values into the configuration of one server, and collects its secrets."""

    def __init__(self, server: str, credentials: Credentials) -> None:
        self._server = server
        self._values: dict[str, Any] = dict(credentials)
        self.secrets: set[str] = set()
        """The inserted values of environment variables."""

    def fill(self, config: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration with all values inserted. Only `args` may refer to names in `context`."""
        filled_config = dict(config)
        for name in ("env", "headers"):
            if isinstance(values := config.get(name), Mapping):
                items = cast("Mapping[str, Any]", values).items()
                filled_config[name] = {key: self._resolve_value(f"{name}.{key}", value) for key, value in items}
        # The other keys may also refer to the variables in `env`.
        self._values = {**(filled_config.get("env") or {}), **self._values}
        for name in ("command", "url", "auth_token"):
            if name in config:
                filled_config[name] = self._resolve_value(name, config[name], from_environment=name == "auth_token")
        if isinstance(args := config.get("args"), list):
            scope = {**context, **self._values}
            items = cast("list[Any]", args)
            filled_config["args"] = [
                _parse_simple_template(item).render(scope) if isinstance(item, str) else item for item in items
            ]
        return filled_config

    def _resolve_value(self, key: str, value: Any, *, from_environment: bool = True) -> Any:
        if not isinstance(value, str):
            return value
        if from_environment:
            secret = read_variable(value, f"MCP server {self._server!r} takes {key}")
            if secret is not None:
                self.secrets.add(secret)
                return secret
        template = _parse_simple_template(value)
        unknown = template.names - self._values.keys()
        if unknown:
            raise ToolError(
                f"MCP server {self._server!r}: {key} refers to {{{{{min(unknown)}}}}}, which has no value. "
                f"Available: {', '.join(sorted(self._values)) or 'nothing'}. Set an integration_alias that defines it; "
                f"only args may refer to values of a run."
            )
        return template.render(self._values)


def refers_to_context(args: Any, context: Mapping[str, Any], credentials: Mapping[str, Any]) -> bool:
    """Return whether arguments refer to names that only the context defines."""
    items = cast("list[Any]", args) if isinstance(args, list) else []
    names = {name for item in items if isinstance(item, str) for name in _parse_simple_template(item).names}
    return bool((names & context.keys()) - credentials.keys())


def _parse_simple_template(text: str) -> Template:
    # Imported here, because projects without the extra `states` use this module too.
    from statewright.workflow.states.templates import parse_template

    return parse_template(text, simple=True)
