"""What a project file says, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from statewright.errors import Problem
from statewright.project.stanza import STANZAS
from statewright.workflow.states.language.model import NOWHERE, Assistant, Mark
from statewright.workflow.states.resources.chat_models import ModelSource
from statewright.workflow.states.tools import Integrations, ToolRegistry, ToolSettings

Kind = Literal["assistant", "integration", "datasource", "tool", "workflow", "mcp", "model"]
"""What workflows refer to by an id."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """Documents: files of a folder."""

    id: str
    folder: Path
    glob: str = "**"
    """Which of them."""


@dataclass(frozen=True, slots=True)
class ServedWorkflow:
    """A workflow that the project offers under a name."""

    name: str
    file: Path
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """A graph whose runs the project offers under a name: of a Python module, or in a file of its own."""

    name: str
    target: str | None = None
    """`module:name` or `file.py:name`; None if it is a file."""
    file: Path | None = None
    """Its states in YAML, or its steps in JSON; None if it is of a module."""
    description: str | None = None
    on_failure: str | None = None
    """The graph that is started when a run of this one has failed."""
    version: str | None = None
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the project is served, where the command does not say; None where the project says nothing either."""

    host: str | None = None
    port: int | None = None
    database: Path | None = None
    cors_origins: tuple[str, ...] = ()
    """Web pages that may call from elsewhere."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the server may be called while it asks for no keys."""
    max_body: int | None = None
    """Bytes that a request may have."""
    capacity: int | None = None
    """Runs at work at once."""
    durability: str | None = None
    drain: float | None = None
    """Seconds that steps under way have to end when the server stops."""
    retention_days: int | None = None
    """How long runs of the default workspace are kept once they have ended."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that webhooks may call though they are of a private network, or speak plain HTTP."""
    metrics: str | None = None
    """Who may read `/metrics`: `open`, `keys` or `off`."""
    metrics_host: str | None = None
    metrics_port: int | None = None
    """A port of its own for `/metrics`, without keys."""
    keep_alive: float | None = None
    """Seconds that an idle connection is kept open."""
    read_timeout: float | None = None
    """Seconds that a client has to send the head of a request, and again its body."""
    write_timeout: float | None = None
    """Seconds that a client may take nothing of what it is sent."""
    max_connections: int | None = None
    max_streams: int | None = None
    """Event streams that one workspace may read at once."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a workflow and the command say nothing; None where the project says nothing either."""

    model: str | None = None
    max_items: int | None = None
    """The most items that one iteration may have."""
    max_concurrency: int | None = None
    provider: str | None = None
    """Asked for models whose names have no provider."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says. Without a file everything is empty."""

    folder: Path
    file: Path | None = None
    assistants: Mapping[str, Assistant] = field(default_factory=dict[str, Assistant])
    integrations: Integrations = field(default_factory=Integrations)
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools as `module:function`."""
    tool_settings: ToolSettings = field(default_factory=ToolSettings)
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, "Mapping[str, Any]"])
    """MCP servers, by the ids under which workflows name them."""
    models: Mapping[str, ModelSource] = field(default_factory=dict[str, ModelSource])
    """Models with settings of their own, by the names under which workflows ask for them."""
    workflows: Mapping[str, ServedWorkflow] = field(default_factory=dict[str, ServedWorkflow])
    defaults: Defaults = Defaults()
    graphs: Mapping[str, ServedGraph] = field(default_factory=dict[str, ServedGraph])
    handler_modules: tuple[str, ...] = ()
    """Modules that are imported for their task handlers, and whose functions steps may name."""
    serving: Serving = Serving()
    spending_limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, "Mapping[str, float]"])
    """What workspaces may spend on a day, by their names, with `*` for all others; see `SpendingLimits`."""
    warnings: tuple[Problem, ...] = ()
    """What was accepted, and probably not what was meant."""

    def tool_registry(self) -> ToolRegistry:
        """The tools of the project and those that it turns on; none of its modules is imported yet."""
        return ToolRegistry(self.functions, self.tool_settings)

    def stanza_for(self, kind: Kind, id: str) -> str:  # noqa: A002  # what it is called everywhere
        """What to add to the file for an id that is nowhere."""
        return STANZAS[kind](id)
