"""Workspaces, API keys, spending, and the health of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from statewright.api.resource import Resource

CheckResult = Literal["ok", "failing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Resource):
    """An API key. Only its first characters, `prefix`, can be read."""

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
    """A new API key. The key itself is not shown again."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Resource):
    """The session of the web page."""

    authenticated: bool
    """True if requests of the browser are accepted: after signing in, or if the server requires no keys."""
    key_required: bool
    """False for a server without keys."""
    scopes: tuple[str, ...]
    """The scopes of the session, with those that `admin` includes."""
    workspace_id: str | None
    workspace: str | None
    """The name of the workspace."""
    key_id: str | None
    key_name: str | None
    expires_at: datetime | None
    """The time at which the session ends if it is no longer used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace(Resource):
    """A workspace."""

    id: str
    slug: str
    name: str
    max_running: int | None
    """The maximum number of concurrent runs."""
    starts_per_minute: int | None
    retention_days: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace(Workspace):
    """A new workspace, with its first key."""

    api_key: NewKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits(Resource):
    """Daily limits on the total spending of the runs of a workspace; null for no limit."""

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
    """The number of model calls."""
    input_tokens: int
    output_tokens: int
    tokens: int
    cost_usd: float
    limits: SpendingLimits | None
    reached: str | None = field(metadata={"examples": ["tokens_per_day"]})
    """The limit that was reached, if any. Until the next day, no runs are started, and running runs are paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Resource):
    """The health of the service. The response has no envelope, because monitoring tools do not expect one."""

    status: CheckResult
    checks: Mapping[str, str]

    @property
    def is_well(self) -> bool:
        """True if everything works."""
        return self.status == "ok"
