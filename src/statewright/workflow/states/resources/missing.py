"""The project as workflows see it, and warnings about resources that a workflow names and the project lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from statewright.errors import ModelError, Problem
from statewright.workflow.states.language.model import Assistant, Definition
from statewright.workflow.states.language.yaml.nodes import Mark, problem_at
from statewright.workflow.states.mcp.check import check_servers
from statewright.workflow.states.nodes import DataSource
from statewright.workflow.states.resources.chat_models import ModelNames, ModelSource
from statewright.workflow.states.tools import Integrations, ToolRegistry

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
    def stanza_for(self, kind: Any, id: str) -> str: ...  # noqa: A002


def missing_resources(definition: Definition, project: Project) -> list[Problem]:
    """Return a warning for each unknown id, with what to add; each server that is not allowed; and each model that
    cannot be connected, for example without a key."""
    nowhere = [
        problem_at(at, f"{noun} {name!r} is not in the project.", f"To add it:\n{project.stanza_for(kind, name)}")
        for kind, noun, name, at in _named(definition, project)
    ]
    settings = project.tool_registry().settings
    servers = check_servers(definition, settings, project.integrations, project.mcp)
    return [*nowhere, *servers, *_models(definition, project)]


def _models(definition: Definition, project: Project) -> Iterator[Problem]:
    """Warn once about each model that files name and that cannot be connected."""
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


def _named(definition: Definition, project: Project) -> Iterator[tuple[Kind, str, str, Mark]]:
    registry = project.tool_registry()
    for assistant in definition.assistants:
        if assistant.assistant_id is not None and assistant.assistant_id not in project.assistants:
            yield "assistant", "The assistant", assistant.assistant_id, assistant.at
        for tool in assistant.tools:
            if tool.name not in registry:
                yield "tool", "The tool", tool.name, tool.at
            if tool.integration_alias is not None and tool.integration_alias not in project.integrations:
                yield "integration", "The integration", tool.integration_alias, tool.at
        for source in assistant.datasource_ids:
            if source not in project.datasources:
                yield "datasource", "The data source", source, assistant.at
    for tool in definition.tools:
        if tool.mcp_server is None and tool.tool not in registry:
            yield "tool", "The tool", tool.tool, tool.at
        if tool.integration_alias is not None and tool.integration_alias not in project.integrations:
            yield "integration", "The integration", tool.integration_alias, tool.at
