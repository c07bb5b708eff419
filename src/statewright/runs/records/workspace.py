"""Workspaces, and their records besides runs: keys, definitions, schedules, triggers, webhooks and spending."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, Self

from statewright.runs.records.record import Json, Names, Record, Sealed

MAX_CLOCK_DIFFERENCE: Final = 60.0
"""Seconds by which the time of a claim may be before that of an earlier claim, unless the clock was set back."""


@dataclass(slots=True, kw_only=True)
class Workspace(Record):
    """A tenant. Its runs, definitions, keys and webhooks are invisible to other workspaces."""

    TABLE: ClassVar[str] = "workspaces"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("slug",),)

    slug: str
    name: str = ""
    max_running: int | None = None
    """The maximum number of concurrently claimed runs."""
    starts_per_minute: int | None = None
    """The maximum number of runs started per minute."""
    retention_days: int | None = None
    """Days for which ended runs are kept; None to keep them forever."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Queue(Record):
    """The limits of a queue, which hold for all workspaces and workers together. Its id is its name.

    `starts_per_minute` is enforced with a token bucket. Each start takes a token, tokens are added at a constant rate,
    and the bucket holds at most those of one second; so in the first minute after a pause, the starts of 61 seconds are
    possible. Runs that continue after a wait take no token.
    """

    TABLE: ClassVar[str] = "queues"

    max_running: int | None = None
    """Limit of concurrently claimed runs."""
    starts_per_minute: int | None = None
    tokens: float = 1.0
    """The tokens at `filled_at`."""
    filled_at: datetime | None = None

    def tokens_at(self, now: datetime) -> float:
        """Return the number of starts that are permitted at an instant, if the rate is limited."""
        per_second = (self.starts_per_minute or 0) / 60
        return min(max(1.0, per_second), self.tokens + self._elapsed_seconds(now) * per_second)

    def after_start(self, now: datetime) -> Self:
        """Return the record of a queue that has taken a token for a start."""
        is_earlier = self.filled_at is not None and now < self.filled_at and not self._is_ahead_of(now)
        return replace(self, tokens=self.tokens_at(now) - 1, filled_at=self.filled_at if is_earlier else now)

    def _elapsed_seconds(self, now: datetime) -> float:
        """Return the seconds for which tokens have been added since `filled_at`."""
        if self.filled_at is None:
            return 0.0
        if self._is_ahead_of(now):
            return MAX_CLOCK_DIFFERENCE
        return max(0.0, (now - self.filled_at).total_seconds())

    def _is_ahead_of(self, now: datetime) -> bool:
        """Return whether the clock was set back since `filled_at`. Otherwise the queue would start no runs until then.

        Smaller differences occur if a process reads its clock, and then waits until it may claim runs.
        """
        return self.filled_at is not None and (self.filled_at - now).total_seconds() > MAX_CLOCK_DIFFERENCE


@dataclass(slots=True, kw_only=True)
class ApiKey(Record):
    """A key of a workspace. The key itself is not stored, only its hash."""

    TABLE: ClassVar[str] = "api_keys"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("digest",),)

    workspace_id: str
    name: str
    digest: str
    """SHA-256 of the key, in hexadecimal digits."""
    prefix: str
    """The first characters of the key, to identify it."""
    scopes: Json = field(default_factory=list[str])
    requests_per_minute: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Session(Record):
    """The sign-in of a person with a key, on the web page. Its id is the SHA-256 of the token in the cookie."""

    TABLE: ClassVar[str] = "sessions"

    key_id: str
    """The key, whose workspace and scopes the session has, and with which it ends."""
    workspace_id: str
    created_at: datetime
    used_at: datetime
    """The time of the last request, or a minute earlier at most: it is not written for each of them."""


# -- definitions


@dataclass(slots=True, kw_only=True)
class StoredDefinition(Record):
    """A version of a workflow. It never changes, because a run keeps the version with which it began."""

    TABLE: ClassVar[str] = "definitions"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "name", "version"),)

    workspace_id: str
    name: str
    version: str
    kind: str
    """`steps` for a workflow in JSON, `states` for one in YAML, `graph` for a graph in Python."""
    description: Sealed = ""
    digest: str
    body: Json = None
    """The definition itself; None for a graph in Python, because its code is not stored."""
    created_at: datetime


