"""Leases on threads. A lease is the right of one run to advance a thread for a limited time.

A run claims its thread with its first write, and each further write extends the lease. If the run dies, the thread
becomes free when the lease expires. A run whose lease has expired may continue to write until another run has claimed
the thread.

The *epoch* of a thread prevents claims that are based on old data. It is a counter that grows whenever the holder
changes, and with each write that names no holder. A run loads a thread together with its epoch and claims the thread
later. If the epoch has changed in between, another run has worked on the thread, and the claim is refused.

*Holders.* Each run holds its thread under a unique owner name, which ends with the identity of its process
(`name@host.pid.start.nonce`). Other runs therefore need not wait for the lease of a holder that no longer exists. On
the same host they can find out whether its process has ended. In the same process, the set of active holders shows
which runs have ended without releasing their threads, for example because the disk was full or a stream was dropped. A
holder whose name contains no process is assumed to exist until its lease expires.

Each saver stores leases in its own way, and applies the rules of this module to them.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidConfig, LeaseLost, ThreadBusy
from statewright.process_identity import host_key, is_process_gone, started_at


class LeaseRequest(NamedTuple):
    """A condition of a write, and its effect on the lease: the write is made only if the run may hold the thread."""

    owner: str
    now: datetime
    until: datetime | None
    """The new end of the lease; None releases the thread with this write."""
    claims: bool = False
    """True if the run may claim the thread with this write. If False, it must already hold the thread."""
    expected_epoch: int | None = None
    """For a claim: the epoch of the thread when the run loaded it. If it has changed, the claim is refused. None if the
    claim does not depend on loaded data."""


class Lease(NamedTuple):
    """The right of one run to advance a thread for a limited time."""

    owner: str
    epoch: int
    """The number of claims, releases, renewals of expired leases, and writes that named no holder. If two loads of the
    thread have the same epoch, only a holder with a valid lease can have written in between."""
    until: datetime
    wanted: str | None = None
    """The request of another run to the owner: `interrupt` or `rollback`; None if there is none."""

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether another run may claim the thread, because the lease has expired or its holder has ended."""
        return self.until <= now or is_holder_gone(self.owner)


class LeasedThread:
    """The state of a thread's lease, as a saver stores it: the epoch, the holder and the end of the lease."""

    def __init__(
        self, epoch: int = 0, owner: str | None = None, until: datetime | None = None, wanted: str | None = None
    ) -> None:
        self.epoch = epoch
        self.owner = owner
        self.until = until
        self.wanted = wanted

    @property
    def lease(self) -> Lease | None:
        """The lease of the holder, which may have expired; None if there is no holder."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.owner, self.epoch, self.until, self.wanted)

    def apply(self, request: LeaseRequest | None) -> bool:
        """Apply the lease request of a write that is permitted, and return whether the write begins a new epoch.

        It does if it claims the thread, releases it, renews an expired lease, or names no holder (`request` is None).
        """
        if request is None:
            self.epoch += 1
            return True
        until = request.until
        is_new_epoch = self.owner != request.owner or until is None
        if is_new_epoch:
            self.owner, self.wanted = None if until is None else request.owner, None
        elif self.until is not None and self.until <= request.now:
            is_new_epoch = True
        self.until = until
        self.epoch += is_new_epoch
        return is_new_epoch


def check_lease(thread: LeasedThread | None, thread_id: str, request: LeaseRequest | None) -> None:
    """Raise ThreadBusy or LeaseLost if a request conflicts with the lease on a thread. A new thread is None.

    A write without a request (None) is always permitted.
    """
    if request is None or (thread is not None and thread.owner == request.owner):
        return
    lease = thread.lease if thread is not None else None
    if not request.claims:
        raise LeaseLost(thread_id, request.owner, lease.owner if lease is not None else None)
    if lease is not None and not lease.has_lapsed(request.now):
        raise ThreadBusy(thread_id, lease.owner, lease.until)


def is_claim_outdated(thread: LeasedThread | None, request: LeaseRequest | None, *, is_head: bool = True) -> bool:
    """Return whether a request claims a thread that has changed since it was loaded. A new thread is None.

    `is_head` is whether the write adds results to the head of its branch. If a claim adds them to an earlier
    checkpoint, a commit of the previous holder has come after the load, which does not change the epoch: for example,
    one that was in flight when the holder was abandoned.
    """
    if request is None or not request.claims or request.expected_epoch is None:
        return False
    return not is_head or thread is None or thread.epoch != request.expected_epoch


# -- holders

_active_owners: Final[set[str]] = set()
"""The owner names of runs of this process that have not ended. Finalisers may use its `add` and `discard`, because
these are atomic."""
_process: tuple[int, str] = (0, "")
"""The id of this process, and the suffix of its owner names. A forked child process computes them again."""


def new_owner(name: str) -> str:
    """Return an owner name for a run of this process. `name` must be unique within the process."""
    return f"{name}@{_process_key()}"


def short_owner(owner: str) -> str:
    """Return an owner name without its process, for messages."""
    return owner.rpartition("@")[0] or owner


def owner_name(run_id: str, unique_id: str) -> str:
    """Return an owner name for a run. `unique_id` distinguishes it from other holders with the same run id."""
    return new_owner(run_id if run_id == unique_id else f"{run_id}/{unique_id}")


def run_of(owner: str) -> str:
    """Return the run id in an owner name that `owner_name` returned."""
    name = short_owner(owner)
    return name.rpartition("/")[0] or name


def add_holder(owner: str) -> None:
    """Record that a run of this process has started, so that its leases are valid."""
    _active_owners.add(owner)


def discard_holder(owner: str) -> None:
    """Record that a run of this process has ended, so that its leases are no longer valid.

    A finaliser may call this function.
    """
    _active_owners.discard(owner)


def is_of_this_process(owner: str) -> bool:
    """Return whether a holder is a run of this process, which may have ended."""
    return owner.endswith(f"@{_process_key()}")


def is_holder_gone(owner: str) -> bool:
    """Return whether a holder certainly no longer exists, so that its lease is no longer valid."""
    name, _, process = owner.rpartition("@")
    if not name:
        return False
    if process == _process_key():
        return owner not in _active_owners
    host, pid, started, _ = process.split(".")
    return is_process_gone(host, int(pid), started)


def _process_key() -> str:
    global _process
    pid = os.getpid()
    if _process[0] != pid:
        _active_owners.clear()  # this is a forked child: these are runs of its parent
        # Process ids are reused. The nonce distinguishes processes where the kernel does not report start times.
        _process = pid, f"{host_key()}.{pid}.{started_at(pid) or ''}.{os.urandom(4).hex()}"
    return _process[1]


def as_lease_duration(lease: Duration | None) -> timedelta | None:
    """Return a duration of leases as a timedelta; None for None. Raises InvalidConfig if it is not positive."""
    if lease is None:
        return None
    seconds = as_seconds(lease)
    if not seconds > 0:
        raise InvalidConfig(f"lease= is {lease!r}. Pass a duration above 0, in seconds or as a timedelta.")
    return timedelta(seconds=seconds)
