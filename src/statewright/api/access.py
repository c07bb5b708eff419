"""Workspaces, keys, spending, and the health of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from statewright.api.resource import Resource

CheckResult = Literal["ok", "failing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Resource):
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
class Workspace(Resource):
    """A workspace."""

    id: str
    slug: str
    name: str
    max_running: int | None
    """Limit of concurrently claimed runs."""
    starts_per_minute: int | None
    retention_days: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace(Workspace):
    """A workspace with the first key to it."""

    api_key: NewKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits(Resource):
    """What all runs of a workspace may spend together on a day; null where nothing limits it."""

    tokens_per_day: int | None
    cost_per_day: float | None
    """In US dollars."""
    requests_per_day: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending(Resource):
    """Today's spending of a workspace, and its limits."""

    workspace_id: str
    day: str = field(metadata={"examples": ["2026-01-31"]})
    """In UTC."""
    ends_at: datetime
    """The start of the next day."""
    requests: int
    """Calls of models."""
    input_tokens: int
    output_tokens: int
    tokens: int
    cost_usd: float
    limits: SpendingLimits | None
    reached: str | None = field(metadata={"examples": ["tokens_per_day"]})
    """The limit that is used up: no run starts then, and those under way go on with the next day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Resource):
    """Whether the service works: outside of the envelope, as those who ask expect it."""

    status: CheckResult
    checks: Mapping[str, str]

    @property
    def is_well(self) -> bool:
        """True if everything works."""
        return self.status == "ok"