# -- schedules, triggers and received events


@dataclass(slots=True, kw_only=True)
class Schedule(Record):
    """A schedule, which starts a run of a graph at each time of a cron expression."""

    TABLE: ClassVar[str] = "schedules"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "name"),)

    workspace_id: str
    name: str
    graph: str
    definition_id: str | None = None
    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    timezone: str = "UTC"
    input: Json = None
    overlap: str = "skip"
    """The policy if the last run has not ended: `skip` the new run, `enqueue` it after the last run, `allow` both, or
    `cancel` the last run."""
    catch_up: str = "last"
    """The runs to start for times that were missed while no service was running: `none`, one for the `last` missed
    time, or `all` (at most 100)."""
    paused: bool = False
    next_at: datetime | None = None
    last_at: datetime | None = None
    """The scheduled time of the last run."""
    last_run_id: str | None = None
    tags: Json = field(default_factory=list[str])
    metadata: Json = field(default_factory=dict[str, object])
    created_at: datetime
    version: int = 1


@dataclass(slots=True, kw_only=True)
class Trigger(Record):
    """A trigger, which starts a run of a graph for each event with a certain name."""

    TABLE: ClassVar[str] = "triggers"

    workspace_id: str
    event: str
    graph: str
    definition_id: str | None = None
    match: Json = field(default_factory=dict[str, object])
    """Values that the payload must have, by dotted path. An empty map matches every payload."""
    active: bool = True
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class ReceivedEvent(Record):
    """An event that a workspace has received, and its effects. A second event with the same key is ignored."""

    TABLE: ClassVar[str] = "received_events"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "key"),)

    workspace_id: str
    name: str
    payload: Json = None
    key: str | None = None
    started: Json = field(default_factory=list[str])
    """The ids of the runs that it has started."""
    woken: Json = field(default_factory=list[str])
    """The ids of the waiting runs that it has woken."""
    created_at: datetime


# -- webhooks


@dataclass(slots=True, kw_only=True)
class Webhook(Record):
    """A webhook: an external URL that receives events."""

    TABLE: ClassVar[str] = "webhooks"

    workspace_id: str
    url: Sealed
    events: Names = field(default_factory=list[str])
    """The types of events that it receives; an empty list means all types."""
    description: Sealed = ""
    secret: Json = None
    """The signing secret: `current`, and after a rotation also `previous` and `previousUntil`."""
    active: bool = True
    failures: int = 0
    """The number of consecutive deliveries that have failed permanently."""
    disabled_reason: Sealed | None = None
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Delivery(Record):
    """One message to one webhook, with its outcome. It is sent again until it is received or no attempts are left."""

    TABLE: ClassVar[str] = "webhook_deliveries"

    webhook_id: str
    workspace_id: str
    run_id: str | None = None
    event_type: str
    body: Json = None
    """The message (`type`, `createdAt`, `data`) without its `id`, which is the id of the delivery."""
    status: str = "pending"
    """`pending`, `delivered`, or `failed` after the last attempt."""
    attempts: int = 0
    response_status: int | None = None
    error: Sealed | None = None
    claim: str | None = None
    due_at: datetime | None = None
    created_at: datetime
    delivered_at: datetime | None = None


# -- spending


@dataclass(slots=True, kw_only=True)
class DailySpending(Record):
    """The spending of all runs of a workspace on one day. It outlives the runs and their model calls."""

    TABLE: ClassVar[str] = "daily_spending"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "day"),)
    SUMS: ClassVar[tuple[str, ...]] = ("requests", "input_tokens", "output_tokens", "cost")
    """The columns to which each model call adds."""

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
        """Return a record for the day that contains an instant, with nothing spent."""
        day = at.astimezone(UTC).date().isoformat()
        return cls(id=f"{workspace_id}/{day}", workspace_id=workspace_id, day=day)

    def plus(self, other: DailySpending) -> Self:
        """Return the sum of this record and another one for the same day."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in self.SUMS})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def ends_at(self) -> datetime:
        """The instant at which the next day begins."""
        return datetime.fromisoformat(self.day).replace(tzinfo=UTC) + timedelta(days=1)
