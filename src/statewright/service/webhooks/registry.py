"""Webhooks of a workspace: their event types, and creating, listing, changing, removing and testing them.

Webhooks of other workspaces count as not existing. A secret is returned once, when it is created; returned records
contain none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from statewright.async_futures import aresolve
from statewright.clock import iso
from statewright.errors import InvalidRequest, NotFound, RecordConflict, RequestConflict, suggestion
from statewright.ids import draw_checkpoint_id
from statewright.runs import Delete, Delivery, Insert, Ledger, Order, Update, Webhook, where
from statewright.service.context.records import get_own
from statewright.service.webhooks.address import check_url
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, WebhookSettings
from statewright.service.webhooks.signature import draw_secret, rotated_secret, without_secret

EVENT_TYPES: Final = (
    "workflow.completed",
    "workflow.failed",
    "workflow.cancelled",
    "approval.requested",
    "approval.decided",
)
"""The event types that a webhook can subscribe to."""
TEST_EVENT: Final = "webhook.test"
"""The type of a test message, which is sent to one webhook, once."""


def read_event_types(names: Sequence[str]) -> list[str]:
    """Validate event types, without duplicates. Raises InvalidRequest for unknown types."""
    if isinstance(names, str):
        raise InvalidRequest(f"The events of a webhook must be a list, not the string {names!r}. Write [{names!r}].")
    for name in names:
        if name not in EVENT_TYPES:
            raise InvalidRequest(
                f"A webhook cannot subscribe to {name!r}. {suggestion(str(name), EVENT_TYPES, noun='Types of events')}",
                details={"field": "events", "found": name},
            )
    return [name for name in EVENT_TYPES if name in names]


# -- stored webhooks

_MAX_DESCRIPTION: Final = 1000
_NEWEST_FIRST: Final = Order("created_at", descending=True)


class WithSecret(NamedTuple):
    """A webhook, and its secret if it is new: it is never returned again."""

    webhook: Webhook
    secret: str | None


async def add_webhook(
    ledger: Ledger,
    workspace_id: str,
    url: str,
    events: Sequence[str] = (),
    description: str = "",
    *,
    now: datetime,
    settings: WebhookSettings = DEFAULT_SETTINGS,
) -> WithSecret:
    """Create a webhook for events of some types, or of all types by default.

    Raises InvalidRequest for a URL that may not be called or an unknown type, RequestConflict if there are too many
    already.
    """
    types = read_event_types(events)
    _check_description(description)
    await check_url(url, settings)
    if await aresolve(ledger.count(Webhook, where(workspace_id=workspace_id))) >= settings.max_per_workspace:
        raise RequestConflict(f"The workspace has {settings.max_per_workspace} webhooks already. Remove one first.")
    secret = draw_secret()
    webhook = Webhook(
        id=f"whk_{draw_checkpoint_id()}",
        workspace_id=workspace_id,
        url=url,
        events=types,
        description=description,
        secret={"current": secret},
        created_at=now,
    )
    await aresolve(ledger.write([Insert(webhook)]))
    return WithSecret(without_secret(webhook), secret)


async def list_webhooks(
    ledger: Ledger, workspace_id: str, *, limit: int | None = None, offset: int = 0
) -> tuple[list[Webhook], int]:
    """Return the webhooks of a workspace, the newest first, and their total number."""
    conditions = where(workspace_id=workspace_id)
    webhooks = await aresolve(ledger.find(Webhook, conditions, order=_NEWEST_FIRST, limit=limit, offset=offset))
    return [without_secret(webhook) for webhook in webhooks], await aresolve(ledger.count(Webhook, conditions))


async def get_webhook(ledger: Ledger, workspace_id: str, webhook_id: str) -> Webhook:
    """Return a webhook. Raises NotFound."""
    return without_secret(await _webhook(ledger, workspace_id, webhook_id))


async def change_webhook(
    ledger: Ledger,
    workspace_id: str,
    webhook_id: str,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = None,
    active: bool | None = None,
    rotate_secret: bool = False,
    now: datetime,
    settings: WebhookSettings = DEFAULT_SETTINGS,
) -> WithSecret:
    """Change the given fields of a webhook. Reactivating it resets its failures.

    After a rotation of the secret, messages are also signed with the previous one for a while, so that receivers can
    change over.
    """
    webhook = await _webhook(ledger, workspace_id, webhook_id)
    values: dict[str, Any] = {}
    if url is not None:
        await check_url(url, settings)
        values["url"] = url
    if events is not None:
        values["events"] = read_event_types(events)
    if description is not None:
        _check_description(description)
        values["description"] = description
    if active is not None:
        values.update({"active": active, "failures": 0, "disabled_reason": None} if active else {"active": False})
    secret = None
    if rotate_secret:
        values["secret"], secret = rotated_secret(webhook, now, settings)
    if values:
        await _update(ledger, webhook, values)
    return WithSecret(await get_webhook(ledger, workspace_id, webhook_id), secret)


async def remove_webhook(ledger: Ledger, workspace_id: str, webhook_id: str) -> None:
    """Remove a webhook with its deliveries, pending ones included. Raises NotFound."""
    webhook = await _webhook(ledger, workspace_id, webhook_id)
    removed = [Delete(Webhook, where(id=webhook.id)), Delete(Delivery, where(webhook_id=webhook.id))]
    await aresolve(ledger.write(removed))


async def deliveries_of(
    ledger: Ledger, workspace_id: str, webhook_id: str, *, limit: int | None = None, offset: int = 0
) -> tuple[list[Delivery], int]:
    """Return the deliveries of a webhook, the newest first, and their total number. Raises NotFound."""
    webhook = await _webhook(ledger, workspace_id, webhook_id)
    conditions = where(webhook_id=webhook.id)
    deliveries = await aresolve(ledger.find(Delivery, conditions, order=_NEWEST_FIRST, limit=limit, offset=offset))
    return list(deliveries), await aresolve(ledger.count(Delivery, conditions))


async def send_test(ledger: Ledger, workspace_id: str, webhook_id: str, *, now: datetime) -> Delivery:
    """Queue a test message, which is sent once. Raises RequestConflict for an inactive webhook."""
    webhook = await _webhook(ledger, workspace_id, webhook_id)
    if not webhook.active:
        raise RequestConflict(f"Webhook {webhook.id!r} is not active, so nothing is sent to it. Activate it first.")
    body = {"type": TEST_EVENT, "createdAt": iso(now), "data": {"webhookId": webhook.id}}
    delivery = Delivery(
        id=f"dlv_{draw_checkpoint_id()}",
        webhook_id=webhook.id,
        workspace_id=workspace_id,
        event_type=TEST_EVENT,
        body=body,
        due_at=now,
        created_at=now,
    )
    await aresolve(ledger.write([Insert(delivery)]))
    return delivery


async def _webhook(ledger: Ledger, workspace_id: str, webhook_id: str) -> Webhook:
    return await get_own(ledger, Webhook, workspace_id, webhook_id, "webhook")


async def _update(ledger: Ledger, webhook: Webhook, values: dict[str, Any]) -> None:
    try:
        await aresolve(ledger.write([Update(Webhook, webhook.id, values)]))
    except RecordConflict:  # removed since it was read
        raise NotFound(f"Webhook {webhook.id!r} does not exist in this workspace.") from None


def _check_description(description: str) -> None:
    if len(description) > _MAX_DESCRIPTION:
        raise InvalidRequest(
            f"The description has {len(description)} characters; at most {_MAX_DESCRIPTION} are allowed.",
            details={"field": "description"},
        )
