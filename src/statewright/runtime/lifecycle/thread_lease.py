"""The lease of a run on its thread, the queue of runs that wait for it, and requests to the holder to stop.

A run marks its thread with its first write, and lets go with its last. Meanwhile another run is refused, waits its
turn, or has the holder stopped. Within one process those who wait keep their order, and a holder hears at once; in
another process it hears when it renews its lease.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import closing, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from weakref import WeakMethod, WeakValueDictionary

from statewright.checkpoint import BranchKey, Checkpointer, Lease, LeaseRequest, add_holder, discard_holder, scope_of
from statewright.clock import Clock, SystemClock, Timer
from statewright.errors import LeaseLost, StorageError, ThreadBusy
from statewright.futures import LightFuture, MaybeFuture, is_future, resolve
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.config import STOPS_HOLDER
from statewright.runtime.invocation.claim import Claim, Ticket
from statewright.runtime.invocation.run import Run

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

FIRST_LOOK: Final = 0.005
LONGEST_LOOK: Final = 0.5
"""Seconds between two checks of a thread that is held: they double from the first to the longest."""
READER_PATIENCE: Final = 1.0
"""Seconds for which the reader of a run may hold a part while another run wants the thread."""

_holders: WeakValueDictionary[str, LeaseRenewer] = WeakValueDictionary()
"""The runs of this process that hold a thread, by owner."""
_queues: dict[tuple[Hashable, str], deque[Ticket]] = {}
"""The waiting runs of this process by thread, in the order of arrival."""
_lock = threading.Lock()


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
        elif is_future(released := self.end()):
            from statewright.async_futures import wait_in_any_case  # loads asyncio

            signal = await wait_in_any_case(released)
            if signal is not None:
                raise signal

    def end(self) -> MaybeFuture[object]:
        """Release the thread, unless the last write of the run has done so. Return the saver's answer, or a future.

        If that is interrupted, as by a second Ctrl-C, another thread does it: others must not wait for the lease.
        """
        try:
            return self._end()
        except BaseException:
            self._abandon()
            raise

    def _end(self) -> MaybeFuture[object]:
        run = self._run
        try:
            if (run.claimed or cast(Claim, run.claim).in_doubt) and not run.nested:
                return _saver(run).renew(
                    _thread(run), cast(LeaseRequest, run.hold(run.ports.clock.now(), release=True))
                )
        except StorageError:
            pass  # another run has taken it over, or nothing can be written: it lapses
        except Exception:  # what the run has come to is more important
            _log_failure(run, "released")
        finally:
            discard_holder(cast(str, run.owner))
            leave_queue(run)
            wake_next(run)

    def _abandon(self) -> None:
        """Have another thread release the thread of a run that was dropped, maybe in a finaliser: no lock here.

        Others need not wait for that: the run is no live holder any more, so its lease counts as lapsed.
        """
        if self._process == os.getpid():  # not the copy of a run in a forked process: it goes on in the other one
            discard_holder(cast(str, self._run.owner))
            cast(Claim, self._run.claim).release = LightFuture()
            workers.hand_over(self._end_abandoned)

    def _end_abandoned(self) -> None:
        try:
            _wait_for(self._end())
        finally:
            cast("LightFuture[None]", cast(Claim, self._run.claim).release).set_result(None)


class LeaseRenewer(Holding):
    """Renews the lease of a run on its thread while its nodes run.

    A context manager around the driving of the run. A run that is read by plain calls rests while its reader has a
    part, maybe for ever. If another run wants the thread then, it is let go, and what this one still writes is refused.
    """

    def __init__(self, run: Run, loop: AbstractEventLoop | None = None) -> None:
        super().__init__(run)
        self.control = cast(RunControl, run.control)
        self.loop = loop
        """The event loop that drives it; None for plain calls."""
        self.is_closing = False
        """True once its stream has no reader any more, so that it will end soon."""
        self._ended = False
        self._is_wanted = False
        self._part = 0
        """The number of parts passed to the reader."""
        self._reader_has_part = False
        self._is_watched = False
        self._resting = threading.Lock()
        """Held while the reader requests the next part, and while the thread is released because it does not."""
        _holders[cast(str, run.owner)] = self
        self._set_timer()

    def hand_out(self, parts: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Pass the parts of a run to its reader."""
        with closing(parts):
            for part in parts:
                self._part += 1
                self._reader_has_part = True
                if self._is_wanted:
                    self._watch_reader()
                yield part
                with self._resting:
                    self._reader_has_part = False

    def ask_to_stop(self, what: str) -> None:
        """Cancel the run, since another one wants its thread (`on_busy`)."""
        self._is_wanted = True
        self.control.request_cancel(f"another run took over its thread with on_busy={what!r}")
        if self._reader_has_part:
            self._watch_reader()

    def _watch_reader(self) -> None:
        """Release the thread if the reader does not continue for a while; a run that continues keeps its results."""
        if self._is_watched:
            return
        self._is_watched = True
        over, part = WeakMethod(self._let_go_at), self._part
        self._run.ports.clock.call_later(
            READER_PATIENCE, _off_the_clock(self._run.ports.clock, partial(_call_if_alive, over, part))
        )

    def _let_go_at(self, part: int) -> None:
        with self._resting:
            self._is_watched = False
            if self._ended or not self._reader_has_part:
                return
            if part == self._part:
                cast(Claim, self._run.claim).is_given_up = True
                _wait_for(self.end())
            else:
                self._watch_reader()

    def _set_timer(self) -> None:
        # Weakly: a clock must not keep a run that was abandoned, or its stream would never be dropped.
        due = WeakMethod(self._renew)
        seconds = self._run.lease_duration.total_seconds() / 3
        off_the_clock = _off_the_clock(self._run.ports.clock, partial(_call_if_alive, due))
        self._timer: Timer = self._run.ports.clock.call_later(seconds, off_the_clock)

    def _renew(self) -> None:
        run = self._run
        if self._ended:
            return
        if run.claimed:
            try:
                hold = cast(LeaseRequest, run.hold(run.ports.clock.now()))
                lease: Lease | None = resolve(_saver(run).renew(_thread(run), hold))
                run.held_until = hold.until
                if lease is not None and lease.wanted is not None:
                    self.ask_to_stop(lease.wanted)
            except LeaseLost:
                run.lose_hold()  # its next write is refused, and says why
            except StorageError:
                pass  # its next write is refused, and says why
            except Exception:  # of a saver that breaks its promises: the next try may succeed
                _log_failure(run, "renewed")
        self._set_timer()

    def _end(self) -> MaybeFuture[object]:
        self._ended = True
        self._timer.cancel()
        return super()._end()

    def _abandon(self) -> None:
        self._ended = True
        super()._abandon()


