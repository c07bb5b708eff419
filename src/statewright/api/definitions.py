"""Definitions, graphs and threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from statewright.api.resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition(Resource):
    """A version of a workflow. It never changes."""

    id: str
    workspace_id: str
    name: str
    version: str
    kind: str
    """`steps` for JSON, `states` for YAML, `graph` for a Python graph."""
    description: str
    digest: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionWithBody(Definition):
    """A version of a workflow, with its definition as written."""

    definition: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Resource):
    """A graph that is served."""

    name: str
    kind: str
    description: str
    version: str
    definition_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDescription(Graph):
    """A graph that is served, with its drawing and its schemas."""

    drawing: str
    """A Mermaid diagram."""
    nodes: tuple[Any, ...]
    edges: tuple[Any, ...]
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    state_schema: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProblem(Resource):
    """A problem because of which a changed file cannot be loaded."""

    file: str | None
    """The name of the file, relative to the folder of the project; null if the problem is in no file."""
    line: int | None
    """From 1; null if it is not known."""
    column: int | None
    """From 1; null if it is not known."""
    code: str
    message: str
    suggestion: str
    """A hint for fixing the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload(Resource):
    """The files of a development server: the version that is served, and the problems of a newer one."""

    watches: bool
    """True if changed files are loaded again, as `statewright dev` does."""
    loaded_at: datetime | None
    """When the version that is served was loaded; null if files are not watched."""
    failed_at: datetime | None
    """When a newer version could not be loaded; null if the newest version is served."""
    problems: tuple[LoadProblem, ...]
    """The problems of that newer version."""
    texts: Mapping[str, str]
    """The texts of the files with problems by name, as they were at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInList(Resource):
    """A thread on which runs have begun."""

    thread_id: str
    changed_at: datetime
    """When a run has begun or ceased to use it."""
    run_id: str
    """Its newest run."""
    graph: str
    status: str
    """The status of that run."""
    run_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Resource):
    """A checkpoint of a thread, without its values."""

    checkpoint_id: str
    parent_checkpoint_id: str | None
    branch: str
    step: int
    """The number of the superstep that it follows."""
    source: Literal["input", "loop", "update", "fork"]
    """`loop` for a superstep, `update` for a change of the state."""
    run_id: str
    """The run that has saved it; for a change and a fork, an id of its own."""
    nodes: tuple[str, ...]
    """The nodes that have run in its superstep."""
    next: tuple[str, ...]
    """The nodes that are due after it."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread(Resource):
    """A thread at one checkpoint."""

    thread_id: str
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    branch: str
    values: Any
    size_bytes: int
    """The size of `values` as JSON. A database may store less, because it stores what has changed."""
    next: tuple[str, ...]
    """The nodes that are due or waiting."""
    metadata: Mapping[str, Any]
    created_at: datetime | None
    tasks: tuple[Mapping[str, Any], ...]
    """The due tasks, or those of the last superstep: `id`, `name`, `error`, `result`, `interrupts`."""
