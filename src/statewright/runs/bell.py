"""The port of the bell, by which the processes of a service notify each other that there is something to read.

The records of a ledger are the source of truth, and each process polls them. A bell only makes the others poll at once.
It may ring too often or not at all, and a ring contains no more than the kind of the change.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol


class Ring(StrEnum):
    """The kinds of changes that other processes are notified of."""

    DUE = "due"
    """Runs that may be claimed."""
    EVENTS = "events"
    """Events of runs."""


class Bell(Protocol):
    """Connects the processes that share a ledger."""

    def ring(self, kind: Ring) -> None:
        """Notify other processes, at once or in some tens of milliseconds. Returns without waiting; thread-safe."""
        ...

    def listen(self, callback: Callable[[Ring], object]) -> Callable[[], None]:
        """Call a function on another thread whenever another process rings. Returns a function that ends that."""
        ...
