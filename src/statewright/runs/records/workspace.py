"""Who may use the service: workspaces, which never see each other, and the keys to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Json, Record


@dataclass(slots=True, kw_only=True)
class Workspace(Record):
    """A world of its own: its runs, definitions, keys and webhooks are invisible from others."""

    TABLE: ClassVar[str] = "workspaces"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("slug",),)

    slug: str
    name: str = ""
    max_running: int | None = None
    """How many of its runs may be at work at once."""
    starts_per_minute: int | None = None
    """How many runs may be started in a minute."""
    retention_days: int | None = None
    """How long runs that have ended are kept; for ever if there is no number."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class ApiKey(Record):
    """A key to a workspace, of which only the hash is kept."""

    TABLE: ClassVar[str] = "api_keys"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("digest",),)

    workspace_id: str
    name: str
    digest: str
    """SHA-256 of the key, in hexadecimal digits."""
    prefix: str
    """Its first signs, by which people know it again."""
    scopes: Json = field(default_factory=list[str])
    requests_per_minute: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    created_at: datetime
