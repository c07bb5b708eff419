"""What a project file says, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from statewright.errors import Problem
from statewright.project.stanza import STANZAS
from statewright.workflow.states.model import Assistant
from statewright.workflow.states.models import ModelSource
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
    warnings: tuple[Problem, ...] = ()
    """What was accepted, and probably not what was meant."""

    def tool_registry(self) -> ToolRegistry:
        """The tools of the project and those that it turns on; none of its modules is imported yet."""
        return ToolRegistry(self.functions, self.tool_settings)

    def stanza_for(self, kind: Kind, id: str) -> str:  # noqa: A002  # what it is called everywhere
        """What to add to the file for an id that is nowhere."""
        return STANZAS[kind](id)
