"""Leases of threads: the right of one run to advance a thread, for a time.

A run claims its thread with its first write and extends the lease with each further one, so a thread whose run has
died becomes free when the lease lapses. A run whose lease lapsed may still write, until another run has claimed the
thread.

The *epoch* of a thread guards against a claim that is based on old data. It grows with each change of the holder, and
with each write that names no holder. A run loads the thread together with its epoch and claims it later; if the epochs
differ, another run has worked on the thread in between, and the claim is refused.

*Holders.* Each run holds its thread under a unique owner name. The name ends with the process that generated it
(`name@host.pid.start.nonce`), so the lease of a killed holder need not be waited for: on the same host it can be seen
that the process has ended, and within one process the set of live holders shows which runs have ended without a last
write (the disk was full, the stream was dropped). A name without a process is trusted until its lease lapses.

Every saver stores the lease in its own way, and applies the rules of this module to it.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidConfig, LeaseLost, ThreadBusy
from statewright.process_identity import host_key, is_process_gone, started_at


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


class LeasedThread:
    """A thread as a saver keeps it: its epoch, and its holder with the end of the lease."""

    def __init__(
        self, epoch: int = 0, owner: str | None = None, until: datetime | None = None, wanted: str | None = None
    ) -> None:
        self.epoch = epoch
        self.owner = owner
        self.until = until
        self.wanted = wanted

    @property
    def lease(self) -> Lease | None:
        """The lease of the holder, which may have lapsed; None without a holder."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.owner, self.epoch, self.until, self.wanted)

    def apply(self, request: LeaseRequest | None) -> bool:
        """Claim, keep or release the thread. Return whether the write begins a new epoch.

        It does if it claims the thread, releases it, revives a lapsed lease, or names no holder (None).
        """
        if request is None:
            self.epoch += 1
            return True
        until = request.until
        is_new = self.owner != request.owner or until is None
        if is_new:
            self.owner, self.wanted = None if until is None else request.owner, None
        elif self.until is not None and self.until <= request.now:
            is_new = True
        self.until = until
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


# -- holders

_live: Final[set[str]] = set()
"""The owners of this process whose runs have not ended. `add` and `discard` are atomic, so finalisers may call them."""
_process: tuple[int, str] = (0, "")
"""The process id and the suffix of owner names for it; both change in a forked child."""


def new_owner(name: str) -> str:
    """Return an owner name for a run of this process; `name` must be unique."""
    return f"{name}@{_process_key()}"


def short_owner(owner: str) -> str:
    """Return the name of an owner without its process, for messages."""
    return owner.rpartition("@")[0] or owner


def owner_name(run_id: str, unique_id: str) -> str:
    """Return a name for a run as a holder; `unique_id` distinguishes it from other holders with the same run id."""
    return new_owner(run_id if run_id == unique_id else f"{run_id}/{unique_id}")


def run_of(owner: str) -> str:
    """Return the id of the run that holds a thread under a name from `owner_name`."""
    name = short_owner(owner)
    return name.rpartition("/")[0] or name


def add_holder(owner: str) -> None:
    """Record that a run of this process may hold a thread from now on."""
    _live.add(owner)


def discard_holder(owner: str) -> None:
    """Record that a run of this process has ended, which voids its lease. May be called by a finaliser."""
    _live.discard(owner)


def is_holder_gone(owner: str) -> bool:
    """Return whether a holder certainly does not exist any more, so that its lease need not be waited for."""
    name, _, process = owner.rpartition("@")
    if not name:
        return False
    if process == _process_key():
        return owner not in _live
    host, pid, started, _ = process.split(".")
    return is_process_gone(host, int(pid), started)


def _process_key() -> str:
    global _process
    pid = os.getpid()
    if _process[0] != pid:
        _live.clear()  # in a forked child, whose parent still has these runs
        # The nonce distinguishes processes with the same id where the kernel does not report their start times.
        _process = pid, f"{host_key()}.{pid}.{started_at(pid) or ''}.{os.urandom(4).hex()}"
    return _process[1]


def checked_lease(lease: Duration | None) -> timedelta | None:
    """Return the duration of a lease. Raises InvalidConfig for one that is not positive."""
    if lease is None:
        return None
    seconds = as_seconds(lease)
    if not seconds > 0:
        raise InvalidConfig(f"lease= is {lease!r}. Give a time greater than zero, in seconds or as a timedelta.")
    return timedelta(seconds=seconds)
