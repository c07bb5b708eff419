"""Keyword options of methods: starts, filters and changes. Omitted options are not sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from statewright.api.automation import CatchUp, Overlap
from statewright.api.runs import OnBusy


class StartOptions(TypedDict, total=False):
    """Options for starting a run."""

    definition_id: str | None
    thread_id: str | None
    """The thread to advance; a new one by default."""
    idempotency_key: str | None
    """A repeated key returns the run that it started before; a random one by default."""
    on_busy: OnBusy
    after: datetime | None
    """The run does not begin before this instant."""
    timeout: float | None
    """Seconds after which the run fails."""
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    concurrency_key: str | None
    concurrency_limit: int | None
    recursion_limit: int | None
    max_concurrency: int | None
    durability: Literal["sync", "async"] | None
    context: Mapping[str, Any] | None


SETTINGS: Final = frozenset({"recursion_limit", "max_concurrency", "durability", "context"})
"""The options that the API has under `settings`."""


class RunFilter(TypedDict, total=False):
    """A filter of runs; all conditions must match."""

    status: Sequence[str]
    """One of these."""
    graph: str | None
    definition_id: str | None
    thread_id: str | None
    parent_id: str | None
    idempotency_key: str | None
    tags: Sequence[str]
    """All of these."""
    metadata: Mapping[str, str]
    created_from: datetime | None
    created_to: datetime | None
    """Before this instant."""


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule."""

    graph: str | None
    definition_id: str | None
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    paused: bool
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class ScheduleChanges(TypedDict, total=False):
    """Changes of a schedule."""

    name: str
    cron: str
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class TriggerChanges(TypedDict, total=False):
    """Changes of a trigger."""

    match: Mapping[str, Any]
    active: bool


class WebhookChanges(TypedDict, total=False):
    """Changes of a webhook."""

    url: str
    events: Sequence[str]
    description: str
    active: bool
    rotate_secret: bool
    """Creates a new secret, which is in the result."""


class WorkspaceLimits(TypedDict, total=False):
    """Name and limits of a workspace; None removes a limit."""

    name: str
    max_running: int | None
    starts_per_minute: int | None
    retention_days: int | None
