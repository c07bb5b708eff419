"""Keyword options of methods: starts, filters and changes. Options that are not given are not sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from statewright.api.automation import CatchUp, Overlap
from statewright.api.runs import OnBusy


class StartOptions(TypedDict, total=False):
    """Options of a start."""

    definition_id: str | None
    thread_id: str | None
    """The thread to advance; one of its own if none is given."""
    idempotency_key: str | None
    """The same key again gives the run that it gave before; one is drawn if none is given."""
    on_busy: OnBusy
    after: datetime | None
    """Not before this instant."""
    timeout: float | None
    """Seconds after which the run has failed."""
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
    """A filter of runs; all given conditions must match."""

    status: Sequence[str]
    """Any of them."""
    graph: str | None
    definition_id: str | None
    thread_id: str | None
    parent_id: str | None
    idempotency_key: str | None
    tags: Sequence[str]
    """All of them."""
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
    """Draws a new secret, which is in the answer."""


class WorkspaceLimits(TypedDict, total=False):
    """Name and limits of a workspace; None removes a limit."""

    name: str
    max_running: int | None
    starts_per_minute: int | None
    retention_days: int | None
