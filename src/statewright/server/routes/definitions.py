"""Routes of stored definitions and served graphs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.server.http.body import JsonMap
from statewright.server.http.encode import success_response
from statewright.server.http.openapi import DEFINITION_BODY
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import (
    DEFINITION,
    DEFINITION_WITH_BODY,
    DIAGRAM,
    GRAPH,
    GRAPH_DESCRIPTION,
    LOAD_PROBLEM,
    RELOAD,
    SOURCE,
)

definitions_router = APIRouter(
    prefix="/api/v1/workflow-definitions", route_class=StrictRoute, tags=["workflow-definitions"]
)
graphs_router = APIRouter(prefix="/api/v1/graphs", route_class=StrictRoute, tags=["graphs"])
reload_router = APIRouter(prefix="/api/v1/reload", route_class=StrictRoute, tags=["graphs"])
_EXISTS = "The same version is already stored."


@definitions_router.post(
    "",
    **describe(
        "Store a version of a workflow.",
        DEFINITION_WITH_BODY,
        scope="definitions:write",
        status=201,
        other_statuses={200: _EXISTS},
        errors=(409,),
        body=DEFINITION_BODY,
    ),
)
async def add_definition(caller: CurrentCaller, body: JsonMap) -> Response:
    """A version never changes: store a changed workflow as a new version. An error lists all problems at once."""
    added = await caller.service.add_definition(caller.workspace_id, body)
    return DEFINITION_WITH_BODY.to_response(added.definition, 201 if added.created else 200)


@definitions_router.get(
    "", **describe("List definitions, newest first.", DEFINITION, scope="definitions:read", is_paged=True)
)
async def list_definitions(
    caller: CurrentCaller,
    paging: PageQuery,
    name: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Only the versions of the workflow with this name, including those that the project serves.",
        ),
    ] = None,
) -> Response:
    """Without `name`, only the definitions of the workspace are listed. A graph in Python can be run only in the
    version that is served: its code is not stored."""
    page = await caller.service.definitions(caller.workspace_id, name=name, page=paging.page, page_size=paging.size)
    return paging.to_response(DEFINITION, page.items, page.total)


@definitions_router.get(
    "/{id}", **describe("Get a definition.", DEFINITION_WITH_BODY, scope="definitions:read", errors=(404,))
)
async def read_definition(caller: CurrentCaller, definition_id: PathId) -> Response:
    return DEFINITION_WITH_BODY.to_response(await caller.service.definition(caller.workspace_id, definition_id))


@definitions_router.get(
    "/{id}/source",
    **describe("Get the source of a definition.", SOURCE, scope="definitions:read", errors=(404,)),
)
async def read_source(caller: CurrentCaller, definition_id: PathId) -> Response:
    """The text of a workflow in YAML or JSON, or the file of a graph in Python if the server has it, with the lines of
    the nodes. 404 if the source is not known."""
    return SOURCE.to_response(await caller.service.source(caller.workspace_id, definition_id))


@definitions_router.get(
    "/{id}/diagram",
    **describe("Get the nodes and edges of a definition.", DIAGRAM, scope="definitions:read", errors=(404,)),
)
async def read_diagram(caller: CurrentCaller, definition_id: PathId) -> Response:
    """The drawing of the version with which runs have begun, with the nodes of subgraphs in place of them."""
    return DIAGRAM.to_response(await caller.service.drawing(caller.workspace_id, definition_id))


@graphs_router.get("", **describe("List the graphs that can be run.", GRAPH, is_list=True, scope="definitions:read"))
async def list_graphs(caller: CurrentCaller) -> Response:
    return GRAPH.to_list_response(await caller.service.graphs(caller.workspace_id))


@graphs_router.get(
    "/{id:path}",
    **describe(
        "Get the drawing and the schemas of a graph.", GRAPH_DESCRIPTION, scope="definitions:read", errors=(404,)
    ),
)
async def read_graph(caller: CurrentCaller, name: PathId) -> Response:
    return GRAPH_DESCRIPTION.to_response(await caller.service.graph(caller.workspace_id, name))


@reload_router.get("", **describe("Get the state of files that are being edited.", RELOAD, scope="definitions:read"))
async def read_reload(caller: CurrentCaller) -> Response:
    """A development server keeps the last version that could be loaded while a changed file has problems. They are
    described here until a newer version is served."""
    status = caller.context.reload_status
    failure, failed_at = status.failed if status is not None and status.failed is not None else (None, None)
    return success_response(
        {
            "watches": status is not None,
            "loadedAt": status.loaded_at if status is not None else None,
            "failedAt": failed_at,
            "problems": LOAD_PROBLEM.encode_all(failure.problems) if failure is not None else [],
            "texts": failure.texts if failure is not None else {},
        }
    )
