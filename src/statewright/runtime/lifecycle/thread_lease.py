"""The lease of a run on its thread, the queue of runs that wait for it, and requests to the holder to stop.

A run claims its thread with its first write, and releases it with its last. Meanwhile another run is refused, waits for
its turn, or has the holder stopped (`on_busy`). The queue and the immediate request to stop exist within one process; a
holder in another process sees the request when it renews its lease, and waiting runs poll the lease.

A run may be dropped anywhere, by a generator that is not exhausted or a second Ctrl-C, and its thread must be free
nevertheless: `Holding` releases it, on another thread if necessary. If even that fails, the lease expires.
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

FIRST_POLL: Final = 0.005
LONGEST_POLL: Final = 0.5
"""Seconds between two checks of a thread that is held: they double from the first to the longest."""
READER_PATIENCE: Final = 1.0
"""Seconds for which the reader of a stream may suspend its run while another run wants the thread."""

_holders: WeakValueDictionary[str, LeaseRenewer] = WeakValueDictionary()
"""The runs of this process that hold a thread, by owner."""
_queues: dict[tuple[Hashable, str], deque[Ticket]] = {}
"""The waiting runs of this process by thread, in the order of arrival."""
_lock = threading.Lock()


class Holding:
    """The period in which a run may hold its thread; a context manager around all writes of the run.

    Other runs regard it as a live holder, and its thread is released if the run ends without a last write.
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

        If this is interrupted, for example by a second Ctrl-C, a worker thread completes it, so that other runs need
        not wait for the lease to expire.
        """
        try:
            return self._end()
        except BaseException:
            self._abandon()
            raise

    def _end(self) -> MaybeFuture[object]:
        run = self._run
        try:
            if (run.claimed or cast(Claim, run.claim).is_in_doubt) and not run.nested:
                return _saver(run).renew(
                    _thread(run), cast(LeaseRequest, run.hold(run.ports.clock.now(), release=True))
                )
        except StorageError:
            pass  # another run has taken it over, or nothing can be written: the lease expires
        except Exception:  # of the saver: the outcome of the run is more important
            _log_failure(run, "released")
        finally:
            discard_holder(cast(str, run.owner))
            leave_queue(run)
            wake_next(run)

    def _abandon(self) -> None:
        """Have a worker thread release the thread of a dropped run. Finalisers may call this: it takes no lock.

        Other runs need not wait for it: without a live holder the lease counts as expired.
        """
        if self._process == os.getpid():  # not for the copy of a run in a forked process: it continues in the parent
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

    A context manager around the execution of the run. A run that is read by plain calls is suspended while its reader
    processes a part, maybe for ever. If another run wants the thread then, it is released, and later writes of the
    suspended run are refused.
    """

    def __init__(self, run: Run, loop: AbstractEventLoop | None = None) -> None:
        super().__init__(run)
        self.control = cast(RunControl, run.control)
        self.loop = loop
        """The event loop that drives the run; None for plain calls."""
        self.is_closing = False
        """True once the stream has lost its reader, so that the run will end soon."""
        self._ended = False
        self._is_wanted = False
        """True once another run wants the thread."""
        self._part_count = 0
        """The number of parts passed to the reader."""
        self._reader_has_part = False
        self._is_watching_reader = False
        """True while a timer is set that checks whether the reader continues."""
        self._reader_lock = threading.Lock()
        """Held when the reader requests the next part, and while the thread is released because it does not."""
        _holders[cast(str, run.owner)] = self
        self._set_timer()

    def hand_out(self, parts: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Pass the parts of a run to its reader."""
        with closing(parts):
            for part in parts:
                self._part_count += 1
                self._reader_has_part = True
                if self._is_wanted:
                    self._watch_reader()
                yield part
                with self._reader_lock:
                    self._reader_has_part = False

    def ask_to_stop(self, on_busy: str) -> None:
        """Cancel the run, since another one wants its thread."""
        self._is_wanted = True
        self.control.request_cancel(f"another run took over its thread with on_busy={on_busy!r}")
        if self._reader_has_part:
            self._watch_reader()

    def _watch_reader(self) -> None:
        """Release the thread unless the reader continues in time; then the run stops by itself, with its results."""
        if self._is_watching_reader:
            return
        self._is_watching_reader = True
        release, part_count = WeakMethod(self._release_unless_read), self._part_count
        self._run.ports.clock.call_later(
            READER_PATIENCE, _off_the_clock(self._run.ports.clock, partial(_call_if_alive, release, part_count))
        )

    def _release_unless_read(self, part_count: int) -> None:
        """Release the thread if the reader still has the part with this number."""
        with self._reader_lock:
            self._is_watching_reader = False
            if self._ended or not self._reader_has_part:
                return
            if part_count == self._part_count:
                cast(Claim, self._run.claim).is_given_up = True
                _wait_for(self.end())
            else:
                self._watch_reader()

    def _set_timer(self) -> None:
        # A weak reference: the clock must not keep an abandoned run alive, or its stream would never be dropped.
        renew = _off_the_clock(self._run.ports.clock, partial(_call_if_alive, WeakMethod(self._renew)))
        seconds = self._run.lease_duration.total_seconds() / 3
        self._timer: Timer = self._run.ports.clock.call_later(seconds, renew)

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
                run.lose_hold()  # its next write is refused with this error
            except StorageError:
                pass  # its next write fails with this error, or the next renewal succeeds
            except Exception:  # of a saver that violates its port: the next renewal may succeed
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
    with suppress(Exception):  # the lease expires
        resolve(released)


def _log_failure(run: Run, action: str) -> None:
    import logging  # few runs need it

    logging.getLogger("statewright").exception("The lease on thread %r could not be %s.", _thread(run), action)


def _call_if_alive(method: WeakMethod[Callable[..., None]], *args: Any) -> None:
    call = method()
    if call is not None:
        call(*args)


def _off_the_clock(clock: Clock, job: Callable[[], None]) -> Callable[[], None]:
    """Return the job for a timer. The thread of the system clock must not wait for a disk, so it only submits it."""
    return partial(workers.submit, job) if type(clock) is SystemClock else job


def _reset_after_fork() -> None:
    """Clear the queues in a forked process, which has no waiting runs."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _saver(run: Run) -> Checkpointer:
    return cast(Checkpointer, run.saver)


def _thread(run: Run) -> str:
    return cast(BranchKey, run.line).thread_id


# -- waiting for a thread


def request_thread(run: Run, holder: str) -> MaybeFuture[object]:
    """Ask the holder of a thread to stop, if `on_busy` says so. Return the saver's answer or a future of it."""
    if run.config.on_busy not in STOPS_HOLDER:
        return None
    renewer = _holders.get(holder)
    if renewer is not None:
        renewer.ask_to_stop(run.config.on_busy)
    return _saver(run).want(_thread(run), run.config.on_busy)


def note_closing(owners: Iterable[str]) -> None:
    """Record that runs have lost their reader and are about to be cancelled. Finalisers may call this."""
    for owner in owners:
        renewer = _holders.get(owner)
        if renewer is not None:
            renewer.is_closing = True


def is_closing(holder: str) -> bool:
    """Return True if the holder has lost its reader: others wait for its end, whatever their `on_busy`."""
    renewer = _holders.get(holder)
    return renewer is not None and renewer.is_closing


def _check_can_end(run: Run, holder: str) -> None:
    """Raise ThreadBusy if the holder is driven by the event loop of this thread, and could not end while it waits."""
    renewer = _holders.get(holder)
    if renewer is None or renewer.loop is None:
        return
    import asyncio  # loaded already

    with suppress(RuntimeError):  # no loop is running on this thread
        if asyncio.get_running_loop() is renewer.loop and (lease := resolve(lease_of(run))) is not None:
            raise ThreadBusy(_thread(run), lease.owner, lease.until)


def enter_queue(run: Run) -> Ticket:
    """Return the ticket of a run in the queue for its thread. It keeps its position until `leave_queue`."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        claim.ticket = Ticket()
        with _lock:
            _queues.setdefault(_queue_key(run), deque()).append(claim.ticket)
    return claim.ticket


def leave_queue(run: Run) -> None:
    """Remove a run from the queue for its thread, if it is in it, and let the next one check the thread."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        return
    with _lock:
        queue = _queues.get(_queue_key(run))
        if queue is not None and claim.ticket in queue:  # unless an interrupted call has removed it
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
    """Return True if it is the turn of this run. With on_busy="reject" it waits for a closing run only, out of turn."""
    if run.config.on_busy == "reject":
        return True
    with _lock:
        return _queues[_queue_key(run)][0] is ticket


def lease_of(run: Run) -> MaybeFuture[Lease | None]:
    """Return the current lease on the thread, or a future of it."""
    return _saver(run).lease(_thread(run))


def is_over(run: Run, lease: Lease | None, holder: str) -> bool:
    """Return True if a lease does not block the run, or if the run waits only for `holder`, which has released it."""
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
    _check_can_end(run, holder)
    ticket = enter_queue(run)
    resolve(request_thread(run, holder))
    seconds = FIRST_POLL
    with run.control.calling(ticket.call) if run.control is not None else nullcontext():
        while True:
            ticket.called.clear()
            if is_stopped(run):
                return False
            first = is_first(run, ticket)
            if first and is_over(run, resolve(lease_of(run)), holder):
                return True
            run.ports.clock.wait(ticket.called, seconds if first else LONGEST_POLL)
            seconds = next_poll(seconds, first=first)


def next_poll(seconds: float, *, first: bool) -> float:
    """Return the delay before the next check. A run that is not first is woken when it becomes so."""
    return min(seconds * 2, LONGEST_POLL) if first else FIRST_POLL
