"""Stored versions of workflows, and descriptions of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from statewright.async_futures import adrive, aresolve
from statewright.errors import DuplicateRecord, NotFound, RequestConflict
from statewright.graph.draw import Drawing
from statewright.runs import Condition, Insert, Json, StoredDefinition, where
from statewright.service.catalog import catalog
from statewright.service.catalog.sources import Source, source_of
from statewright.service.context.records import Page
from statewright.service.context.service_context import Operations
from statewright.workflow.steps import read_definition

MAX_NESTING: Final = 5
"""The depth to which subgraphs are drawn."""


@dataclass(frozen=True, slots=True)
class Added:
    """The result of storing a version of a workflow."""

    definition: StoredDefinition
    created: bool
    """False if this version was already stored, with the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """A graph that can be run by its name."""

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
        """Store a version of a workflow in JSON. Storing the same content again has no effect.

        Raises WorkflowError with all its problems, including unknown handlers, and RequestConflict if this version is
        already stored with different content.
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
            existing = await adrive(self.context.versions.find_by_id(workspace_id, stored.id))
            if existing.digest != stored.digest:
                raise RequestConflict(
                    f"Version {stored.version!r} of {stored.name!r} is already stored with different content, and "
                    f"cannot be changed. Use another version.",
                    details={"definitionId": existing.id},
                ) from None
            return Added(existing, created=False)
        return Added(stored, created=True)

    async def definitions(
        self, workspace_id: str, *, name: str | None = None, page: int = 1, page_size: int = 20
    ) -> Page[StoredDefinition]:
        """Return a page of the stored versions of a workspace, the newest first.

        With `name`, return the versions of the workflow with this name, including those of the project.
        """
        conditions = where(workspace_id=workspace_id)
        if name is not None:
            conditions = [*where(name=name), Condition("workspace_id", "in", [workspace_id, catalog.PROJECT])]
        return await self.context.records.page(StoredDefinition, conditions, page=page, page_size=page_size)

    async def definition(self, workspace_id: str, definition_id: str) -> StoredDefinition:
        """Return a stored version of the workspace or of the project. Raises NotFound."""
        return await adrive(self.context.versions.find_by_id(workspace_id, definition_id))

    async def source(self, workspace_id: str, definition_id: str) -> Source:
        """Return the source of a version, and the lines of its nodes. Raises NotFound, also if it is not known."""
        definition = await self.definition(workspace_id, definition_id)
        source = source_of(definition, self.context.catalog.load(definition))
        if source is None:
            raise NotFound(f"The source of {definition.name!r}, version {definition.version}, is not known here.")
        return source

    async def drawing(self, workspace_id: str, definition_id: str) -> Drawing:
        """Return the nodes and edges of a version, with those of its subgraphs in place. Raises NotFound."""
        definition = await self.definition(workspace_id, definition_id)
        return self.context.catalog.load(definition).get_graph(xray=MAX_NESTING)

    async def graphs(self, workspace_id: str) -> list[ServedGraph]:
        """Return the graphs that can be run by name, sorted by name.

        These are the newest stored versions of the workspace and the graphs of the project. If both have the same name,
        the graph of the project is returned.
        """
        definitions = await aresolve(self.context.ledger.find(StoredDefinition, where(workspace_id=workspace_id)))
        served = self.context.catalog.to_records(self.context.now())
        by_name = {
            definition.name: _describe(definition)
            for definition in [*sorted(definitions, key=attrgetter("created_at")), *served]
        }
        return [by_name[name] for name in sorted(by_name)]

    async def graph(self, workspace_id: str, name: str) -> GraphDescription:
        """Return the drawing and the schemas of a graph. Raises NotFound."""
        definition = await adrive(self.context.versions.find_newest(workspace_id, name))
        app = self.context.catalog.load(definition)
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
