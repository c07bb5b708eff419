"""Webhooks and their deliveries."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from statewright.server.context.auth import Caller
from statewright.server.http.encode import answer
from statewright.server.http.parameters import Paged
from statewright.server.http.route import PathId, Signed, StrictRoute, described
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


def _options(caller: Caller) -> dict[str, Any]:
    return {"now": caller.now, "settings": caller.context.webhooks}


def _with_secret(created: WithSecret) -> dict[str, Any]:
    return {**shown(WebhookShown, created.webhook), "secret": created.secret}


@router.post("", **described("Make a webhook.", WebhookWithSecret, scope=_SCOPE, status=201, errors=(409,)))
async def add_webhook(caller: Signed, body: WebhookBody) -> Response:
    """The answer has the secret with which messages are signed; it is not shown again."""
    workspace = caller.workspace_id
    created = await webhooks.add_webhook(
        caller.ledger, workspace, body.url, body.events, body.description, **_options(caller)
    )
    return answer(_with_secret(created), status=201)


@router.get("", **described("Webhooks, the newest first.", WebhookShown, scope=_SCOPE, page=True))
async def list_webhooks(caller: Signed, page: Paged) -> Response:
    items, total = await webhooks.list_webhooks(caller.ledger, caller.workspace_id, limit=page.size, offset=page.offset)
    return page.answer(WebhookShown, items, total)


@router.get("/{id}", **described("A webhook.", WebhookShown, scope=_SCOPE, errors=(404,)))
async def read_webhook(caller: Signed, webhook_id: PathId) -> Response:
    return answer(shown(WebhookShown, await webhooks.get_webhook(caller.ledger, caller.workspace_id, webhook_id)))


@router.patch("/{id}", **described("Change a webhook.", WebhookWithSecret, scope=_SCOPE, errors=(404,)))
async def change_webhook(caller: Signed, webhook_id: PathId, body: WebhookChanges) -> Response:
    changes = body.model_dump(exclude_unset=True)
    workspace = caller.workspace_id
    changed = await webhooks.change_webhook(caller.ledger, workspace, webhook_id, **changes, **_options(caller))
    return answer(_with_secret(changed))


@router.delete("/{id}", **described("Remove a webhook.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_webhook(caller: Signed, webhook_id: PathId) -> Response:
    await webhooks.remove_webhook(caller.ledger, caller.workspace_id, webhook_id)
    return Response(status_code=204)


@router.get("/{id}/deliveries", **described("Its messages.", DeliveryShown, scope=_SCOPE, page=True, errors=(404,)))
async def list_deliveries(caller: Signed, webhook_id: PathId, page: Paged) -> Response:
    items, total = await webhooks.deliveries_of(
        caller.ledger, caller.workspace_id, webhook_id, limit=page.size, offset=page.offset
    )
    return page.answer(DeliveryShown, items, total)


@router.post("/{id}/test", **described("Send a message to try it.", DeliveryShown, scope=_SCOPE, errors=(404, 409)))
async def send_test(caller: Signed, webhook_id: PathId) -> Response:
    sent = await webhooks.send_test(caller.ledger, caller.workspace_id, webhook_id, now=caller.now)
    caller.service.ring()
    return answer(shown(DeliveryShown, sent))
