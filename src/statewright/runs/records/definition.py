"""What can be run, as it was at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Json, Record, Sealed


@dataclass(slots=True, kw_only=True)
class StoredDefinition(Record):
    """A version of a workflow, by the digest of its content. Never changed: runs end on the version they began with."""

    TABLE: ClassVar[str] = "definitions"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "name", "version"),)

    workspace_id: str
    name: str
    version: str
    kind: str
    """`steps` for JSON, `states` for YAML, `graph` for what stands in a Python module."""
    description: Sealed = ""
    digest: str
    body: Json = None
    """The definition itself; None for a graph, whose code is elsewhere."""
    created_at: datetime
