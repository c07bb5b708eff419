"""The right of a run to its thread, from the load to the last write.

A run loads its thread, decides where to start, and claims the thread with its first write. Anything may happen
between the load and the claim: another run may begin and end, an answer may be given, a journal entry may be saved.
So the claim names the *epoch* that was loaded, which counts every change of holder, and a saver refuses a claim whose
epoch is not the thread's. Nothing has run then, and the run starts over from what it finds (`lifecycle.take_turn`).

An epoch alone is not enough where a live holder was met at the load: it goes on writing under its epoch, and its
lease may lapse before the claim arrives. Such a thread counts as busy at once, judged by the clock *before* the load.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from statewright.checkpoint import Lease, SavedCheckpoint
from statewright.errors import ThreadBusy
from statewright.futures import LightFuture

if TYPE_CHECKING:
    from statewright.runtime.lifecycle.thread_lease import Ticket


class Claim:
    """What a run knows of its right to a thread. Runs nested in it share it."""

    __slots__ = (
        "expected_epoch",
        "in_doubt",
        "is_given_up",
        "is_made",
        "lease_duration",
        "loaded_at",
        "loaded_key",
        "refused_key",
        "release",
        "ticket",
    )

    def __init__(self, lease_duration: timedelta | None = None) -> None:
        self.lease_duration = lease_duration
        """How long the run holds the thread after each write; the default of the library if None."""
        self.loaded_at: datetime | None = None
        """The instant before the thread was loaded last."""
        self.loaded_key: tuple[str, int | None] | None = None
        """The head and the epoch that were loaded last."""
        self.refused_key: tuple[str, int | None] | None = None
        """What was loaded when a claim was refused last."""
        self.expected_epoch: int | None = None
        """The epoch that the thread must still have when it is claimed; None if the saver counts none."""
        self.in_doubt = False
        """Whether a claim was sent whose outcome is not known: an interrupted write may have happened."""
        self.is_made = False
        """Whether the thread was claimed: the run has begun, and what it raises from then on is its own."""
        self.is_given_up = False
        """Whether the run was cancelled while its reader had a part, and has let go of its thread."""
        self.release: LightFuture[None] | None = None
        """That another thread releases the thread of a run that was dropped."""
        self.ticket: Ticket | None = None
        """Its place in the queue for the thread, once it has met a holder."""

    def note_loaded(self, saved: SavedCheckpoint | None, owner: str) -> None:
        """Note what the next claim must find unchanged. Raises ThreadBusy if another run held the thread."""
        self.expected_epoch = saved.epoch if saved is not None else None
        self.loaded_key = (saved.id, saved.epoch) if saved is not None else ("", None)
        lease = saved.lease if saved is not None else None
        if saved is not None and lease is not None and self._is_live(lease, owner):
            raise ThreadBusy(saved.line.thread_id, lease.owner, lease.until)

    def _is_live(self, lease: Lease, owner: str) -> bool:
        return lease.owner != owner and (self.loaded_at is None or not lease.has_lapsed(self.loaded_at))
