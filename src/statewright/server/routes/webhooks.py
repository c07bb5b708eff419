"""Webhooks and their deliveries."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from statewright.server.context.auth import Caller
from statewright.server.http.encode import answer
from statewright.server.http.parameters import PageNumber, PageSize, page_of
from statewright.server.http.route import Identity, Signed, StrictRoute, described
from statewright.server.models.base import shown
from statewright.server.models.webhooks import (
    DeliveryShown,
    WebhookBody,
    WebhookChanges,
    WebhookShown,
    WebhookWithSecret,
)
from statewright.service import webhooks
from statewright.service.webhooks import WithSecret

router = APIRouter(prefix="/api/v1/webhooks", route_class=StrictRoute, tags=["webhooks"])
_SCOPE = "webhooks:manage"


def _place(caller: Caller) -> dict[str, Any]:
    return {"now": caller.now, "settings": caller.context.webhooks}


def _with_secret(found: WithSecret) -> dict[str, Any]:
    return {**shown(WebhookShown, found.webhook), "secret": found.secret}


@router.post("", **described("Make a webhook.", WebhookWithSecret, scope=_SCOPE, status=201, errors=(409,)))
async def add_webhook(caller: Signed, body: WebhookBody) -> Response:
    """The answer has the secret with which messages are signed; it is not shown again."""
    workspace = caller.workspace_id
    made = await webhooks.add_webhook(
        caller.ledger, workspace, body.url, body.events, body.description, **_place(caller)
    )
    return answer(_with_secret(made), status=201)


@router.get("", **described("Webhooks, the newest first.", WebhookShown, scope=_SCOPE, page=True))
async def list_webhooks(caller: Signed, page: PageNumber = 1, page_size: PageSize = 20) -> Response:
    begin = (page - 1) * page_size
    found, total = await webhooks.list_webhooks(caller.ledger, caller.workspace_id, limit=page_size, offset=begin)
    return page_of(WebhookShown, found, page, page_size, total)


@router.get("/{id}", **described("A webhook.", WebhookShown, scope=_SCOPE, errors=(404,)))
async def read_webhook(caller: Signed, identity: Identity) -> Response:
    return answer(shown(WebhookShown, await webhooks.get_webhook(caller.ledger, caller.workspace_id, identity)))


@router.patch("/{id}", **described("Change a webhook.", WebhookWithSecret, scope=_SCOPE, errors=(404,)))
async def change_webhook(caller: Signed, identity: Identity, body: WebhookChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    workspace = caller.workspace_id
    changed = await webhooks.change_webhook(caller.ledger, workspace, identity, **changes, **_place(caller))
    return answer(_with_secret(changed))


@router.delete("/{id}", **described("Remove a webhook.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_webhook(caller: Signed, identity: Identity) -> Response:
    await webhooks.remove_webhook(caller.ledger, caller.workspace_id, identity)
    return Response(status_code=204)


@router.get("/{id}/deliveries", **described("Its messages.", DeliveryShown, scope=_SCOPE, page=True, errors=(404,)))
async def list_deliveries(
    caller: Signed, identity: Identity, page: PageNumber = 1, page_size: PageSize = 20
) -> Response:
    begin = (page - 1) * page_size
    found, total = await webhooks.deliveries_of(
        caller.ledger, caller.workspace_id, identity, limit=page_size, offset=begin
    )
    return page_of(DeliveryShown, found, page, page_size, total)


@router.post("/{id}/test", **described("Send a message to try it.", DeliveryShown, scope=_SCOPE, errors=(404, 409)))
async def send_test(caller: Signed, identity: Identity) -> Response:
    sent = await webhooks.send_test(caller.ledger, caller.workspace_id, identity, now=caller.now)
    caller.service.ring()
    return answer(shown(DeliveryShown, sent))
