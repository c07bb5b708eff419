"""Routes of webhooks and their deliveries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field

from statewright.server.context.auth import Caller
from statewright.server.http.body import Body
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import DELIVERY, WEBHOOK, WEBHOOK_WITH_SECRET
from statewright.service import webhooks
from statewright.service.webhooks import WithSecret

router = APIRouter(prefix="/api/v1/webhooks", route_class=StrictRoute, tags=["webhooks"])
_SCOPE = "webhooks:manage"
DeliveryId = Annotated[str, Path(alias="deliveryId", min_length=1, max_length=300)]
Url = Annotated[str, Field(min_length=1, max_length=2048)]
EventName = Annotated[str, Field(min_length=1, max_length=100)]


class WebhookBody(Body):
    """A webhook to create."""

    url: Url
    events: list[EventName] = Field(default_factory=list[str], max_length=20)
    """The event types to deliver; all if empty."""
    description: Annotated[str, Field(max_length=1000)] = ""


class WebhookChanges(Body):
    """Changes to a webhook."""

    url: Url | None = None
    events: list[EventName] | None = Field(default=None, max_length=20)
    description: Annotated[str, Field(max_length=1000)] | None = None
    active: bool | None = None
    """Activating a webhook resets its failure count."""
    rotate_secret: bool = False
    """True to generate a new secret, which the response contains."""


def _context(caller: Caller) -> dict[str, Any]:
    return {"now": caller.now, "settings": caller.context.webhooks}


def _encode_with_secret(webhook: WithSecret) -> dict[str, Any]:
    return {**WEBHOOK.encode(webhook.webhook), "secret": webhook.secret}


@router.post("", **describe("Create a webhook.", WEBHOOK_WITH_SECRET, scope=_SCOPE, status=201, errors=(409,)))
async def add_webhook(caller: CurrentCaller, body: WebhookBody) -> Response:
    """The response contains the secret that signs messages, which cannot be retrieved later."""
    workspace = caller.workspace_id
    created = await webhooks.add_webhook(
        caller.ledger, workspace, body.url, body.events, body.description, **_context(caller)
    )
    return success_response(_encode_with_secret(created), status=201)


@router.get("", **describe("List webhooks, newest first.", WEBHOOK, scope=_SCOPE, is_paged=True))
async def list_webhooks(caller: CurrentCaller, paging: PageQuery) -> Response:
    page, total = await webhooks.list_webhooks(
        caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset
    )
    return paging.to_response(WEBHOOK, page, total)


@router.get("/{id}", **describe("Get a webhook.", WEBHOOK, scope=_SCOPE, errors=(404,)))
async def read_webhook(caller: CurrentCaller, webhook_id: PathId) -> Response:
    return WEBHOOK.to_response(await webhooks.get_webhook(caller.ledger, caller.workspace_id, webhook_id))


@router.patch("/{id}", **describe("Change a webhook.", WEBHOOK_WITH_SECRET, scope=_SCOPE, errors=(404,)))
async def change_webhook(caller: CurrentCaller, webhook_id: PathId, body: WebhookChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    workspace = caller.workspace_id
    changed = await webhooks.change_webhook(caller.ledger, workspace, webhook_id, **changes, **_context(caller))
    return success_response(_encode_with_secret(changed))


@router.delete("/{id}", **describe("Remove a webhook.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_webhook(caller: CurrentCaller, webhook_id: PathId) -> Response:
    await webhooks.remove_webhook(caller.ledger, caller.workspace_id, webhook_id)
    return Response(status_code=204)


@router.get(
    "/{id}/deliveries",
    **describe("List the deliveries of a webhook.", DELIVERY, scope=_SCOPE, is_paged=True, errors=(404,)),
)
async def list_deliveries(caller: CurrentCaller, webhook_id: PathId, paging: PageQuery) -> Response:
    page, total = await webhooks.deliveries_of(
        caller.ledger, caller.workspace_id, webhook_id, limit=paging.size, offset=paging.offset
    )
    return paging.to_response(DELIVERY, page, total)


@router.post(
    "/{id}/deliveries/{deliveryId}/send-again",
    **describe("Send the message of a delivery again.", DELIVERY, scope=_SCOPE, status=201, errors=(404, 409)),
)
async def send_again(caller: CurrentCaller, webhook_id: PathId, delivery_id: DeliveryId) -> Response:
    """Creates a new delivery with the same contents and another id."""
    delivery = await webhooks.send_again(caller.ledger, caller.workspace_id, webhook_id, delivery_id, now=caller.now)
    caller.service.wake_background_tasks()
    return DELIVERY.to_response(delivery, 201)


@router.post("/{id}/test", **describe("Send a test message to a webhook.", DELIVERY, scope=_SCOPE, errors=(404, 409)))
async def send_test(caller: CurrentCaller, webhook_id: PathId) -> Response:
    delivery = await webhooks.send_test(caller.ledger, caller.workspace_id, webhook_id, now=caller.now)
    caller.service.wake_background_tasks()
    return DELIVERY.to_response(delivery)
