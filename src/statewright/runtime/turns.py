"""Runs that want one thread at the same time: who holds it, who waits, and how the holder is asked to stop.

A run marks its thread with its first write, and lets go with its last. Meanwhile another run is refused, waits its
turn, or has the holder stopped. Within one process those who wait keep their order, and a holder hears at once; in
another process it hears when it renews its lease.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Final, cast
from weakref import WeakValueDictionary

from statewright.checkpoint import Checkpointer, Hold, Lease, Line
from statewright.clock import SystemClock, Timer
from statewright.errors import CheckpointConflict, StorageError, ThreadBusy
from statewright.promise import Answered
from statewright.runtime.control import RunControl
from statewright.runtime.run import LEASE, Run
from statewright.runtime.saver_calls import resolved
from statewright.runtime.worker_threads import workers

FIRST_LOOK: Final = 0.005
LONGEST_LOOK: Final = 0.5
"""Seconds between two looks at a thread that is held: they double from the first to the longest."""

_holders: WeakValueDictionary[str, RunControl] = WeakValueDictionary()
"""The controls of the runs of this process that hold a thread, by owner."""
_queues: dict[tuple[Hashable, str], deque[Ticket]] = {}
"""Those of this process who wait for a thread, in the order in which they came."""
_lock = threading.Lock()


class Ticket:
    """A place in the line of those who wait for a thread."""

    __slots__ = ("called", "on_call")

    def __init__(self) -> None:
        self.called = threading.Event()
        """Set when it is worth a look: the one before has left the line, or the holder has let go."""
        self.on_call: Callable[[], object] | None = None
        """Called then, too; from any thread."""

    def call(self) -> None:
        self.called.set()
        if self.on_call is not None:
            self.on_call()


class Keeper:
    """Renews the hold of a run on its thread while its nodes run, and lets go if the run ends without a last write."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ended = False
        assert run.owner is not None
        assert run.control is not None
        _holders[run.owner] = run.control
        self._timer: Timer = run.clock.call_later(LEASE.total_seconds() / 3, self._due)

    def _due(self) -> None:
        """Renew the hold; not on the thread of the clock of the machine, which must not wait for a disk."""
        if type(self._run.clock) is SystemClock:
            workers.submit(self._renew)
        else:
            self._renew()

    def _renew(self) -> None:
        run = self._run
        if self._ended:
            return
        if run.claimed:
            try:
                lease: Lease | None = resolved(_saver(run).renew(_thread(run), cast(Hold, run.hold())))
                if lease is not None and lease.wanted is not None:
                    cast(RunControl, run.control).request_cancel(_wanted(lease.wanted))
            except StorageError:
                pass  # its next write is refused, and says why
        self._timer = run.clock.call_later(LEASE.total_seconds() / 3, self._due)

    def end(self) -> None:
        """The run has ended. Never waits: it may be called in a finaliser."""
        self._ended = True
        self._timer.cancel()
        run = self._run
        if run.claimed and not run.nested:
            with suppress(StorageError):  # somebody else has taken it over already
                _saver(run).renew(_thread(run), cast(Hold, run.hold(release=True)))
        call_first(run)


def _wanted(what: str) -> str:
    return f"another run took over its thread with on_busy={what!r}"


def _saver(run: Run) -> Checkpointer:
    return cast(Checkpointer, run.saver)


def _thread(run: Run) -> str:
    return cast(Line, run.line).thread_id


def _queue_key(run: Run) -> tuple[Hashable, str]:
    """Identify the thread among all threads of the process: savers of the same data and workspace share queues."""
    saver = _saver(run)
    return getattr(saver, "scope", id(saver)), _thread(run)


def may_wait(run: Run, busy: ThreadBusy | CheckpointConflict) -> bool:
    """Whether the run should try again, rather than be refused. Asks the holder to stop if the run says so."""
    if run.on_busy == "reject" or run.claimed:
        return False
    if isinstance(busy, CheckpointConflict):  # another one was quicker, and is through
        return True
    if run.on_busy in ("interrupt", "rollback"):
        resolved(_saver(run).want(_thread(run), run.on_busy))
        control = _holders.get(busy.owner)
        if control is not None:
            control.request_cancel(_wanted(run.on_busy))
    return True


@contextmanager
def in_line(run: Run) -> Generator[Ticket]:
    """While the block runs, have a place among those who wait for the thread; gives the ticket."""
    ticket, key = Ticket(), _queue_key(run)
    with _lock:
        _queues.setdefault(key, deque()).append(ticket)
    try:
        yield ticket
    finally:
        with _lock:
            queue = _queues[key]
            queue.remove(ticket)
            if not queue:
                del _queues[key]
        call_first(run)


def call_first(run: Run) -> None:
    """Let the one who is first in line for the thread look at it now."""
    with _lock:
        queue = _queues.get(_queue_key(run))
        ticket = queue[0] if queue else None
    if ticket is not None:
        ticket.call()


def is_first(run: Run, ticket: Ticket) -> bool:
    """Whether it is the turn of the one with the ticket."""
    with _lock:
        return _queues[_queue_key(run)][0] is ticket


def lease_of(run: Run) -> Answered[Lease | None]:
    """Who holds the thread now."""
    return _saver(run).lease(_thread(run))


def is_over(run: Run, lease: Lease | None) -> bool:
    """Whether a lease does not keep the run from its thread."""
    return lease is None or lease.until <= run.clock.now()


def await_turn(run: Run, ticket: Ticket) -> None:
    """Wait, on this thread, until it is the run's turn and its thread is free."""
    seconds = FIRST_LOOK
    while True:
        ticket.called.clear()
        first = is_first(run, ticket)
        if first and is_over(run, resolved(lease_of(run))):
            return
        run.clock.wait(ticket.called, seconds if first else LONGEST_LOOK)
        seconds = next_look(seconds, first=first)


def next_look(seconds: float, *, first: bool) -> float:
    """How long to wait before the next look, after a wait; who is not first is called when that changes."""
    return min(seconds * 2, LONGEST_LOOK) if first else FIRST_LOOK