def _wait_for(released: MaybeFuture[object]) -> None:
    with suppress(Exception):  # it lapses
        resolve(released)


def _log_failure(run: Run, what: str) -> None:
    import logging  # few runs need it

    logging.getLogger("statewright").exception("The lease on thread %r could not be %s.", _thread(run), what)


def _call_if_alive(method: WeakMethod[Callable[..., None]], *args: Any) -> None:
    call = method()
    if call is not None:
        call(*args)


def _off_the_clock(clock: Clock, job: Callable[[], None]) -> Callable[[], None]:
    """The job for a timer of the clock; not on the thread of the system clock, which must not wait for a disk."""
    return partial(workers.submit, job) if type(clock) is SystemClock else job


def _forget_others() -> None:
    """Reset the queues in a forked process, which has neither waiting runs nor holders."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_others)


def _saver(run: Run) -> Checkpointer:
    return cast(Checkpointer, run.saver)


def _thread(run: Run) -> str:
    return cast(BranchKey, run.line).thread_id


# -- waiting for a thread


def request_thread(run: Run, holder: str) -> MaybeFuture[object]:
    """Ask the holder of a thread to stop, if `on_busy` says so. Return the saver's answer or a future of it."""
    if run.config.on_busy not in STOPS_HOLDER:
        return None
    known = _holders.get(holder)
    if known is not None:
        known.ask_to_stop(run.config.on_busy)
    return _saver(run).want(_thread(run), run.config.on_busy)


