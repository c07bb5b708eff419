"""Schedules and triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.client.records.record import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Shown):
    """Runs started by the clock."""

    id: str
    name: str
    graph: str
    definition_id: str | None
    cron: str
    timezone: str
    input: Any
    overlap: str
    catch_up: str
    paused: bool
    next_at: datetime | None
    last_at: datetime | None
    last_run_id: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    created_at: datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Shown):
    """Runs started by events."""

    id: str
    event: str
    graph: str
    definition_id: str | None
    match: Mapping[str, Any]
    active: bool
    created_at: datetime
