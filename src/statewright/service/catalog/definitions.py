"""Stored versions of workflows, and descriptions of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from statewright.async_futures import adrive, aresolve
from statewright.errors import DuplicateRecord, RequestConflict
from statewright.runs import Insert, Json, StoredDefinition, where
from statewright.service.catalog import catalog
from statewright.service.context.records import Page
from statewright.service.context.service_context import Operations
from statewright.workflow.steps import read_definition


@dataclass(frozen=True, slots=True)
class Added:
    """The result of storing a version."""

    definition: StoredDefinition
    created: bool
    """False if the same content was stored before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """A graph that can be run, by its name."""

    name: str
    kind: str
    version: str
    definition_id: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDescription:
    """The drawing and the schemas of a graph."""

    served: ServedGraph
    mermaid: str
    nodes: list[dict[str, Json]]
    edges: list[dict[str, Json]]
    input_schema: Json
    output_schema: Json
    state_schema: Json


class DefinitionOperations(Operations):
    """Stores definitions, and describes graphs."""

    async def add_definition(self, workspace_id: str, body: Mapping[str, Any]) -> Added:
        """Store a version of a workflow in JSON; the same content again changes nothing.

        Raises WorkflowError with all problems, including unknown handlers, and RequestConflict if the version of the
        name is stored with a different content.
        """
        definition = read_definition(body)
        self.context.catalog.compile_steps(definition)  # raises for unknown handlers, tools and models
        stored = StoredDefinition(
            id=catalog.definition_id(workspace_id, definition.name, definition.version),
            workspace_id=workspace_id,
            name=definition.name,
            version=definition.version,
            kind="steps",
            description=definition.description,
            digest=definition.digest,
            body=definition.to_json(),
            created_at=self.context.now(),
        )
        try:
            await self.context.write([Insert(stored)])
        except DuplicateRecord:
            return Added(await self._find_same(stored), created=False)
        return Added(stored, created=True)

    async def _find_same(self, stored: StoredDefinition) -> StoredDefinition:
        existing = await adrive(self.context.versions.stored(stored.workspace_id, stored.id))
        if existing.digest != stored.digest:
            raise RequestConflict(
                f"Version {stored.version!r} of {stored.name!r} is stored with a different content, and a version "
                f"never changes. Give the new one another version.",
                details={"definitionId": existing.id},
            )
        return existing

    async def definitions(self, workspace_id: str, *, page: int = 1, page_size: int = 20) -> Page[StoredDefinition]:
        """Return a page of the versions that a workspace has stored, the newest first."""
        conditions = where(workspace_id=workspace_id)
        return await self.context.records.page(StoredDefinition, conditions, page=page, page_size=page_size)

    async def definition(self, workspace_id: str, definition_id: str) -> StoredDefinition:
        """Return a version, of the workspace or of the project. Raises NotFound."""
        return await adrive(self.context.versions.stored(workspace_id, definition_id))

    async def graphs(self, workspace_id: str) -> list[ServedGraph]:
        """Return the graphs that can be run by name: those of the project, and the newest versions of the workspace."""
        definitions = await aresolve(self.context.ledger.find(StoredDefinition, where(workspace_id=workspace_id)))
        newest = {definition.name: definition for definition in sorted(definitions, key=attrgetter("created_at"))}
        served = self.context.catalog.stored(self.context.now())
        graphs = {definition.name: _describe(definition) for definition in [*newest.values(), *served]}
        return [graphs[name] for name in sorted(graphs)]

    async def graph(self, workspace_id: str, name: str) -> GraphDescription:
        """Return the drawing and the schemas of a graph. Raises NotFound."""
        definition = await adrive(self.context.versions.newest(workspace_id, name))
        app = self.context.catalog.app_of(definition)
        drawing = app.get_graph()
        diagram = drawing.to_json()
        return GraphDescription(
            served=_describe(definition),
            mermaid=drawing.draw_mermaid(),
            nodes=diagram["nodes"],
            edges=diagram["edges"],
            input_schema=app.get_input_jsonschema(),
            output_schema=app.get_output_jsonschema(),
            state_schema=app.get_state_jsonschema(),
        )


def _describe(definition: StoredDefinition) -> ServedGraph:
    return ServedGraph(
        name=definition.name,
        kind=definition.kind,
        version=definition.version,
        definition_id=definition.id,
        description=definition.description,
    )
