"""Workspaces and their API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from statewright.server.models.base import Body, Instant, Name, Shown

Slug = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+$")]
Many = Annotated[int, Field(ge=1, le=1_000_000)]


class WorkspaceBody(Body):
    """A workspace to create."""

    slug: Slug
    name: Annotated[str, Field(max_length=200)] = ""
    max_running: Many | None = None
    starts_per_minute: Many | None = None
    retention_days: Many | None = None


class WorkspaceChanges(Body):
    """What of a workspace is to change; null takes a limit away."""

    name: Annotated[str, Field(max_length=200)] = ""
    max_running: Many | None = None
    starts_per_minute: Many | None = None
    retention_days: Many | None = None


class WorkspaceShown(Shown):
    """A workspace."""

    id: str
    slug: str
    name: str
    max_running: int | None
    """Limit of concurrently claimed runs."""
    starts_per_minute: int | None
    retention_days: int | None
    created_at: datetime


class KeyBody(Body):
    """A key to be made."""

    name: Name
    scopes: list[str] = Field(default_factory=lambda: ["admin"], min_length=1, max_length=20)
    requests_per_minute: Many | None = None
    expires_at: Instant | None = None


class KeyShown(Shown):
    """A key, of which only the first signs are known."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    requests_per_minute: int | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


class NewKey(KeyShown):
    """A key with the key itself, which is not shown again."""

    key: str


class NewWorkspace(WorkspaceShown):
    """A workspace with the first key to it."""

    api_key: NewKey
