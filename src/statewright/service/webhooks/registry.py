"""The webhooks of a workspace: event types, and operations on their records.

Webhooks of other workspaces are treated as missing. A secret is returned only when it is created, and separately from
the record, because the records that are returned contain no secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from statewright.async_futures import aresolve
from statewright.clock import iso
from statewright.errors import InvalidRequest, NotFound, RecordConflict, RequestConflict, suggestion
from statewright.ids import new_checkpoint_id
from statewright.runs import Delete, Delivery, Insert, Ledger, Update, Webhook, where
from statewright.service.context.records import NEWEST_FIRST, get_in_workspace
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
"""The type of a test message, which is sent to a single webhook, and not retried."""


def validate_event_types(names: Sequence[str]) -> list[str]:
    """Return event types without duplicates. Raises InvalidRequest for unknown types."""
    if isinstance(names, str):
        raise InvalidRequest(f"The events of a webhook must be a list, not the string {names!r}. Write [{names!r}].")
    for name in names:
        if name not in EVENT_TYPES:
            raise InvalidRequest(
                f"A webhook cannot subscribe to {name!r}. {suggestion(str(name), EVENT_TYPES, noun='Event types')}",
                details={"field": "events", "found": name},
            )
    return [name for name in EVENT_TYPES if name in names]


# -- stored webhooks

_MAX_DESCRIPTION: Final = 1000
"""In characters."""


class WithSecret(NamedTuple):
    """A webhook, and its secret if the secret was just created. A secret cannot be read later."""

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

    Raises InvalidRequest for a URL that may not be called or an unknown type, and RequestConflict if the workspace has
    too many webhooks.
    """
    types = validate_event_types(events)
    _check_description(description)
    await check_url(url, settings)
    if await aresolve(ledger.count(Webhook, where(workspace_id=workspace_id))) >= settings.max_per_workspace:
        raise RequestConflict(f"The workspace has {settings.max_per_workspace} webhooks already. Remove one first.")
    secret = draw_secret()
    webhook = Webhook(
        id=f"whk_{new_checkpoint_id()}",
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
    webhooks = await aresolve(ledger.find(Webhook, conditions, order=NEWEST_FIRST, limit=limit, offset=offset))
    return [without_secret(webhook) for webhook in webhooks], await aresolve(ledger.count(Webhook, conditions))


async def get_webhook(ledger: Ledger, workspace_id: str, webhook_id: str) -> Webhook:
    """Return a webhook. Raises NotFound."""
    return without_secret(await _get_with_secret(ledger, workspace_id, webhook_id))


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
    """Change the fields of a webhook that are not None. Activating a webhook resets its count of failures.

    After a rotation of the secret, messages are also signed with the previous secret for some time, so that receivers
    can switch to the new one. Raises NotFound, and InvalidRequest for an invalid field.
    """
    webhook = await _get_with_secret(ledger, workspace_id, webhook_id)
    values: dict[str, Any] = {}
    if url is not None:
        await check_url(url, settings)
        values["url"] = url
    if events is not None:
        values["events"] = validate_event_types(events)
    if description is not None:
        _check_description(description)
        values["description"] = description
    if active is not None:
        values.update({"active": active, "failures": 0, "disabled_reason": None} if active else {"active": False})
    secret = None
    if rotate_secret:
        values["secret"], secret = rotated_secret(webhook, now, settings)
    if values:
        with suppress(RecordConflict):  # the webhook was removed since it was read: reading it again raises NotFound
            await aresolve(ledger.write([Update(Webhook, webhook.id, values)]))
    return WithSecret(await get_webhook(ledger, workspace_id, webhook_id), secret)


async def remove_webhook(ledger: Ledger, workspace_id: str, webhook_id: str) -> None:
    """Remove a webhook with all its deliveries, including pending ones. Raises NotFound."""
    webhook = await _get_with_secret(ledger, workspace_id, webhook_id)
    removed = [Delete(Webhook, where(id=webhook.id)), Delete(Delivery, where(webhook_id=webhook.id))]
    await aresolve(ledger.write(removed))


async def deliveries_of(
    ledger: Ledger, workspace_id: str, webhook_id: str, *, limit: int | None = None, offset: int = 0
) -> tuple[list[Delivery], int]:
    """Return the deliveries of a webhook, the newest first, and their total number. Raises NotFound."""
    webhook = await _get_with_secret(ledger, workspace_id, webhook_id)
    conditions = where(webhook_id=webhook.id)
    deliveries = await aresolve(ledger.find(Delivery, conditions, order=NEWEST_FIRST, limit=limit, offset=offset))
    return list(deliveries), await aresolve(ledger.count(Delivery, conditions))


async def send_again(
    ledger: Ledger, workspace_id: str, webhook_id: str, delivery_id: str, *, now: datetime
) -> Delivery:
    """Send the message of an earlier delivery again, as a new delivery, with all its attempts.

    The message keeps its contents but gets another id, so that receivers that ignore repeated ids accept it. Raises
    NotFound, and RequestConflict for an inactive webhook, or if the message is still being sent.
    """
    webhook = await _get_with_secret(ledger, workspace_id, webhook_id)
    earlier = await get_in_workspace(ledger, Delivery, workspace_id, delivery_id, "delivery")
    if earlier.webhook_id != webhook.id:
        raise NotFound(f"Delivery {delivery_id!r} does not exist in this workspace.")
    if not webhook.active:
        raise RequestConflict(f"Webhook {webhook.id!r} is not active, so no messages are sent. Activate it first.")
    if earlier.status == "pending":
        raise RequestConflict(f"Delivery {earlier.id!r} is still being sent. Wait until it has succeeded or failed.")
    delivery = Delivery(
        id=f"dlv_{new_checkpoint_id()}",
        webhook_id=webhook.id,
        workspace_id=workspace_id,
        run_id=earlier.run_id,
        event_type=earlier.event_type,
        body=earlier.body,
        due_at=now,
        created_at=now,
    )
    await aresolve(ledger.write([Insert(delivery)]))
    return delivery


async def send_test(ledger: Ledger, workspace_id: str, webhook_id: str, *, now: datetime) -> Delivery:
    """Queue a test message, which is sent once. Raises RequestConflict for an inactive webhook."""
    webhook = await _get_with_secret(ledger, workspace_id, webhook_id)
    if not webhook.active:
        raise RequestConflict(f"Webhook {webhook.id!r} is not active, so no messages are sent. Activate it first.")
    body = {"type": TEST_EVENT, "createdAt": iso(now), "data": {"webhookId": webhook.id}}
    delivery = Delivery(
        id=f"dlv_{new_checkpoint_id()}",
        webhook_id=webhook.id,
        workspace_id=workspace_id,
        event_type=TEST_EVENT,
        body=body,
        due_at=now,
        created_at=now,
    )
    await aresolve(ledger.write([Insert(delivery)]))
    return delivery


async def _get_with_secret(ledger: Ledger, workspace_id: str, webhook_id: str) -> Webhook:
    return await get_in_workspace(ledger, Webhook, workspace_id, webhook_id, "webhook")


def _check_description(description: str) -> None:
    if len(description) > _MAX_DESCRIPTION:
        raise InvalidRequest(
            f"The description has {len(description)} characters; at most {_MAX_DESCRIPTION} are allowed.",
            details={"field": "description"},
        )
