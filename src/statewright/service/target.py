"""What a schedule or a trigger runs: a graph by the name under which it is served, or one version of it."""

from __future__ import annotations

from typing import NamedTuple

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest, NotFound
from statewright.runs import Ledger, StoredDefinition
from statewright.service.catalog import PROJECT
from statewright.service.form import text


class Target(NamedTuple):
    """What is to be run."""

    graph: str
    definition_id: str | None
    """The version; None for the newest at each time."""


async def find_target(ledger: Ledger, workspace_id: str, graph: str | None, definition_id: str | None) -> Target:
    """What is meant by one of the two. Raises InvalidRequest for both or neither, NotFound for unknown definitions.

    Whether a graph of that name is served is not looked at: it may come later, and go.
    """
    if (graph is None) == (definition_id is None):
        raise InvalidRequest("What is to be run is a graph or a definition: give graph or definitionId, and not both.")
    if definition_id is None:
        return Target(text(graph, "The graph"), None)
    definition = await aresolve(ledger.get(StoredDefinition, text(definition_id, "The definition's id")))
    if definition is None or definition.workspace_id not in (workspace_id, PROJECT):
        raise NotFound(f"There is no definition {definition_id!r} in this workspace. Add it, or name a graph.")
    return Target(definition.name, definition.id)
