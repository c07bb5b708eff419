"""Runs that want one thread at the same time: who holds it, who waits, and how the holder is asked to stop.

A run marks its thread with its first write, and lets go with its last. Meanwhile another run is refused, waits its
turn, or has the holder stopped. Within one process those who wait keep their order, and a holder hears at once; in
another process it hears when it renews its lease.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Final, Self, cast
from weakref import WeakMethod, WeakValueDictionary

from statewright.checkpoint import Checkpointer, Hold, Lease, Line, add_holder, discard_holder
from statewright.clock import SystemClock, Timer
from statewright.errors import Fenced, StorageError
from statewright.promise import Answered, Promise, SafeEvent, comes_later, resolved
from statewright.runtime.claim import Claim
from statewright.runtime.config import STOPS_HOLDER
from statewright.runtime.control import RunControl
from statewright.runtime.run import Run
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
        self.called = SafeEvent()
        """Set when it is worth a look: the one before has left the line, or the holder has let go."""
        self.on_call: Callable[[], object] | None = None
        """Called then, too; from any thread."""

    def call(self) -> None:
        self.called.set()
        if self.on_call is not None:
            self.on_call()


class Holding:
    """The time in which a run may hold its thread: others count it as a holder that lives, and its thread is released
    if it ends without a last write.

    A context manager around everything that the run writes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._process = os.getpid()
        assert run.owner is not None
        add_holder(run.owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is GeneratorExit:
            self._abandon()
        else:
            _wait_for(self.end())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:
            self._abandon()
        elif comes_later(released := self.end()):
            from statewright.runtime.awaiting import wait_in_any_case  # loads asyncio

            signal = await wait_in_any_case(released)
            if signal is not None:
                raise signal

    def end(self) -> Answered[object]:
        """Release the thread, unless the last write of the run has done so; the saver's answer.

        If that is interrupted, as by a second Ctrl-C, another thread does it: others must not wait for the lease.
        """
        try:
            return self._end()
        except BaseException:
            self._abandon()
            raise

    def _end(self) -> Answered[object]:
        run = self._run
        try:
            if (run.claimed or cast(Claim, run.claim).in_doubt) and not run.nested:
                return _saver(run).renew(_thread(run), cast(Hold, run.hold(release=True)))
        except StorageError:
            pass  # another run has taken it over, or nothing can be written: it lapses
        except Exception:  # what the run has come to is more important
            _log_failure(run, "released")
        finally:
            discard_holder(cast(str, run.owner))
            leave_queue(run)
            call_first(run)

    def _abandon(self) -> None:
        """Have another thread release the thread of a run that was dropped, maybe in a finaliser: no lock here.

        Others need not wait for that: the run is no live holder any more, so its lease counts as lapsed.
        """
        if self._process == os.getpid():  # not the copy of a run in a forked process: it goes on in the other one
            discard_holder(cast(str, self._run.owner))
            cast(Claim, self._run.claim).release = Promise()
            workers.hand_over(self._end_abandoned)

    def _end_abandoned(self) -> None:
        try:
            _wait_for(self._end())
        finally:
            cast("Promise[None]", cast(Claim, self._run.claim).release).set_result(None)


class LeaseRenewer(Holding):
    """Renews the lease of a run on its thread while its nodes run.

    A context manager around the driving of the run.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._ended = False
        assert run.owner is not None
        assert run.control is not None
        _holders[run.owner] = run.control
        self._set_timer()

    def _set_timer(self) -> None:
        # Weakly: a clock must not keep a run that was abandoned, or its stream would never be dropped.
        due = WeakMethod(self._due)
        seconds = self._run.lease_duration.total_seconds() / 3
        self._timer: Timer = self._run.clock.call_later(seconds, lambda: _call_if_alive(due))

    def _due(self) -> None:
        """Renew the lease; not on the thread of the system clock, which must not wait for a disk."""
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
                hold = cast(Hold, run.hold())
                lease: Lease | None = resolved(_saver(run).renew(_thread(run), hold))
                run.held_until = hold.until
                if lease is not None and lease.wanted is not None:
                    cast(RunControl, run.control).request_cancel(_wanted(lease.wanted))
            except Fenced:
                run.lose_hold()  # its next write is refused, and says why
            except StorageError:
                pass  # its next write is refused, and says why
            except Exception:  # of a saver that breaks its promises: the next try may succeed
                _log_failure(run, "renewed")
        self._set_timer()

    def _end(self) -> Answered[object]:
        self._ended = True
        self._timer.cancel()
        return super()._end()

    def _abandon(self) -> None:
        self._ended = True
        super()._abandon()


def _wait_for(released: Answered[object]) -> None:
    if comes_later(released):
        with suppress(Exception):  # it lapses
            released.result()


def _log_failure(run: Run, what: str) -> None:
    import logging  # few runs need it

    logging.getLogger("statewright").exception("The lease on thread %r could not be %s.", _thread(run), what)


def _call_if_alive(method: WeakMethod[Callable[[], None]]) -> None:
    call = method()
    if call is not None:
        call()


def _forget_others() -> None:
    """In a forked process there is nobody who waits, nor anybody who lets go."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_others)


def _wanted(what: str) -> str:
    return f"another run took over its thread with on_busy={what!r}"


def _saver(run: Run) -> Checkpointer:
    return cast(Checkpointer, run.saver)


def _thread(run: Run) -> str:
    return cast(Line, run.line).thread_id


# -- waiting for a thread


def request_thread(run: Run, holder: str) -> Answered[object]:
    """Ask the holder of a thread to stop, if the run says so (`on_busy`); the saver's answer."""
    if run.on_busy not in STOPS_HOLDER:
        return None
    control = _holders.get(holder)
    if control is not None:
        control.request_cancel(_wanted(run.on_busy))
    return _saver(run).want(_thread(run), run.on_busy)


def enter_queue(run: Run) -> Ticket:
    """Return the place of a run among those that wait for its thread; it keeps it until `leave_queue`."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        claim.ticket = Ticket()
        with _lock:
            _queues.setdefault(_queue_key(run), deque()).append(claim.ticket)
    return claim.ticket


def leave_queue(run: Run) -> None:
    """Give up the place of a run, if it has one, and let the next one look at the thread."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        return
    with _lock:
        queue = _queues.get(_queue_key(run))
        if queue is not None and claim.ticket in queue:  # unless an interrupted call has got as far as that
            queue.remove(claim.ticket)
            if not queue:
                del _queues[_queue_key(run)]
    claim.ticket = None
    call_first(run)


def call_first(run: Run) -> None:
    """Let the run that is first in the queue for the thread look at it now."""
    with _lock:
        queue = _queues.get(_queue_key(run))
        ticket = queue[0] if queue else None
    if ticket is not None:
        ticket.call()


def _queue_key(run: Run) -> tuple[Hashable, str]:
    """Identify the thread among all threads of the process: savers of the same data and workspace share queues."""
    saver = _saver(run)
    return getattr(saver, "scope", id(saver)), _thread(run)


def is_first(run: Run, ticket: Ticket) -> bool:
    """Whether it is the turn of the one with the ticket."""
    with _lock:
        return _queues[_queue_key(run)][0] is ticket


def lease_of(run: Run) -> Answered[Lease | None]:
    """Who holds the thread now."""
    return _saver(run).lease(_thread(run))


def is_over(run: Run, lease: Lease | None) -> bool:
    """Whether a lease does not keep the run from its thread."""
    return lease is None or lease.has_lapsed(run.clock.now())


def is_stopped(run: Run) -> bool:
    """Return whether a waiting run was asked to stop."""
    control = run.control
    return control is not None and (control.cancel_requested or control.drain_requested)


def await_turn(run: Run, holder: str) -> bool:
    """Wait, on this thread, until it is the run's turn and its thread is free; False if the run was stopped."""
    ticket = enter_queue(run)
    resolved(request_thread(run, holder))
    seconds = FIRST_LOOK
    with run.control.calling(ticket.call) if run.control is not None else nullcontext():
        while True:
            ticket.called.clear()
            if is_stopped(run):
                return False
            first = is_first(run, ticket)
            if first and is_over(run, resolved(lease_of(run))):
                return True
            run.clock.wait(ticket.called, seconds if first else LONGEST_LOOK)
            seconds = next_look(seconds, first=first)


def next_look(seconds: float, *, first: bool) -> float:
    """How long to wait before the next look, after a wait; who is not first is called when that changes."""
    return min(seconds * 2, LONGEST_LOOK) if first else FIRST_LOOK
