"""The interface of a project for workflows, and warnings about resources that a workflow names but cannot use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from statewright.errors import ModelError, Problem, ToolError
from statewright.workflow.states.language.model import Assistant, Definition, McpServer
from statewright.workflow.states.language.yaml.nodes import Mark, problem_at
from statewright.workflow.states.mcp.permission import check_command, check_variables, host_snippet, server_snippet
from statewright.workflow.states.mcp.resolve import read_config
from statewright.workflow.states.nodes import DataSource
from statewright.workflow.states.resources.chat_models import ModelResolver, ModelSource
from statewright.workflow.states.tools import (
    Guard,
    Integrations,
    ToolRegistry,
    ToolSettings,
    integration_snippet,
    read_url,
)

ResourceKind = Literal["assistant", "integration", "datasource", "tool"]


class Defaults(Protocol):
    """The defaults of a project."""

    @property
    def model(self) -> str | None: ...
    @property
    def max_items(self) -> int | None: ...
    @property
    def max_concurrency(self) -> int | None: ...
    @property
    def provider(self) -> str | None: ...


class Project(Protocol):
    """The resources that a project provides to its workflows; see `statewright.project`."""

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


def find_missing_resources(definition: Definition, project: Project) -> list[Problem]:
    """Return a warning for each resource that a workflow names but cannot use, with the lines to add to the project.

    Such resources are ids that the project does not define, servers that are not allowed, and models that cannot be
    connected, for example because an API key is not set.
    """
    registry = project.tool_registry()
    problems: list[Problem] = []
    for kind, name, at in _iter_unknown_resources(definition, project, registry):
        label = kind.replace("datasource", "data source")
        snippet = project.snippet_for(kind, name)
        problems.append(problem_at(at, f"The {label} {name!r} is not in the project.", f"To add it:\n{snippet}"))
    return [*problems, *check_servers(definition, project, registry.settings), *_check_models(definition, project)]


def _iter_unknown_resources(
    definition: Definition, project: Project, registry: ToolRegistry
) -> Iterator[tuple[ResourceKind, str, Mark]]:
    """Yield the kind, the name and the position of each resource that the project does not define."""
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
    """Yield a warning for each model that an assistant uses and that cannot be connected."""
    resolver, seen = ModelResolver(project.models, project.defaults.provider), set[str]()
    for assistant in definition.assistants:
        base = project.assistants.get(assistant.assistant_id or "")
        name = assistant.model or (base.model if base is not None else None) or project.defaults.model
        model = resolver.find(name) or resolver.find(project.defaults.model)
        if model is None or model.name in seen:
            continue
        seen.add(model.name)
        try:
            _ = model.model  # connects it
        except ModelError as error:
            yield problem_at(assistant.at, str(error))


def check_servers(definition: Definition, project: Project, settings: ToolSettings) -> Iterator[Problem]:
    """Yield a warning for each enabled MCP server that cannot be used. Do not resolve hosts or start programs."""
    servers = [server for assistant in definition.assistants for server in assistant.mcp_servers]
    servers += [tool.mcp_server for tool in definition.tools if tool.mcp_server is not None]
    for server in servers:
        for message, advice in _check_server(server, project, settings) if server.enabled else ():
            yield problem_at(server.at, f"MCP server {server.name!r}: {message}", advice)


def _check_server(server: McpServer, project: Project, settings: ToolSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems of a server, each as a message and advice."""
    alias = server.settings.get("integration_alias")
    if alias is not None and alias not in project.integrations:
        yield f"the integration {alias!r} does not exist.", f"To add it:\n{integration_snippet(alias)}"
    if server.settings.get("mcp_connect_url"):
        yield "mcp_connect_url is not supported.", "The server is started or reached directly, as its config says."
    config_id = server.settings.get("mcp_config_id")
    if not config_id:
        yield from _check_config(server, settings)
    elif config_id not in project.mcp:
        yield f"the server {config_id!r} does not exist.", f"To add it:\n{server_snippet(config_id)}"
    elif server.config or server.settings.get("command"):
        yield f"the server {config_id!r} of the project is used, and the config is ignored.", "Remove the config."


def _check_config(server: McpServer, settings: ToolSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems of a server that the workflow file defines, each as a message and advice.

    Values with placeholders are not checked.
    """
    try:
        config = read_config(server)
        command, text = config.get("command"), config.get("url")
        if isinstance(command, str) and "{{" not in command:
            check_command(command, settings)
            check_variables(config.get("env") or ())
        if isinstance(text, str) and "{{" not in text:
            url = read_url(text)
            if not Guard(settings.allow_hosts).allows(url) and not server.settings.get("integration_alias"):
                snippet = host_snippet(url, settings)
                yield f"the host {url.host!r} is not allowed.", f"To allow it, write in statewright.toml:\n{snippet}"
    except ToolError as error:
        yield str(error), ""
