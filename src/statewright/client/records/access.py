"""Workspaces, keys, spending, and the health of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from statewright.client.records.record import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Shown):
    """A key, of which only the first signs are known."""

    id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    requests_per_minute: int | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(Key):
    """A key with the key itself, which is not shown again."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace(Shown):
    """A workspace and its limits."""

    id: str
    slug: str
    name: str
    max_running: int | None
    starts_per_minute: int | None
    retention_days: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits(Shown):
    """Daily spending limits of a workspace; None for no limit."""

    tokens_per_day: int | None
    cost_per_day: float | None
    """In US dollars."""
    requests_per_day: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending(Shown):
    """Today's spending of a workspace, and its limits."""

    workspace_id: str
    day: str
    """A day in UTC: `2026-01-31`."""
    ends_at: datetime
    """The start of the next day."""
    requests: int
    """Calls of models."""
    input_tokens: int
    output_tokens: int
    tokens: int
    cost_usd: float
    limits: SpendingLimits | None
    reached: str | None
    """The limit that is used up, if one is: `tokens_per_day`, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace(Workspace):
    """A workspace with the first key to it."""

    api_key: NewKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Shown):
    """The health of the service."""

    status: str
    checks: Mapping[str, str]

    @property
    def is_well(self) -> bool:
        """True if everything works."""
        return self.status == "ok"
