"""Schedules, triggers, and received events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Json, Record


@dataclass(slots=True, kw_only=True)
class Schedule(Record):
    """Starts a run of a graph at the times of a cron expression."""

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
    """If its last run has not ended: `skip` this one, `enqueue` it after that, `allow` both, or `cancel` the other."""
    catch_up: str = "last"
    """The missed times, while no service ran, that start runs later: `none`, the `last` one, or `all` (at most 100)."""
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
    """Starts a run of a graph for each event of a name."""

    TABLE: ClassVar[str] = "triggers"

    workspace_id: str
    event: str
    graph: str
    definition_id: str | None = None
    match: Json = field(default_factory=dict[str, object])
    """Required values of the payload by dotted path; empty matches everything."""
    active: bool = True
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class ReceivedEvent(Record):
    """An event that a workspace has received, and its effects. A second one with the same key is ignored."""

    TABLE: ClassVar[str] = "received_events"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "key"),)

    workspace_id: str
    name: str
    payload: Json = None
    key: str | None = None
    started: Json = field(default_factory=list[str])
    """The runs that it has started."""
    woken: Json = field(default_factory=list[str])
    """The runs that it has woken."""
    created_at: datetime
