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
    """The types of events that it receives; an empty list means all."""
    description: Sealed = ""
    secret: Json = None
    """The signing secret, shown once."""
    active: bool = True
    failures: int = 0
    """The number of consecutive deliveries that have failed for good."""
    disabled_reason: Sealed | None = None
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Delivery(Record):
    """One message to one webhook, with its outcome. It is sent again until it is received, or attempts run out."""

    TABLE: ClassVar[str] = "webhook_deliveries"

    webhook_id: str
    workspace_id: str
    run_id: str | None = None
    event_type: str
    body: Json = None
    """The sent message: `id`, `type`, `createdAt`, `data`."""
    status: str = "pending"
    """`pending`, `delivered`, or `failed` after the last attempt."""
    attempts: int = 0
    response_status: int | None = None
    error: Sealed | None = None
    claim: str | None = None
    due_at: datetime | None = None
    created_at: datetime
    delivered_at: datetime | None = None
