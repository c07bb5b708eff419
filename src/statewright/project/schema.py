"""The contents of a project file as dataclasses, and TOML snippets that define missing resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pydantic.dataclasses
from pydantic import BeforeValidator, ConfigDict, ValidationInfo

from statewright.data.problems import expects
from statewright.errors import InvalidConfig, Problem
from statewright.project.tables import (
    Concurrency,
    Count,
    Durability,
    Duration,
    MetricsAccess,
    Port,
    QueueNames,
    String,
    Strings,
)
from statewright.project.toml_positions import format_path
from statewright.storage.locations import Location, PostgresUrl, parse_location
from statewright.workflow.states.language.model import Assistant
from statewright.workflow.states.language.yaml.nodes import NOWHERE, Mark
from statewright.workflow.states.mcp import server_snippet
from statewright.workflow.states.resources.chat_models import ModelSource
from statewright.workflow.states.tools import (
    Integrations,
    ToolRegistry,
    ToolSettings,
    integration_snippet,
    tool_snippet,
)

Kind = Literal["assistant", "integration", "datasource", "tool", "workflow", "mcp", "model"]
"""Kinds of resources that workflows refer to by id."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data source: documents in a folder."""

    id: str
    folder: Path
    glob: str = "**"
    """The pattern that the paths of the documents in the folder match."""


@dataclass(frozen=True, slots=True)
class ServedWorkflow:
    """A workflow that the project serves under a name."""

    name: str
    file: Path
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """A graph that the project serves under a name, from a Python module or a workflow file."""

    name: str
    target: str | None = None
    """The Python graph, as `module:name` or `file.py:name`; None for a workflow file."""
    file: Path | None = None
    """A workflow file of states (YAML) or steps (JSON); None for a Python graph."""
    description: str | None = None
    on_failure: str | None = None
    """The graph to start after a run of this one has failed."""
    version: str | None = None
    queue: str | None = None
    """The queue of its runs, unless a request or a tag names another one."""
    at: Mark = NOWHERE
    """The position of the entry in the project file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The limits of a queue, which hold for all workspaces and workers together, and the tags of its runs."""

    max_running: int | None = None
    """The maximum number of runs that workers advance concurrently; None for no limit."""
    starts_per_minute: int | None = None
    tags: tuple[str, ...] = ()
    """Runs with one of these tags are put into the queue, unless their request names another one."""


def _resolve_database(value: Any, info: ValidationInfo[Path | None]) -> Any:
    """Parse the location of a database. A path is relative to the project file."""
    if not isinstance(value, str):
        return value
    if "\0" in value or not value:
        raise ValueError("It is not a valid path.", "Name a file, such as 'runs.db'.")
    try:
        location = parse_location(value)
    except InvalidConfig as error:
        message, _, advice = str(error).partition(". ")  # the first sentence is the problem, the rest is advice
        raise ValueError(f"{message}.", advice) from None
    if isinstance(location, PostgresUrl):
        return location
    return (info.context or Path()) / location  # the context is the folder of the project file


Database = Annotated[Location, expects("a string"), BeforeValidator(_resolve_database)]
_CONFIG: Final = ConfigDict(extra="forbid")


