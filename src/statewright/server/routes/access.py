"""Routes of workspaces, API keys, spending and costs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from statewright.errors import InvalidRequest
from statewright.runs import ApiKey
from statewright.server.context.auth import OPERATOR
from statewright.server.http.body import Body, Instant, Name
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import COST_SUMMARY, DAILY_COST, KEY, NEW_KEY, NEW_WORKSPACE, SPENDING, WORKSPACE
from statewright.service import access as keys
from statewright.service.access import workspaces
from statewright.service.access.workspaces import NewWorkspace as WorkspaceRequest

workspaces_router = APIRouter(prefix="/api/v1/workspaces", route_class=StrictRoute, tags=["workspaces"])
keys_router = APIRouter(prefix="/api/v1/api-keys", route_class=StrictRoute, tags=["api-keys"])
costs_router = APIRouter(prefix="/api/v1/cost", route_class=StrictRoute, tags=["cost"])
Slug = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+$")]
Limit = Annotated[int, Field(ge=1, le=1_000_000)]
Begin = Annotated[Instant | None, Query(alias="from", description="Only calls at or after this instant.")]
End = Annotated[Instant | None, Query(alias="to", description="Only calls before this instant.")]


class WorkspaceChanges(Body):
    """Changes to a workspace; null removes a limit."""

    name: Annotated[str, Field(max_length=200)] = ""
    max_running: Limit | None = None
    starts_per_minute: Limit | None = None
    retention_days: Limit | None = None


class WorkspaceBody(WorkspaceChanges):
    """A workspace to create."""

    slug: Slug


class KeyBody(Body):
    """A key to create."""

    name: Name
    scopes: list[str] = Field(default_factory=lambda: ["admin"], min_length=1, max_length=20)
    requests_per_minute: Limit | None = None
    expires_at: Instant | None = None


@workspaces_router.post("", **describe("Create a workspace.", NEW_WORKSPACE, scope=OPERATOR, status=201, errors=(409,)))
async def create_workspace(caller: CurrentCaller, body: WorkspaceBody) -> Response:
    """The response contains the first API key of the workspace, which cannot be retrieved later."""
    workspace = await workspaces.create_workspace(caller.ledger, WorkspaceRequest(**body.model_dump()), caller.now)
    record, key = await keys.create_key(caller.ledger, workspace.id, "first", [keys.ADMIN], now=caller.now)
    return success_response({**WORKSPACE.encode(workspace), "apiKey": _encode_new_key(record, key)}, status=201)


def _encode_new_key(record: ApiKey, key: str) -> dict[str, Any]:
    return {**KEY.encode(record), "key": key}


@workspaces_router.get("", **describe("List the workspaces.", WORKSPACE, scope=OPERATOR, is_paged=True))
async def list_workspaces(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await workspaces.list_workspaces(caller.ledger, limit=paging.size, offset=paging.offset)
    return paging.to_response(WORKSPACE, items, await workspaces.count_workspaces(caller.ledger))


@workspaces_router.get(
    "/current", **describe("Get the workspace of the key.", WORKSPACE, scope="runs:read", errors=(404,))
)
async def read_workspace(caller: CurrentCaller) -> Response:
    return WORKSPACE.to_response(await workspaces.get_workspace(caller.ledger, caller.workspace_id))


@workspaces_router.get(
    "/current/spending",
    **describe("Get today's spending of the workspace, and its limits.", SPENDING, scope="runs:read"),
)
async def read_spending(caller: CurrentCaller) -> Response:
    return SPENDING.to_response(await caller.service.spending(caller.workspace_id))


@workspaces_router.patch(
    "/{id}", **describe("Change the limits of a workspace.", WORKSPACE, scope=OPERATOR, errors=(404,))
)
async def change_workspace(caller: CurrentCaller, workspace_id: PathId, body: WorkspaceChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    changed = await workspaces.change_workspace(caller.ledger, workspace_id, changes)
    caller.context.start_limits.forget(workspace_id)
    return WORKSPACE.to_response(changed)


@keys_router.post("", **describe("Create a key.", NEW_KEY, scope="keys:manage", status=201))
async def create_key(caller: CurrentCaller, body: KeyBody) -> Response:
    """The response contains the key, which cannot be retrieved later. Its scopes must be among those of the key that
    creates it."""
    for scope in body.scopes:
        if caller.key is not None and scope in keys.SCOPES:  # unknown scopes are reported by the service
            keys.check_scope(caller.key, scope)
    record, key = await keys.create_key(
        caller.ledger,
        caller.workspace_id,
        body.name,
        body.scopes,
        now=caller.now,
        requests_per_minute=body.requests_per_minute,
        expires_at=body.expires_at,
    )
    return success_response(_encode_new_key(record, key), status=201)


@keys_router.get(
    "", **describe("List the keys, newest first, without their secrets.", KEY, scope="keys:manage", is_paged=True)
)
async def list_keys(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await keys.list_keys(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await keys.count_keys(caller.ledger, caller.workspace_id)
    return paging.to_response(KEY, items, total)


@keys_router.delete("/{id}", **describe("Revoke a key.", KEY, scope="keys:manage", errors=(404, 409)))
async def revoke_key(caller: CurrentCaller, key_id: PathId) -> Response:
    """Streams opened with the key end. The last key with the scope `admin` cannot be revoked."""
    revoked = await caller.context.key_ring.revoke(caller.workspace_id, key_id, caller.now)
    caller.context.streams.stop_all(key_id)
    return KEY.to_response(revoked)


@costs_router.get("/summary", **describe("Summarize the cost of model calls.", COST_SUMMARY, scope="runs:read"))
async def read_summary(caller: CurrentCaller, begin: Begin = None, end: End = None) -> Response:
    if begin is not None and end is not None and begin >= end:
        raise InvalidRequest("'from' must be before 'to'.")
    return COST_SUMMARY.to_response(await caller.service.cost_summary(caller.workspace_id, begin, end))


@costs_router.get("/by-day", **describe("List the cost of each day.", DAILY_COST, is_list=True, scope="runs:read"))
async def read_cost_by_day(
    caller: CurrentCaller,
    begin: Annotated[Instant, Query(alias="from", description="The beginning of the first day.")],
    end: Annotated[Instant, Query(alias="to", description="The end of the last day, exclusive.")],
    by: Annotated[
        Literal["model", "graph"], Query(description="By model, or by graph of the runs that have called models.")
    ] = "model",
) -> Response:
    """Days are those of UTC. By model, calls are counted when they were made; by graph, runs when they were created,
    with all their calls. Days without costs are left out. At most 400 days."""
    return DAILY_COST.to_list_response(await caller.service.cost_by_day(caller.workspace_id, begin, end, by))
