"""Routes of open waits (for answers, timers and events), of approvals, and for sending events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field, model_validator

from statewright.server.http.body import Body, IdempotencyKey, JsonMap, Name
from statewright.server.http.parameters import IdempotencyKeyHeader, PageQuery, resolve_idempotency_key
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import APPROVAL, PAST_ANSWER, RECEIVED_EVENT, WAIT
from statewright.service.operations.answers import MAX_ANSWERS

waits_router = APIRouter(prefix="/api/v1/interrupts", route_class=StrictRoute, tags=["interrupts"])
answers_router = APIRouter(prefix="/api/v1/answers", route_class=StrictRoute, tags=["answers"])
approvals_router = APIRouter(prefix="/api/v1/approval-requests", route_class=StrictRoute, tags=["approval-requests"])
events_router = APIRouter(prefix="/api/v1/events", route_class=StrictRoute, tags=["events"])
RunIdQuery = Annotated[str | None, Query(alias="runId", max_length=200, description="Only items of this run.")]
Pending = Annotated[bool | None, Query(description="True: only undecided approvals. False: only decided ones.")]


class DecideBody(Body):
    """A decision on an approval."""

    decision: Literal["approved", "rejected", "edited"]
    edited_content: Any = None
    """Replaces the content; required if the decision is `edited`."""
    decided_by: Annotated[str, Field(max_length=200)] | None = None
    """The name of the person who decided, for information only; the key of the request is recorded too."""

    @model_validator(mode="after")
    def _check_content(self) -> DecideBody:
        has_content = "edited_content" in self.model_fields_set
        if (self.decision == "edited") != has_content:
            raise ValueError("editedContent is required for the decision 'edited', and not allowed for others")
        return self


class SendEventBody(Body):
    """An event, which wakes the runs that wait for it and starts runs by triggers."""

    name: Name
    payload: JsonMap = Field(default_factory=dict)
    key: IdempotencyKey | None = None
    """An idempotency key: a second event with the same key is ignored."""


@waits_router.get("", **describe("List the open waits of runs.", WAIT, scope="runs:read", is_paged=True))
async def list_waits(caller: CurrentCaller, paging: PageQuery, run_id: RunIdQuery = None) -> Response:
    """Answer questions by their ids with `POST /workflow-runs/{id}/resume`; timers take no answer."""
    waits = await caller.service.waits(caller.workspace_id, run_id=run_id, page=paging.page, page_size=paging.size)
    return paging.to_response(WAIT, waits.items, waits.total)


@answers_router.get("", **describe("List answers to questions.", PAST_ANSWER, is_list=True, scope="runs:read"))
async def list_answers(
    caller: CurrentCaller,
    before: Annotated[str | None, Query(max_length=200, description="The cursor of the last answer before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ANSWERS, description="The maximum number of answers.")] = 100,
) -> Response:
    """Newest first, of all runs of the workspace. Decided approvals are listed by `GET /approval-requests`."""
    return PAST_ANSWER.to_list_response(await caller.service.answers(caller.workspace_id, before=before, limit=limit))


@approvals_router.get("", **describe("List approvals, newest first.", APPROVAL, scope="runs:read", is_paged=True))
async def list_approvals(
    caller: CurrentCaller, paging: PageQuery, pending: Pending = None, run_id: RunIdQuery = None
) -> Response:
    approvals = await caller.service.approvals(
        caller.workspace_id, pending=pending, run_id=run_id, page=paging.page, page_size=paging.size
    )
    return paging.to_response(APPROVAL, approvals.items, approvals.total)


@approvals_router.get("/{id}", **describe("Get an approval.", APPROVAL, scope="runs:read", errors=(404,)))
async def read_approval(caller: CurrentCaller, approval_id: PathId) -> Response:
    return APPROVAL.to_response(await caller.service.approval(caller.workspace_id, approval_id))


@approvals_router.post(
    "/{id}/decide", **describe("Decide on an approval.", APPROVAL, scope="approvals:decide", errors=(404, 409))
)
async def decide(caller: CurrentCaller, approval_id: PathId, body: DecideBody) -> Response:
    """Resumes the run. A second decision is rejected."""
    approval = await caller.service.decide(
        caller.workspace_id,
        approval_id,
        body.decision,
        edited_content=body.edited_content,
        decided_by=body.decided_by,
        key=caller.key,
    )
    return APPROVAL.to_response(approval)


@events_router.post("", **describe("Send an event.", RECEIVED_EVENT, scope="events:send", errors=(404, 409)))
async def send_event(
    caller: CurrentCaller, body: SendEventBody, idempotency_key: IdempotencyKeyHeader = None
) -> Response:
    """Wakes the runs that wait for the event, and starts the runs of matching triggers."""
    key = resolve_idempotency_key(idempotency_key, body.key, "key")
    event = await caller.service.send_event(caller.workspace_id, body.name, body.payload, key=key)
    return RECEIVED_EVENT.to_response(event)
