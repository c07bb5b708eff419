"""Open waits of runs (questions, timers, events), approvals, and sending events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.server.http.encode import answer
from statewright.server.http.parameters import IdempotencyKey, Paged, read_key
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.base import shown
from statewright.server.models.interrupts import (
    ApprovalShown,
    DecideBody,
    ReceivedEventShown,
    SendEventBody,
    WaitShown,
)

router = APIRouter(prefix="/api/v1", route_class=StrictRoute)
OfRun = Annotated[str | None, Query(alias="runId", max_length=200, description="Only those of one run.")]
Pending = Annotated[bool | None, Query(description="True: nobody has decided yet. False: the others.")]


@router.get(
    "/interrupts",
    tags=["interrupts"],
    **described("What runs wait for.", WaitShown, scope="runs:read", page=True),
)
async def list_waits(caller: Signed, page: Paged, run_id: OfRun = None) -> Response:
    """Questions are answered by `POST /workflow-runs/{id}/resume` with `answers` by these ids; timers take none."""
    result = await caller.service.waits(caller.workspace_id, run_id=run_id, page=page.number, page_size=page.size)
    return page.answer(WaitShown, result.items, result.total)


@router.get(
    "/approval-requests",
    tags=["approval-requests"],
    **described("Approvals, the newest first.", ApprovalShown, scope="runs:read", page=True),
)
async def list_approvals(
    caller: Signed,
    page: Paged,
    pending: Pending = None,
    run_id: OfRun = None,
) -> Response:
    result = await caller.service.approvals(
        caller.workspace_id, pending=pending, run_id=run_id, page=page.number, page_size=page.size
    )
    return page.answer(ApprovalShown, result.items, result.total)


@router.get(
    "/approval-requests/{id}",
    tags=["approval-requests"],
    **described("An approval.", ApprovalShown, scope="runs:read", errors=(404,)),
)
async def read_approval(caller: Signed, approval_id: PathId) -> Response:
    return answer(shown(ApprovalShown, await caller.service.approval(caller.workspace_id, approval_id)))


@router.post(
    "/approval-requests/{id}/decide",
    tags=["approval-requests"],
    **described("Decide, once and for all.", ApprovalShown, scope="approvals:decide", errors=(404, 409)),
)
async def decide(caller: Signed, approval_id: PathId, body: DecideBody) -> Response:
    """The run goes on. A second decision is refused."""
    decided = await caller.service.decide(
        caller.workspace_id,
        approval_id,
        body.decision,
        edited_content=body.edited_content,
        decided_by=body.decided_by,
        key=caller.key,
    )
    return answer(shown(ApprovalShown, decided))


@router.post(
    "/events",
    tags=["events"],
    **described("Send an event.", ReceivedEventShown, scope="events:send", errors=(409,)),
)
async def send_event(caller: Signed, body: SendEventBody, idempotency_key: IdempotencyKey = None) -> Response:
    """It wakes the runs that wait for it, and starts those whose triggers it fits."""
    key = read_key(idempotency_key, body.key, "key")
    sent = await caller.service.send_event(caller.workspace_id, body.name, body.payload, key=key)
    return answer(shown(ReceivedEventShown, sent))
