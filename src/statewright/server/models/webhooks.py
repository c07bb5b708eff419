"""Webhooks and what they were told."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from statewright.server.models.base import Body, Shown, Sources

Address = Annotated[str, Field(min_length=1, max_length=2048)]
EventName = Annotated[str, Field(min_length=1, max_length=100)]


class WebhookBody(Body):
    """A webhook to be made."""

    url: Address
    events: list[EventName] = Field(default_factory=list[str], max_length=20)
    """The types that it wants; all if there are none."""
    description: Annotated[str, Field(max_length=1000)] = ""


class WebhookChanges(Body):
    """Changes of a webhook."""

    url: Address | None = None
    events: list[EventName] | None = Field(default=None, max_length=20)
    description: Annotated[str, Field(max_length=1000)] | None = None
    active: bool | None = None
    """Made active again, it begins without failures."""
    rotate_secret: bool = False
    """Draws a new secret, which is in the answer."""


class WebhookShown(Shown):
    """A webhook. Its secret is not shown."""

    id: str
    url: str
    events: list[str]
    description: str
    active: bool
    failures: int
    """Deliveries in a row that have failed for good."""
    disabled_reason: str | None
    created_at: datetime


class WebhookWithSecret(WebhookShown):
    """A webhook with its secret, which is shown once."""

    secret: str | None


class DeliveryShown(Shown):
    """One message to one webhook, and how it went."""

    SOURCES: ClassVar[Sources] = {"workflow_run_id": "run_id"}

    id: str
    webhook_id: str
    workflow_run_id: str | None
    event_type: str
    body: Any
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    response_status: int | None
    error: str | None
    due_at: datetime | None
    created_at: datetime
    delivered_at: datetime | None
