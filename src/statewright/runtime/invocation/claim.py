"""A run's claim on its thread.

A run loads its thread, decides where to start, and claims the thread with its first write. Anything may happen
between the load and the claim: another run may begin and end, a question may be answered, a journal entry may be saved.
So the claim names the *epoch* that was loaded, which counts the changes of holder, and a saver refuses a claim with an
outdated epoch. No node has run by then, so the run loads the thread again and starts over (`lifecycle.turn.take_turn`).

The epoch is not enough if another run holds the thread when it is loaded. The holder continues to write without
changing the epoch, and its lease may expire just before the claim arrives, which would then be accepted. So the thread
is regarded as busy if the holder's lease had not expired just *before* the load. A holder that is found dead may have
written after the load, and have died since. So the thread is loaded again, after its death.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from statewright.checkpoint import SavedCheckpoint, is_holder_gone
from statewright.errors import ThreadBusy
from statewright.futures import LightFuture, SafeEvent

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Ticket:
    """The position of a run in the queue for a thread."""

    __slots__ = ("loop", "on_wake", "woken")

    def __init__(self, loop: AbstractEventLoop | None = None) -> None:
        self.loop = loop
        """The event loop on which the run waits; None if it blocks an OS thread."""
        self.woken = SafeEvent()
        """Set when the thread may be free: the previous run in the queue has left, or the holder has released it."""
        self.on_wake: Callable[[], object] | None = None
        """Called when `woken` is set, on any OS thread."""

    @property
    def is_stranded(self) -> bool:
        """True if the event loop on which the run waits was closed, so that the run will never take its turn."""
        return self.loop is not None and self.loop.is_closed()

    def wake(self) -> None:
        """Wake the run that waits with this ticket. May be called from any OS thread."""
        self.woken.set()
        on_wake = self.on_wake  # read once: the run may stop waiting meanwhile
        if on_wake is not None:
            with suppress(RuntimeError):  # the event loop was closed
                on_wake()


class Claim:
    """The claim of a run on its thread. The runs of subgraphs share the claim of the root run."""

    __slots__ = (
        "dead_holder",
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
        """The duration of the lease after each write; None for the default."""
        self.loaded_at: datetime | None = None
        """The time just before the thread was last loaded."""
        self.loaded_version: tuple[str, int | None] | None = None
        """The version of the thread that was loaded last: the id of its head, and its epoch. The id is empty if the
        thread had no checkpoint."""
        self.refused_version: tuple[str, int | None] | None = None
        """The loaded version that the last refused claim was based on."""
        self.dead_holder: str | None = None
        """A holder that was found dead, so that it has not written since; None if none was."""
        self.expected_epoch: int | None = None
        """The epoch that the thread must still have when it is claimed; None if it is not checked."""
        self.is_in_doubt = False
        """True while the outcome of the claim is unknown: the write that makes it was sent, and no reply was seen."""
        self.is_made = False
        """True once the thread has been claimed: the run has begun, and can no longer start over."""
        self.is_released_early = False
        """True if the thread was released while the run was suspended. That happens if another run wants the thread,
        and the reader of the stream does not request the next part."""
        self.release: LightFuture[None] | None = None
        """Completed when a worker thread has released the thread of an abandoned run; None if it was not abandoned."""
        self.ticket: Ticket | None = None
        """The position of the run in the queue for the thread; None if the run is not in the queue."""

    def record_loaded(self, saved: SavedCheckpoint | None, owner: str) -> bool:
        """Record the version of the thread that was loaded: the next claim is refused if the version has changed.

        Return False if the thread has to be loaded again, because its holder may have written since, and has died.
        Raises ThreadBusy if a run other than `owner` holds the thread.
        """
        self.expected_epoch = saved.epoch if saved is not None else None
        self.loaded_version = (saved.id, saved.epoch) if saved is not None else ("", None)
        lease = saved.lease if saved is not None else None
        if saved is None or lease is None or lease.owner in (owner, self.dead_holder):
            return True
        if self.loaded_at is not None and lease.until <= self.loaded_at:
            return True
        if not is_holder_gone(lease.owner):
            raise ThreadBusy(saved.branch_key.thread_id, lease.owner, lease.until)
        self.dead_holder = lease.owner
        return False
