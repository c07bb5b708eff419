"""The project as workflows see it, and warnings about resources that a workflow names and cannot use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from statewright.errors import ModelError, Problem, ToolError
from statewright.workflow.states.language.model import Assistant, Definition, McpServer
from statewright.workflow.states.language.yaml.nodes import Mark, problem_at
from statewright.workflow.states.mcp.permission import check_command, check_variables, host_snippet, server_snippet
from statewright.workflow.states.mcp.resolve import own_config
from statewright.workflow.states.nodes import DataSource
from statewright.workflow.states.resources.chat_models import ModelNames, ModelSource
from statewright.workflow.states.tools import (
    Guard,
    Integrations,
    ToolRegistry,
    ToolSettings,
    integration_snippet,
    read_url,
)

Kind = Literal["assistant", "integration", "datasource", "tool"]


class Defaults(Protocol):
    """Defaults of a project."""

    @property
    def model(self) -> str | None: ...
    @property
    def max_items(self) -> int | None: ...
    @property
    def max_concurrency(self) -> int | None: ...
    @property
    def provider(self) -> str | None: ...


class Project(Protocol):
    """Resources that a project provides to its workflows; see `statewright.project`."""

    @property
    def assistants(self) -> Mapping[str, Assistant]: ...
    @property
    def integrations(self) -> Integrations: ...
    @property
    def datasources(self) -> Mapping[str, DataSource]: ...
    @property
    def defaults(self) -> Defaults: ...
    @property
    def mcp(self) -> Mapping[str, Mapping[str, Any]]: ...
    @property
    def models(self) -> Mapping[str, ModelSource]: ...
    def tool_registry(self) -> ToolRegistry: ...
    def snippet_for(self, kind: Any, name: str) -> str: ...


def missing_resources(definition: Definition, project: Project) -> list[Problem]:
    """Return a warning for each resource that a workflow names and cannot use, with what to add to the project.

    These are unknown ids, servers that are not allowed, and models that cannot be connected, as without a key.
    """
    registry = project.tool_registry()
    problems: list[Problem] = []
    for kind, name, at in _unknown_ids(definition, project, registry):
        noun = kind.replace("datasource", "data source")
        snippet = project.snippet_for(kind, name)
        problems.append(problem_at(at, f"The {noun} {name!r} is not in the project.", f"To add it:\n{snippet}"))
    return [*problems, *check_servers(definition, project, registry.settings), *_check_models(definition, project)]


def _unknown_ids(definition: Definition, project: Project, registry: ToolRegistry) -> Iterator[tuple[Kind, str, Mark]]:
    for assistant in definition.assistants:
        if assistant.assistant_id is not None and assistant.assistant_id not in project.assistants:
            yield "assistant", assistant.assistant_id, assistant.at
        for tool in assistant.tools:
            if tool.name not in registry:
                yield "tool", tool.name, tool.at
            if tool.integration_alias is not None and tool.integration_alias not in project.integrations:
                yield "integration", tool.integration_alias, tool.at
        for source in assistant.datasource_ids:
            if source not in project.datasources:
                yield "datasource", source, assistant.at
    for tool in definition.tools:
        if tool.mcp_server is None and tool.tool not in registry:
            yield "tool", tool.tool, tool.at
        if tool.integration_alias is not None and tool.integration_alias not in project.integrations:
            yield "integration", tool.integration_alias, tool.at


def _check_models(definition: Definition, project: Project) -> Iterator[Problem]:
    """Yield one warning for each model that files name and that cannot be connected."""
    names, seen = ModelNames(project.models, project.defaults.provider), set[str]()
    for assistant in definition.assistants:
        stored = project.assistants.get(assistant.assistant_id or "")
        name = assistant.model or (stored.model if stored is not None else None) or project.defaults.model
        model = names.find(name) or names.find(project.defaults.model)
        if model is None or model.name in seen:
            continue
        seen.add(model.name)
        try:
            _ = model.model
        except ModelError as error:
            yield problem_at(assistant.at, str(error))


def check_servers(definition: Definition, project: Project, settings: ToolSettings) -> Iterator[Problem]:
    """Yield a warning for each enabled MCP server that is not usable, without resolving hosts or starting programs."""
    servers = [server for assistant in definition.assistants for server in assistant.mcp_servers]
    servers += [tool.mcp_server for tool in definition.tools if tool.mcp_server is not None]
    for server in servers:
        for message, advice in _check_server(server, project, settings) if server.enabled else ():
            yield problem_at(server.at, f"MCP server {server.name!r}: {message}", advice)


def _check_server(server: McpServer, project: Project, settings: ToolSettings) -> Iterator[tuple[str, str]]:
    own = server.settings
    alias = own.get("integration_alias")
    if alias is not None and alias not in project.integrations:
        yield f"the integration {alias!r} does not exist.", f"To add it:\n{integration_snippet(alias)}"
    if own.get("mcp_connect_url"):
        yield "mcp_connect_url is not supported.", "The server is started or reached directly, as its config says."
    config_id = own.get("mcp_config_id")
    if not config_id:
        yield from _check_config(server, settings)
    elif config_id not in project.mcp:
        yield f"the server {config_id!r} does not exist.", f"To add it:\n{server_snippet(config_id)}"
    elif server.config or own.get("command"):
        yield f"the project's server {config_id!r} is used, and the config is ignored.", "Remove the config."


def _check_config(server: McpServer, settings: ToolSettings) -> Iterator[tuple[str, str]]:
    try:
        config = own_config(server)
        command, url = config.get("command"), config.get("url")
        if isinstance(command, str) and "{{" not in command:
            check_command(command, settings)
            check_variables(config.get("env") or ())
        if isinstance(url, str) and "{{" not in url:
            address = read_url(url)
            if not Guard(settings.allow_hosts).allows(address) and not server.settings.get("integration_alias"):
                snippet = host_snippet(address, settings)
                yield f"the host {address.host!r} is not allowed.", f"To allow it, write in statewright.toml:\n{snippet}"
    except ToolError as error:
        yield str(error), ""
