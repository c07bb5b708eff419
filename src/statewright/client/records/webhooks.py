"""Webhooks and their deliveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from statewright.client.records.record import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Shown):
    """An address outside that is told of events."""

    id: str
    url: str
    events: tuple[str, ...]
    description: str
    active: bool
    failures: int
    disabled_reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with its secret, which is shown once."""

    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Shown):
    """One message to one webhook."""

    id: str
    webhook_id: str
    workflow_run_id: str | None
    event_type: str
    body: Any
    status: str
    """`pending`, `delivered` or `failed`."""
    attempts: int
    response_status: int | None
    error: str | None
    due_at: datetime | None
    created_at: datetime
    delivered_at: datetime | None
