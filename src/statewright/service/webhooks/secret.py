"""The secrets of a webhook, as its record keeps them: the present one, and for a while the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from statewright.runs import Json, Webhook
from statewright.service.webhooks.settings import WebhookSettings
from statewright.service.webhooks.signature import draw_secret


def secrets_of(webhook: Webhook, now: datetime) -> list[str]:
    """What messages to a webhook are signed with at an instant, the present secret first."""
    kept = webhook.secret
    if isinstance(kept, str):
        return [kept]
    parts = cast("Mapping[str, Any]", kept)
    until = parts.get("previousUntil")
    former = [parts["previous"]] if until is not None and now < datetime.fromisoformat(until) else []
    return [parts["current"], *former]


def rotated_secret(webhook: Webhook, now: datetime, settings: WebhookSettings) -> tuple[Json, str]:
    """What the record keeps with a new secret, and the new secret."""
    drawn = draw_secret()
    until = now + timedelta(seconds=settings.rotation)
    kept = {"current": drawn, "previous": secrets_of(webhook, now)[0], "previousUntil": until.isoformat()}
    return kept, drawn


def without_secret(webhook: Webhook) -> Webhook:
    """The record as it may be shown."""
    return replace(webhook, secret=None)
