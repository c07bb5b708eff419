"""Stored definitions and served graphs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from statewright.server.http.encode import answer
from statewright.server.http.openapi import DEFINITION_BODY
from statewright.server.http.parameters import Paged
from statewright.server.http.route import PathId, Signed, StrictRoute, described
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
async def list_definitions(caller: Signed, page: Paged) -> Response:
    result = await caller.service.definitions(caller.workspace_id, page=page.number, page_size=page.size)
    return page.answer(DefinitionShown, result.items, result.total)


@router.get(
    "/workflow-definitions/{id}",
    tags=["workflow-definitions"],
    **described("A definition.", DefinitionWithBody, scope="definitions:read", errors=(404,)),
)
async def read_definition(caller: Signed, definition_id: PathId) -> Response:
    return answer(shown(DefinitionWithBody, await caller.service.definition(caller.workspace_id, definition_id)))


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
async def read_graph(caller: Signed, name: PathId) -> Response:
    graph = await caller.service.graph(caller.workspace_id, name)
    parts: dict[str, Any] = {
        "drawing": graph.mermaid,
        "nodes": graph.nodes,
        "edges": graph.edges,
        "inputSchema": graph.input_schema,
        "outputSchema": graph.output_schema,
        "stateSchema": graph.state_schema,
    }
    return answer({**shown(GraphShown, graph.served), **parts})
