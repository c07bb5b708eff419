"""Bodies about workspaces and their API keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from statewright.server.bodies.base import Body, Instant, Name

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


class KeyBody(Body):
    """A key to be made."""

    name: Name
    scopes: list[str] = Field(default_factory=lambda: ["admin"], min_length=1, max_length=20)
    requests_per_minute: Many | None = None
    expires_at: Instant | None = None
