"""Stored definitions and served graphs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from statewright.server.http.encode import answer
from statewright.server.http.openapi import DEFINITION_BODY
from statewright.server.http.parameters import PageNumber, PageSize, page_of
from statewright.server.http.route import Identity, Signed, StrictRoute, described
from statewright.server.models.base import JsonMap, all_shown, shown
from statewright.server.models.definitions import (
    DefinitionShown,
    DefinitionWithBody,
    GraphDescriptionShown,
    GraphShown,
)

router = APIRouter(prefix="/api/v1", route_class=StrictRoute)
_SAME = "The very same is there already."


@router.post(
    "/workflow-definitions",
    tags=["workflow-definitions"],
    **described(
        "Store a version of a workflow.",
        DefinitionWithBody,
        scope="definitions:write",
        status=201,
        also={200: _SAME},
        errors=(409,),
        body=DEFINITION_BODY,
    ),
)
async def add_definition(caller: Signed, body: JsonMap) -> Response:
    """A version never changes; a change is another version. Everything that is wrong with it is told at once."""
    added = await caller.service.add_definition(caller.workspace_id, body)
    return answer(shown(DefinitionWithBody, added.definition), status=201 if added.created else 200)


@router.get(
    "/workflow-definitions",
    tags=["workflow-definitions"],
    **described("Definitions, the newest first.", DefinitionShown, scope="definitions:read", page=True),
)
async def list_definitions(caller: Signed, page: PageNumber = 1, page_size: PageSize = 20) -> Response:
    found = await caller.service.definitions(caller.workspace_id, page=page, page_size=page_size)
    return page_of(DefinitionShown, found.items, page, page_size, found.total)


@router.get(
    "/workflow-definitions/{id}",
    tags=["workflow-definitions"],
    **described("A definition.", DefinitionWithBody, scope="definitions:read", errors=(404,)),
)
async def read_definition(caller: Signed, identity: Identity) -> Response:
    return answer(shown(DefinitionWithBody, await caller.service.definition(caller.workspace_id, identity)))


@router.get("/graphs", tags=["graphs"], **described("What is served.", list[GraphShown], scope="definitions:read"))
async def list_graphs(caller: Signed) -> Response:
    return answer(all_shown(GraphShown, await caller.service.graphs(caller.workspace_id)))


@router.get(
    "/graphs/{id:path}",
    tags=["graphs"],
    **described(
        "A graph: its drawing and its schemas.", GraphDescriptionShown, scope="definitions:read", errors=(404,)
    ),
)
async def read_graph(caller: Signed, identity: Identity) -> Response:
    found = await caller.service.graph(caller.workspace_id, identity)
    parts: dict[str, Any] = {
        "drawing": found.mermaid,
        "nodes": found.nodes,
        "edges": found.edges,
        "inputSchema": found.input_schema,
        "outputSchema": found.output_schema,
        "stateSchema": found.state_schema,
    }
    return answer({**shown(GraphShown, found.served), **parts})
