"""Warnings about servers that a workflow could not use, with the settings that would allow them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statewright.errors import Problem, ToolError
from statewright.workflow.states.language.model import Definition, McpServer
from statewright.workflow.states.language.yaml.nodes import problem_at
from statewright.workflow.states.mcp.permission import check_command, check_variables, host_stanza, server_stanza
from statewright.workflow.states.mcp.resolve import own_config
from statewright.workflow.states.tools import Guard, Integrations, ToolSettings, integration_stanza, read_url


def check_servers(
    definition: Definition,
    settings: ToolSettings,
    integrations: Integrations,
    project_servers: Mapping[str, Mapping[str, Any]],
) -> Iterator[Problem]:
    """Yield a warning for each enabled server that is not usable. Does neither resolve hosts nor start programs."""
    for server in servers_of(definition):
        for message, advice in _problems(server, settings, integrations, project_servers):
            yield problem_at(server.at, f"MCP server {server.name!r}: {message}", advice)


def servers_of(definition: Definition) -> Iterator[McpServer]:
    """Yield the enabled servers, in the order of the file."""
    for assistant in definition.assistants:
        yield from (server for server in assistant.mcp_servers if server.enabled)
    for tool in definition.tools:
        if tool.mcp_server is not None and tool.mcp_server.enabled:
            yield tool.mcp_server


def _problems(
    server: McpServer,
    settings: ToolSettings,
    integrations: Integrations,
    project_servers: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str]]:
    own = server.settings
    alias = own.get("integration_alias")
    if alias is not None and alias not in integrations:
        yield f"the integration {alias!r} does not exist.", f"To add it:\n{integration_stanza(alias)}"
    if own.get("mcp_connect_url"):
        yield "mcp_connect_url is not supported.", "The server is started or reached directly, as its config says."
    config_id = own.get("mcp_config_id")
    if not config_id:
        yield from _config_problems(server, settings)
    elif config_id not in project_servers:
        yield f"the server {config_id!r} does not exist.", f"To add it:\n{server_stanza(config_id)}"
    elif server.config or own.get("command"):
        yield f"the project's server {config_id!r} is used, and the config is ignored.", "Remove the config."


def _config_problems(server: McpServer, settings: ToolSettings) -> Iterator[tuple[str, str]]:
    try:
        config = own_config(server)
        command, url = config.get("command"), config.get("url")
        if isinstance(command, str) and "{{" not in command:
            check_command(command, settings)
            check_variables(config.get("env") or ())
        if isinstance(url, str) and "{{" not in url:
            address = read_url(url)
            if not Guard(settings.allow_hosts).allows(address) and not server.settings.get("integration_alias"):
                stanza = host_stanza(address, settings)
                yield f"the host {address.host!r} is not allowed.", f"To allow it, write in statewright.toml:\n{stanza}"
    except ToolError as error:
        yield str(error), ""
