"""Workers and queues, which all workspaces share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from statewright.api.resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Resource):
    """A process that advances runs."""

    id: str
    host: str
    """The name of its machine or container."""
    pid: int
    status: Literal["live", "draining", "lost"]
    """`draining` once it was asked to stop; `lost` if its lease has expired, so that others will release its runs."""
    capacity: int
    """The maximum number of runs that it advances concurrently."""
    claimed: int
    """The number of runs that it is advancing."""
    queues: tuple[str, ...] | None
    """The queues that it serves; null for all."""
    versions: tuple[str, ...]
    """The versions of graphs that it serves, as ids of definitions."""
    started_at: datetime
    until: datetime
    """The end of its lease, which it renews while it is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(Resource):
    """A queue, with its limits and the runs of all workspaces in it."""

    name: str
    max_running: int | None
    """The maximum number of runs that all workers together advance concurrently."""
    starts_per_minute: int | None
    depth: int
    """The number of due runs that no worker has claimed."""
    oldest_due_seconds: float | None
    """The seconds for which the oldest of them has been due; null if there are none."""
    claimed: int
    """The number of runs that workers are advancing."""
    dead: int
    """The number of runs that were set aside, because worker after worker was lost while it advanced them."""
    workers: int
    """The number of live workers that serve it."""