def note_closing(owners: Iterable[str]) -> None:
    """Record that some runs have no reader any more and are about to be cancelled. Finalisers may call this."""
    for owner in owners:
        known = _holders.get(owner)
        if known is not None:
            known.is_closing = True


def is_closing(holder: str) -> bool:
    """True if the holder of a thread is a run without a reader: others wait for its end, whatever their `on_busy`."""
    known = _holders.get(holder)
    return known is not None and known.is_closing


def _check_not_in_the_way(run: Run, holder: str) -> None:
    """Raise ThreadBusy if the holder could not end while this thread waits for it: it is driven here."""
    known = _holders.get(holder)
    if known is None or known.loop is None:
        return
    import asyncio  # loaded already

    with suppress(RuntimeError):  # no loop runs here
        if asyncio.get_running_loop() is known.loop and (lease := resolve(lease_of(run))) is not None:
            raise ThreadBusy(_thread(run), lease.owner, lease.until)


def enter_queue(run: Run) -> Ticket:
    """Return the place of a run among those that wait for its thread; it keeps it until `leave_queue`."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        claim.ticket = Ticket()
        with _lock:
            _queues.setdefault(_queue_key(run), deque()).append(claim.ticket)
    return claim.ticket


def leave_queue(run: Run) -> None:
    """Remove a run from the queue, if it is in it, and let the next one check the thread."""
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
    wake_next(run)


def wake_next(run: Run) -> None:
    """Let the first run in the queue for the thread check it now."""
    with _lock:
        queue = _queues.get(_queue_key(run))
        ticket = queue[0] if queue else None
    if ticket is not None:
        ticket.call()


def _queue_key(run: Run) -> tuple[Hashable, str]:
    """Identify the thread among all threads of the process."""
    return scope_of(_saver(run)), _thread(run)


def is_first(run: Run, ticket: Ticket) -> bool:
    """True if it is the turn of the run with this ticket. A run that only waits for a closing run takes no turn."""
    if run.config.on_busy == "reject":
        return True
    with _lock:
        return _queues[_queue_key(run)][0] is ticket


def lease_of(run: Run) -> MaybeFuture[Lease | None]:
    """Return the current lease on the thread, or a future of it."""
    return _saver(run).lease(_thread(run))


def is_over(run: Run, lease: Lease | None, holder: str) -> bool:
    """True if a lease does not block the run, or the run need not wait any longer for the holder that it met."""
    if lease is None or lease.has_lapsed(run.ports.clock.now()):
        return True
    return run.config.on_busy == "reject" and lease.owner != holder


def is_stopped(run: Run) -> bool:
    """Return whether a waiting run was asked to stop."""
    control = run.control
    return control is not None and (control.cancel_requested or control.drain_requested)


def await_turn(run: Run, holder: str) -> bool:
    """Wait, on this thread, until it is the run's turn and its thread is free; False if the run was stopped.

    Raises ThreadBusy if the holder cannot end while this thread waits.
    """
    _check_not_in_the_way(run, holder)
    ticket = enter_queue(run)
    resolve(request_thread(run, holder))
    seconds = FIRST_LOOK
    with run.control.calling(ticket.call) if run.control is not None else nullcontext():
        while True:
            ticket.called.clear()
            if is_stopped(run):
                return False
            first = is_first(run, ticket)
            if first and is_over(run, resolve(lease_of(run)), holder):
                return True
            run.ports.clock.wait(ticket.called, seconds if first else LONGEST_LOOK)
            seconds = next_look(seconds, first=first)


def next_look(seconds: float, *, first: bool) -> float:
    """Return the delay before the next check; a run that is not first is called when that changes."""
    return min(seconds * 2, LONGEST_LOOK) if first else FIRST_LOOK