@pydantic.dataclasses.dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Serving:
    """Defaults for serving, which the command line overrides. A value that is not set is None."""

    host: String | None = None
    port: Port | None = None
    database: Database | None = None
    cors_origins: Strings = ()
    """Origins of web pages that may call the API."""
    allowed_hosts: Strings = ()
    """Host names under which clients may call a server without API keys."""
    max_body: Count | None = None
    """Maximum size of a request in bytes."""
    capacity: Count | None = None
    """Maximum number of concurrent runs."""
    queues: QueueNames | None = None
    """The queues that a process serves; None for all."""
    max_losses: Count | None = None
    """The number of workers that may be lost with a run before it is set aside."""
    durability: Durability | None = None
    drain: Duration | None = None
    """Seconds that running steps have to finish when the server stops."""
    retention_days: Count | None = None
    """Days after which runs of the default workspace that have ended are deleted."""
    webhook_hosts: Strings = ()
    """Hosts that webhooks may call even if they are private or use plain HTTP."""
    metrics: MetricsAccess | None = None
    """Access to `/metrics`: `open`, `keys` or `off`."""
    metrics_host: String | None = None
    metrics_port: Port | None = None
    """Separate port for `/metrics`, without API keys."""
    keep_alive: Duration | None = None
    """Seconds for which an idle connection is kept open."""
    read_timeout: Duration | None = None
    """Seconds that a client has to send the head of a request, and as many for its body."""
    write_timeout: Duration | None = None
    """Seconds without progress after which a client that does not read its response is disconnected."""
    max_connections: Count | None = None
    max_streams: Count | None = None
    """Maximum number of concurrent event streams per workspace."""
    page: bool | None = None
    """True, the default, to serve the web page under `/ui/`."""
    session_idle: Duration | None = None
    """Seconds after its last use at which a session of the web page ends."""


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=_CONFIG)
class Defaults:
    """Defaults that workflows and the command line override. A value that is not set is None."""

    model: String | None = None
    max_items: Count | None = None
    """Maximum number of items of an iteration."""
    max_concurrency: Concurrency | None = None
    provider: String | None = None
    """The provider of models whose names do not contain a provider."""


@dataclass(frozen=True, slots=True)
class Project:
    """The contents of a project file; empty without a file."""

    folder: Path
    file: Path | None = None
    assistants: Mapping[str, Assistant] = field(default_factory=dict[str, Assistant])
    integrations: Integrations = field(default_factory=Integrations)
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tool functions as `module:function`, by name."""
    tool_settings: ToolSettings = field(default_factory=ToolSettings)
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, "Mapping[str, Any]"])
    """MCP servers by id."""
    models: Mapping[str, ModelSource] = field(default_factory=dict[str, ModelSource])
    """Models that the project defines, by name."""
    workflows: Mapping[str, ServedWorkflow] = field(default_factory=dict[str, ServedWorkflow])
    defaults: Defaults = field(default_factory=Defaults)
    graphs: Mapping[str, ServedGraph] = field(default_factory=dict[str, ServedGraph])
    handler_modules: tuple[str, ...] = ()
    """Modules with task handlers, whose functions steps may call."""
    serving: Serving = field(default_factory=Serving)
    queues: Mapping[str, QueueSettings] = field(default_factory=dict[str, QueueSettings])
    """Queues by name."""
    spending_limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "Mapping[str, float]"])
    """Daily spending limits by workspace, with those of all other workspaces under `*`; see `SpendingLimits`."""
    warnings: tuple[Problem, ...] = ()
    """Parts of the file that are accepted, but are probably mistakes."""

    def tool_registry(self) -> ToolRegistry:
        """Return the tools of the project and the built-in tools that it allows, without importing its modules."""
        return ToolRegistry(self.functions, self.tool_settings)

    @property
    def queues_by_tag(self) -> Mapping[str, str]:
        """The queue of the runs with a tag, by tag."""
        return {tag: name for name, queue in self.queues.items() for tag in queue.tags}

    def snippet_for(self, kind: Kind, name: str) -> str:
        """Return a TOML snippet that defines a missing resource."""
        return _SNIPPETS[kind](name)


# -- snippets that define missing resources


def _format_table(section: str, name: str, *lines: str) -> str:
    return "\n".join((f"[{section}.{format_path((name,))}]", *lines))


_SNIPPETS: Final[dict[Kind, Callable[[str], str]]] = {
    "assistant": lambda name: _format_table("assistants", name, 'system_prompt = "You are ..."'),
    "integration": integration_snippet,
    "datasource": lambda name: _format_table("datasources", name, 'folder = "documents"', 'glob = "**/*.md"'),
    "tool": tool_snippet,
    "mcp": server_snippet,
    "model": lambda name: _format_table("models", name, 'name = "openai:gpt-5"'),
    "workflow": lambda name: _format_table("workflows", name, 'file = "workflow.yaml"'),
}
