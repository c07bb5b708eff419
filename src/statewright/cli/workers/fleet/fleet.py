"""The port between the supervisor of a fleet and what starts its workers: Ray, or in tests threads of one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class MemberState(Enum):
    """The stages of life of a worker of a fleet."""

    PENDING = "pending"
    """It was asked for, and waits for its resources."""
    STARTING = "starting"
    """Its process runs, and loads the project. It has claimed no run."""
    BEGINNING = "beginning"
    """It registers in the ledger, and may claim runs from now on."""
    WORKING = "working"
    """It advances runs, and its record is in the ledger."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A worker of a fleet, as it was when it was looked at."""

    id: str
    """Its id in the fleet: that of its actor. A replacement has another one."""
    state: MemberState
    worker_id: str | None = None
    """Its id in the ledger, once it is working."""
    node: str | None = None
    """The id of its node in the cluster."""
    host: str | None = None
    pid: int | None = None
    loss: str | None = None
    """Why it has ended without having drained; None if it has drained, or has not ended."""
    refused: bool = False
    """True if the loss is an error with which the worker itself has refused to start, and no failure of its process."""


class Fleet(Protocol):
    """Starts, watches and ends workers. No method blocks for long; all are called by one thread."""

    def add(self) -> str:
        """Start another worker, and return its id in the fleet. Return before it is running."""
        ...

    def poll(self) -> Sequence[Member]:
        """Return the workers in the order in which they were started. Those that have ended are returned once."""
        ...

    def kill(self, member_id: str) -> None:
        """End a worker at once, and forget it. Do nothing if it is unknown."""
        ...

    def describe_shortage(self) -> str:
        """Return what a worker needs, and what the cluster has, for a warning about workers that stay pending."""
        ...
