"""Definitions and graphs: what can be run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from statewright.server.models.base import JsonMap, Shown, Sources


class DefinitionShown(Shown):
    """A version of a workflow. It never changes."""

    id: str
    workspace_id: str
    name: str
    version: str
    kind: str
    """`steps` for JSON, `states` for YAML, `graph` for what stands in a Python module."""
    description: str
    digest: str
    created_at: datetime


def _definition_of(record: Any) -> Any:
    return record.body


class DefinitionWithBody(DefinitionShown):
    """The same with what was written."""

    SOURCES: ClassVar[Sources] = {"definition": _definition_of}

    definition: Any


class GraphShown(Shown):
    """A graph that is served."""

    name: str
    kind: str
    description: str
    version: str
    definition_id: str | None


class GraphDescriptionShown(GraphShown):
    """Return a graph with its drawing and its schemas."""

    drawing: str
    """In Mermaid's language."""
    nodes: list[Any]
    edges: list[Any]
    input_schema: JsonMap | None
    output_schema: JsonMap | None
    state_schema: JsonMap | None
