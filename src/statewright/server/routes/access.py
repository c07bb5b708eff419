"""Workspaces and their API keys."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from statewright.runs import ApiKey
from statewright.server.context.auth import ADMIN
from statewright.server.http.encode import answer
from statewright.server.http.parameters import Paged
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.access import (
    KeyBody,
    KeyShown,
    NewKey,
    NewWorkspace,
    WorkspaceBody,
    WorkspaceChanges,
    WorkspaceShown,
)
from statewright.server.models.base import shown
from statewright.server.models.costs import SpendingShown
from statewright.service import access as keys
from statewright.service.access import workspaces
from statewright.service.access.workspaces import NewWorkspace as WantedWorkspace

router = APIRouter(prefix="/api/v1", route_class=StrictRoute)


@router.post(
    "/workspaces",
    tags=["workspaces"],
    **described("Make a workspace.", NewWorkspace, scope=ADMIN, status=201, errors=(409,)),
)
async def create_workspace(caller: Signed, body: WorkspaceBody) -> Response:
    """The answer has the first key to it, which is not shown again."""
    created = await workspaces.create_workspace(caller.ledger, WantedWorkspace(**body.model_dump()), caller.now)
    record, key = await keys.create_key(caller.ledger, created.id, "first", [keys.ADMIN], now=caller.now)
    return answer({**shown(WorkspaceShown, created), "apiKey": _with_key(record, key)}, status=201)


def _with_key(record: ApiKey, key: str) -> dict[str, Any]:
    return {**shown(KeyShown, record), "key": key}


@router.get("/workspaces", tags=["workspaces"], **described("Workspaces.", WorkspaceShown, scope=ADMIN, page=True))
async def list_workspaces(caller: Signed, page: Paged) -> Response:
    items = await workspaces.list_workspaces(caller.ledger, limit=page.size, offset=page.offset)
    return page.answer(WorkspaceShown, items, await workspaces.count_workspaces(caller.ledger))


@router.get(
    "/workspaces/current",
    tags=["workspaces"],
    **described("The workspace of the key.", WorkspaceShown, scope="runs:read", errors=(404,)),
)
async def read_workspace(caller: Signed) -> Response:
    return answer(shown(WorkspaceShown, await workspaces.get_workspace(caller.ledger, caller.workspace_id)))


@router.get(
    "/workspaces/current/spending",
    tags=["workspaces"],
    **described("What the workspace of the key has spent today, and may.", SpendingShown, scope="runs:read"),
)
async def read_spending(caller: Signed) -> Response:
    return answer(shown(SpendingShown, await caller.service.spending(caller.workspace_id)))


@router.patch(
    "/workspaces/{id}",
    tags=["workspaces"],
    **described("Change the limits of a workspace.", WorkspaceShown, scope=ADMIN, errors=(404,)),
)
async def change_workspace(caller: Signed, workspace_id: PathId, body: WorkspaceChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    changed = await workspaces.change_workspace(caller.ledger, workspace_id, changes)
    caller.context.limits.forget(workspace_id)
    return answer(shown(WorkspaceShown, changed))


@router.post("/api-keys", tags=["api-keys"], **described("Make a key.", NewKey, scope="keys:manage", status=201))
async def create_key(caller: Signed, body: KeyBody) -> Response:
    """The answer has the key, which is not shown again. It can do nothing that the key which made it cannot."""
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
    return answer(_with_key(record, key), status=201)


@router.get(
    "/api-keys",
    tags=["api-keys"],
    **described("Keys, the newest first, without what they are.", KeyShown, scope="keys:manage", page=True),
)
async def list_keys(caller: Signed, page: Paged) -> Response:
    items = await keys.list_keys(caller.ledger, caller.workspace_id, limit=page.size, offset=page.offset)
    total = await keys.count_keys(caller.ledger, caller.workspace_id)
    return page.answer(KeyShown, items, total)


@router.delete(
    "/api-keys/{id}",
    tags=["api-keys"],
    **described("Revoke a key.", KeyShown, scope="keys:manage", errors=(404, 409)),
)
async def revoke_key(caller: Signed, key_id: PathId) -> Response:
    """Streams that are read with it end. The last key with the scope `admin` cannot be revoked."""
    revoked = await caller.context.keys.revoke(caller.workspace_id, key_id, caller.now)
    caller.context.streams.end_of_key(key_id)
    return answer(shown(KeyShown, revoked))
