"""The right of a run to its thread, from the load to the last write.

A run loads its thread, decides where to start, and claims the thread with its first write. Anything may happen
between the load and the claim: another run may begin and end, a question may be answered, a journal entry may be saved.
So the claim names the *epoch* that was loaded, which counts every change of holder, and a saver refuses a claim with
an outdated epoch. No node has run by then, so the run loads the thread again and starts over (`lifecycle.take_turn`).

An epoch alone is not enough if the thread has a live holder when it is loaded: the holder continues to write under its
epoch, and its lease may lapse before the claim arrives. Such a thread counts as busy immediately; whether its lease is
live is judged by the time *before* the load.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from statewright.checkpoint import Lease, SavedCheckpoint
from statewright.errors import ThreadBusy
from statewright.futures import LightFuture, SafeEvent


class Ticket:
    """The position of a run in the queue for a thread."""

    __slots__ = ("on_wake", "woken")

    def __init__(self) -> None:
        self.woken = SafeEvent()
        """Set when the thread may be free: the run before has left the queue, or the holder has released the thread."""
        self.on_wake: Callable[[], object] | None = None
        """Called when `woken` is set, from any thread."""

    def wake(self) -> None:
        """Wake the run that waits with this ticket. Called from any thread."""
        self.woken.set()
        if self.on_wake is not None:
            self.on_wake()


class Claim:
    """The claim of a run on its thread. Nested runs share it."""

    __slots__ = (
        "expected_epoch",
        "is_in_doubt",
        "is_made",
        "is_released_early",
        "lease_duration",
        "loaded_at",
        "loaded_version",
        "refused_version",
        "release",
        "ticket",
    )

    def __init__(self, lease_duration: timedelta | None = None) -> None:
        self.lease_duration = lease_duration
        """The lease duration after each write; None for the default."""
        self.loaded_at: datetime | None = None
        """The time just before the thread was last loaded."""
        self.loaded_version: tuple[str, int | None] | None = None
        """The version of the thread that was loaded last: the id of its head, and its epoch."""
        self.refused_version: tuple[str, int | None] | None = None
        """The loaded version on which the last refused claim was based."""
        self.expected_epoch: int | None = None
        """The epoch that the thread must still have when it is claimed; None if it is not checked."""
        self.is_in_doubt = False
        """True if the outcome of a claim is unknown: an interrupted write may have happened."""
        self.is_made = False
        """True once the thread has been claimed: the run has begun, and its errors are no longer conflicts."""
        self.is_released_early = False
        """True if the run was cancelled while its reader had a part of the stream, and its thread was released then."""
        self.release: LightFuture[None] | None = None
        """Completed when a worker thread has released the thread of an abandoned run."""
        self.ticket: Ticket | None = None
        """The position of the run in the queue for the thread; None unless the thread was busy."""

    def record_loaded(self, saved: SavedCheckpoint | None, owner: str) -> None:
        """Record the version that the next claim depends on. Raises ThreadBusy if another run holds the thread."""
        self.expected_epoch = saved.epoch if saved is not None else None
        self.loaded_version = (saved.id, saved.epoch) if saved is not None else ("", None)
        lease = saved.lease if saved is not None else None
        if saved is not None and lease is not None and self._is_live(lease, owner):
            raise ThreadBusy(saved.branch_key.thread_id, lease.owner, lease.until)

    def _is_live(self, lease: Lease, owner: str) -> bool:
        return lease.owner != owner and (self.loaded_at is None or not lease.has_lapsed(self.loaded_at))
