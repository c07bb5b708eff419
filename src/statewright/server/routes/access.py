"""Workspaces: their limits, API keys, spending and costs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from statewright.errors import InvalidRequest
from statewright.runs import ApiKey
from statewright.server.context.auth import ADMIN
from statewright.server.http.body import Body, Instant, Name
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import COST_SUMMARY, KEY, NEW_KEY, NEW_WORKSPACE, SPENDING, WORKSPACE
from statewright.service import access as keys
from statewright.service.access import workspaces
from statewright.service.access.workspaces import NewWorkspace as WorkspaceRequest

workspaces_router = APIRouter(prefix="/api/v1/workspaces", route_class=StrictRoute, tags=["workspaces"])
keys_router = APIRouter(prefix="/api/v1/api-keys", route_class=StrictRoute, tags=["api-keys"])
costs_router = APIRouter(prefix="/api/v1/cost", route_class=StrictRoute, tags=["cost"])
Slug = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+$")]
Many = Annotated[int, Field(ge=1, le=1_000_000)]
Begin = Annotated[Instant | None, Query(alias="from", description="From this instant.")]
End = Annotated[Instant | None, Query(alias="to", description="Before this instant.")]


class WorkspaceChanges(Body):
    """Changes of a workspace; null removes a limit."""

    name: Annotated[str, Field(max_length=200)] = ""
    max_running: Many | None = None
    starts_per_minute: Many | None = None
    retention_days: Many | None = None


class WorkspaceBody(WorkspaceChanges):
    """A workspace to create."""

    slug: Slug


class KeyBody(Body):
    """A key to create."""

    name: Name
    scopes: list[str] = Field(default_factory=lambda: ["admin"], min_length=1, max_length=20)
    requests_per_minute: Many | None = None
    expires_at: Instant | None = None


@workspaces_router.post("", **describe("Create a workspace.", NEW_WORKSPACE, scope=ADMIN, status=201, errors=(409,)))
async def create_workspace(caller: CurrentCaller, body: WorkspaceBody) -> Response:
    """The response contains the first key of the workspace, which is not shown again."""
    workspace = await workspaces.create_workspace(caller.ledger, WorkspaceRequest(**body.model_dump()), caller.now)
    record, key = await keys.create_key(caller.ledger, workspace.id, "first", [keys.ADMIN], now=caller.now)
    return success_response({**WORKSPACE.encode(workspace), "apiKey": _with_key(record, key)}, status=201)


def _with_key(record: ApiKey, key: str) -> dict[str, Any]:
    return {**KEY.encode(record), "key": key}


@workspaces_router.get("", **describe("List the workspaces.", WORKSPACE, scope=ADMIN, page=True))
async def list_workspaces(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await workspaces.list_workspaces(caller.ledger, limit=paging.size, offset=paging.offset)
    return paging.answer(WORKSPACE, items, await workspaces.count_workspaces(caller.ledger))


@workspaces_router.get(
    "/current", **describe("Get the workspace of the key.", WORKSPACE, scope="runs:read", errors=(404,))
)
async def read_workspace(caller: CurrentCaller) -> Response:
    return WORKSPACE.answer(await workspaces.get_workspace(caller.ledger, caller.workspace_id))


@workspaces_router.get(
    "/current/spending",
    **describe("Get the spending of the workspace today, and its limits.", SPENDING, scope="runs:read"),
)
async def read_spending(caller: CurrentCaller) -> Response:
    return SPENDING.answer(await caller.service.spending(caller.workspace_id))


@workspaces_router.patch(
    "/{id}", **describe("Change the limits of a workspace.", WORKSPACE, scope=ADMIN, errors=(404,))
)
async def change_workspace(caller: CurrentCaller, workspace_id: PathId, body: WorkspaceChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    changed = await workspaces.change_workspace(caller.ledger, workspace_id, changes)
    caller.context.limits.forget(workspace_id)
    return WORKSPACE.answer(changed)


@keys_router.post("", **describe("Create a key.", NEW_KEY, scope="keys:manage", status=201))
async def create_key(caller: CurrentCaller, body: KeyBody) -> Response:
    """The response contains the key, which is not shown again. It can only have scopes of the key that creates it."""
    for scope in body.scopes:
        if caller.key is not None and scope in keys.SCOPES:
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
    return success_response(_with_key(record, key), status=201)


@keys_router.get(
    "", **describe("List the keys, the newest first, without their secrets.", KEY, scope="keys:manage", page=True)
)
async def list_keys(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await keys.list_keys(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await keys.count_keys(caller.ledger, caller.workspace_id)
    return paging.answer(KEY, items, total)


@keys_router.delete("/{id}", **describe("Revoke a key.", KEY, scope="keys:manage", errors=(404, 409)))
async def revoke_key(caller: CurrentCaller, key_id: PathId) -> Response:
    """Ends the streams that use it. The last key with the scope `admin` cannot be revoked."""
    revoked = await caller.context.keys.revoke(caller.workspace_id, key_id, caller.now)
    caller.context.streams.end_for_key(key_id)
    return KEY.answer(revoked)


@costs_router.get("/summary", **describe("Sum up the cost of model calls.", COST_SUMMARY, scope="runs:read"))
async def read_summary(caller: CurrentCaller, begin: Begin = None, end: End = None) -> Response:
    if begin is not None and end is not None and begin >= end:
        raise InvalidRequest("'from' is not before 'to'. Give an earlier 'from'.")
    return COST_SUMMARY.answer(await caller.service.cost_summary(caller.workspace_id, begin, end))
