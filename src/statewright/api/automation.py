"""Schedules, triggers and webhooks, with their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from statewright.api.resource import Resource

Overlap = Literal["skip", "enqueue", "allow", "cancel"]
CatchUp = Literal["none", "last", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Resource):
    """A schedule, which starts runs at the times of a cron expression."""

    id: str
    name: str
    graph: str
    definition_id: str | None
    cron: str
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    paused: bool
    next_at: datetime | None
    last_at: datetime | None
    last_run_id: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    created_at: datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Resource):
    """The times at which a schedule starts its next runs."""

    times: tuple[datetime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Resource):
    """A trigger, which starts a run for each matching event."""

    id: str
    event: str
    graph: str
    definition_id: str | None
    match: Mapping[str, Any]
    active: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Resource):
    """A webhook. Its secret is not shown."""

    id: str
    url: str
    events: tuple[str, ...]
    description: str
    active: bool
    failures: int
    """The number of consecutive deliveries that failed after all retries."""
    disabled_reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with its secret, which is shown only when it is generated."""

    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Resource):
    """One message to one webhook, with its outcome."""

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
