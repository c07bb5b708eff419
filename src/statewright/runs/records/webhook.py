"""Webhooks and their deliveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Json, Record, Sealed


@dataclass(slots=True, kw_only=True)
class Webhook(Record):
    """A webhook: an external URL that receives events."""

    TABLE: ClassVar[str] = "webhooks"

    workspace_id: str
    url: Sealed
    events: Json = field(default_factory=list[str])
    """The types that it wants; all if there are none."""
    description: Sealed = ""
    secret: Json = None
    """The signing secret, shown once."""
    active: bool = True
    failures: int = 0
    """Deliveries in a row that have failed for good."""
    disabled_reason: Sealed | None = None
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Delivery(Record):
    """One message to one webhook, and how it went. The same message is sent until it arrives, or for so many times."""

    TABLE: ClassVar[str] = "webhook_deliveries"

    webhook_id: str
    workspace_id: str
    run_id: str | None = None
    event_type: str
    body: Json = None
    """`id`, `type`, `createdAt`, `data`: what is sent."""
    status: str = "pending"
    """`pending`, `delivered`, or `failed` when no more tries are left."""
    attempts: int = 0
    response_status: int | None = None
    error: Sealed | None = None
    claim: str | None = None
    due_at: datetime | None = None
    created_at: datetime
    delivered_at: datetime | None = None
