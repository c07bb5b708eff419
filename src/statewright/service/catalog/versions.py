"""Lookups of stored versions of workflows by name or id.

A lookup is a generator that yields the results of ledger calls, which may be futures, and is sent their values. So the
same lookup serves callers on an event loop (`adrive`) and nodes on worker threads (`drive`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from statewright.async_futures import adrive, aresolve
from statewright.errors import InvalidRequest, NotFound, suggestion
from statewright.runs import Ledger, Run, StoredDefinition, where
from statewright.runtime import CompiledGraph
from statewright.service.catalog.catalog import PROJECT, Catalog
from statewright.service.context.records import NEWEST_FIRST
from statewright.service.context.requests import StartRun
from statewright.service.context.validation import validate_string

T = TypeVar("T")
Lookup = Generator[Any, Any, T]
"""Yields results that may be futures, is sent their values, and returns the record."""


class Versions:
    """Finds stored versions, and caches them indefinitely, because a version never changes."""

    def __init__(self, ledger: Ledger, catalog: Catalog) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._cache: dict[str, StoredDefinition] = {}

    def find_requested(self, workspace_id: str, request: StartRun) -> Lookup[StoredDefinition]:
        """Find the version that a request names. Raises NotFound.

        Raises InvalidRequest if the request names both a graph and a definition, or neither.
        """
        if (request.graph is None) == (request.definition_id is None):
            raise InvalidRequest("A run needs either a graph or a definition: give graph or definitionId, not both.")
        if request.definition_id is not None:
            return (yield from self.find_by_id(workspace_id, request.definition_id))
        return (yield from self.find_newest(workspace_id, str(request.graph)))

    def find_by_id(self, workspace_id: str, definition_id: str) -> Lookup[StoredDefinition]:
        """Find a version of the workspace or of the project by its id. Raises NotFound."""
        allowed = (workspace_id, PROJECT)
        definition = self._cache.get(definition_id)
        # A version of another workspace is read even if it is cached, so that the response time does not reveal it.
        if definition is None or definition.workspace_id not in allowed:
            definition = yield self._ledger.get(StoredDefinition, definition_id)
            if definition is not None:
                self._cache[definition_id] = definition
        if definition is None or definition.workspace_id not in allowed:
            raise NotFound(f"Definition {definition_id!r} does not exist.")
        return definition

    def find_newest(self, workspace_id: str, name: str) -> Lookup[StoredDefinition]:
        """Find the graph that the project serves under a name, or else the newest stored version of the workspace.

        Raises NotFound, with a suggestion.
        """
        served = self._catalog.get(name)
        if served is not None:
            return (yield from self.find_by_id(PROJECT, served.definition_id))
        conditions = where(workspace_id=workspace_id, name=name)
        newest = yield self._ledger.find(StoredDefinition, conditions, order=NEWEST_FIRST, limit=1)
        if newest:
            return newest[0]
        definitions = yield self._ledger.find(StoredDefinition, where(workspace_id=workspace_id))
        names = {item.name for item in (*definitions, *self._catalog.served)}
        raise NotFound(f"Graph {name!r} does not exist. " + suggestion(name, names, noun="Graphs"))

    async def load_graph(self, run: Run) -> CompiledGraph:
        """Return the graph of a run, in the version that it started with. Raises NotFound and WorkflowError."""
        return self._catalog.load(await adrive(self.find_by_id(run.workspace_id, run.definition_id or "")))


# -- targets of schedules and triggers


class Target(NamedTuple):
    """The graph or definition that a schedule or a trigger runs."""

    graph: str
    definition_id: str | None
    """The version; None to use the newest version each time."""


def with_one_target(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to a schedule or trigger that also unset its definition if they set its graph, and vice versa."""
    if ("graph" in changes) == ("definition_id" in changes):
        return dict(changes)
    replaced = "definition_id" if "graph" in changes else "graph"
    return {**changes, replaced: None}


async def find_target(ledger: Ledger, workspace_id: str, graph: str | None, definition_id: str | None) -> Target:
    """Return the target for the name of a graph, or for the id of a definition.

    Raises InvalidRequest if both or neither are given, and NotFound if the definition does not exist. The graph need
    not exist yet.
    """
    if (graph is None) == (definition_id is None):
        raise InvalidRequest("The target is either a graph or a definition: give graph or definitionId, not both.")
    if definition_id is None:
        return Target(validate_string(graph, "The graph"), None)
    definition = await aresolve(ledger.get(StoredDefinition, validate_string(definition_id, "The definition's id")))
    if definition is None or definition.workspace_id not in (workspace_id, PROJECT):
        raise NotFound(
            f"Definition {definition_id!r} does not exist in this workspace. Store it first, or name a graph."
        )
    return Target(definition.name, definition.id)
