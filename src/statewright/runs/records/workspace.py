"""Workspaces, their API keys, definitions and spending."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

from statewright.runs.records.record import Json, Record, Sealed


@dataclass(slots=True, kw_only=True)
class Workspace(Record):
    """A tenant: its runs, definitions, keys and webhooks are invisible to others."""

    TABLE: ClassVar[str] = "workspaces"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("slug",),)

    slug: str
    name: str = ""
    max_running: int | None = None
    """Limit of concurrently claimed runs."""
    starts_per_minute: int | None = None
    """Limit of runs started per minute."""
    retention_days: int | None = None
    """Days for which ended runs are kept; None keeps them for ever."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class ApiKey(Record):
    """A key of a workspace, of which only the hash is stored."""

    TABLE: ClassVar[str] = "api_keys"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("digest",),)

    workspace_id: str
    name: str
    digest: str
    """SHA-256 of the key, in hexadecimal digits."""
    prefix: str
    """Its first characters, to identify it."""
    scopes: Json = field(default_factory=list[str])
    requests_per_minute: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    created_at: datetime


# -- definitions


@dataclass(slots=True, kw_only=True)
class StoredDefinition(Record):
    """A version of a workflow. It never changes, because runs end with the version that they began with."""

    TABLE: ClassVar[str] = "definitions"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "name", "version"),)

    workspace_id: str
    name: str
    version: str
    kind: str
    """`steps` for JSON, `states` for YAML, `graph` for a graph in a Python module."""
    description: Sealed = ""
    digest: str
    body: Json = None
    """The definition itself; None for a graph, whose code is in its module."""
    created_at: datetime


# -- spending


@dataclass(slots=True, kw_only=True)
class DailySpending(Record):
    """The spending of all runs of a workspace on one day. It outlives the runs and their model calls."""

    TABLE: ClassVar[str] = "daily_spending"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "day"),)
    SUMS: ClassVar[tuple[str, ...]] = ("requests", "input_tokens", "output_tokens", "cost")
    """The columns that calls add to."""

    workspace_id: str
    day: str
    """A day in UTC: `2026-01-31`."""
    requests: int = 0
    """The number of model calls."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In US dollars."""

    @classmethod
    def of(cls, workspace_id: str, at: datetime) -> Self:
        """Return the record of the day of an instant, with nothing spent."""
        day = at.astimezone(UTC).date().isoformat()
        return cls(id=f"{workspace_id}/{day}", workspace_id=workspace_id, day=day)

    def plus(self, more: DailySpending) -> Self:
        """Return the sum of this record and another one of the same day."""
        return replace(self, **{name: getattr(self, name) + getattr(more, name) for name in self.SUMS})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def ends_at(self) -> datetime:
        """The instant at which the next day begins."""
        return datetime.fromisoformat(self.day).replace(tzinfo=UTC) + timedelta(days=1)
