"""Who does the work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Record


@dataclass(slots=True, kw_only=True)
class Worker(Record):
    """A process that takes runs and advances them."""

    TABLE: ClassVar[str] = "workers"

    place: str
    """Where its process number means something: the machine, as it was started last, and the container on it."""
    pid: int
    process_started: str
    """When the process began, as the machine counts it: a number of a process may be given again."""
    capacity: int
    until: datetime
    """After this instant the worker counts as gone, and its runs are anybody's. It puts that off while it lives."""
    started_at: datetime
