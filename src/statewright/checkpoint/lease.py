"""Leases of threads: the right of one run to advance a thread, for a time.

A run claims its thread with its first write and extends the lease with each further one, so a thread whose run has
died becomes free when the lease lapses, or at once if the process of the run is known to be gone (`holders.py`). A run
whose lease lapsed may still write, until another run has claimed the thread.

The *epoch* of a thread guards against a claim that is based on old data. It grows with each change of the holder, and
with each write that names no holder. A run loads the thread together with its epoch and claims it later; if the epochs
differ, another run has worked on the thread in between, and the claim is refused.

Every saver stores the lease in its own way, and applies the rules of this module to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from statewright.checkpoint.holders import is_holder_gone
from statewright.errors import LeaseLost, ThreadBusy


class LeaseRequest(NamedTuple):
    """The lease part of a write: the write happens only if the run may hold the thread."""

    owner: str
    now: datetime
    until: datetime | None
    """The new end of the lease; None releases the thread with this write."""
    claims: bool = False
    """True if the run may claim the thread with this write. Otherwise it must still hold it."""
    expected_epoch: int | None = None
    """With a claim: the epoch that the thread had when the run loaded it, or the claim is refused. None accepts any."""


class Lease(NamedTuple):
    """The right of one run to advance a thread, for a time."""

    owner: str
    epoch: int
    """Counts the changes of holder: each claim, each release, each revival of a lapsed lease, and each write that
    names no holder. Between two loads of equal epochs only a live holder can have written."""
    until: datetime
    wanted: str | None = None
    """The request of another run to the owner: `interrupt` or `rollback`."""

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether another run may claim the thread: the time is over, or the holder does not exist any more."""
        return self.until <= now or is_holder_gone(self.owner)


@dataclass(slots=True)
class LeasedThread:
    """A thread as a saver keeps it: its holder, with a lease, and its epoch."""

    epoch: int = 0
    owner: str | None = None
    """The holder; None if there is none."""
    until: datetime | None = None
    wanted: str | None = None

    @property
    def lease(self) -> Lease | None:
        """The lease of the holder, which may have lapsed; None without a holder."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.owner, self.epoch, self.until, self.wanted)

    def take(self, request: LeaseRequest | None) -> bool:
        """Claim, keep or release the thread. Return whether the write begins a new epoch.

        It does if it claims the thread, releases it, revives a lapsed lease, or names no holder (None).
        """
        if request is None:
            self.epoch += 1
            return True
        is_holder, has_lapsed = self.owner == request.owner, self.until is not None and self.until <= request.now
        is_release = request.until is None
        if is_release or not is_holder:
            self.wanted = None
        self.owner, self.until = None if is_release else request.owner, request.until
        is_new = is_release or has_lapsed or not is_holder
        self.epoch += is_new
        return is_new


def check_lease(thread: LeasedThread | None, thread_id: str, request: LeaseRequest | None) -> None:
    """Raise ThreadBusy or LeaseLost if a request conflicts with the lease of a thread. None is a new thread."""
    if request is None or (thread is not None and thread.owner == request.owner):
        return
    lease = thread.lease if thread is not None else None
    if not request.claims:
        raise LeaseLost(thread_id, request.owner, lease.owner if lease is not None else None)
    if lease is not None and not lease.has_lapsed(request.now):
        raise ThreadBusy(thread_id, lease.owner, lease.until)


def has_moved(thread: LeasedThread | None, request: LeaseRequest | None) -> bool:
    """Return whether a thread has changed since the load on which a claim is based."""
    if request is None or not request.claims or request.expected_epoch is None:
        return False
    return thread is None or thread.epoch != request.expected_epoch
