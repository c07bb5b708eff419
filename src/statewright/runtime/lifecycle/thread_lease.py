"""A run's lease on its thread, the queue of runs that wait for a thread, and requests to stop the run that holds it.

A run claims its thread with its first write, and releases it with its last. Meanwhile, depending on its `on_busy`,
another run is refused, waits for its turn, or requests the holder to stop. Runs of one process wait in a queue, and a
holder in the same process is notified of the request at once. A holder in another process sees the request when it
renews its lease, and the waiting runs poll the lease.

A run may be dropped at any point, because a generator is not exhausted, or by a second Ctrl-C. Its thread must be
released nevertheless. `ThreadHold` does that, on a worker thread if necessary. If even that fails, the lease expires.

A dropped run may have sent a write that has not arrived yet, for example the result of a step. Another run that loaded
the thread now would not see it, and would execute the step again. So the dropped run counts as alive until its release
has been answered. A saver performs writes in order, so that all earlier ones have arrived by then. Meanwhile other runs
wait, whatever their `on_busy`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import closing, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from weakref import WeakMethod, WeakValueDictionary

from statewright.checkpoint import (
    BranchKey,
    Checkpointer,
    Lease,
    LeaseRequest,
    add_holder,
    discard_holder,
    is_of_this_process,
    scope_of,
)
from statewright.clock import Timer, uses_system_timers
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
"""Seconds between two checks of a thread that another run holds. The delay doubles, from the first to the longest."""
READER_PATIENCE: Final = 1.0
"""Seconds for which the reader of a stream may suspend its run while another run wants the thread."""

_holds: WeakValueDictionary[str, ThreadHold] = WeakValueDictionary()
"""By owner name: the runs of this process that may hold a thread."""
_queues: dict[tuple[Hashable, str], deque[Ticket]] = {}
"""By thread (see `_queue_key`): the tickets of the runs of this process that wait for it, in order of arrival."""
_lock = threading.Lock()
"""Guards the queues."""


class ThreadHold:
    """A context manager around all writes of a run: inside the block, the run may hold its thread.

    During the block, other runs regard the run as alive, so that its lease is valid. At the end of the block the thread
    is released, unless the last write of the run has released it. Call `drop_unless_ended` after the block.
    """

    _has_ended = True
    """True while there is nothing to release: before the block, and after the release. It is a class attribute because
    `__del__` runs even if `__init__` is interrupted."""

    def __init__(self, run: Run, loop: AbstractEventLoop | None = None) -> None:
        self._run = run
        self._process = os.getpid()
        self._scope = scope_of(_saver(run))
        self.loop = loop
        """The event loop that drives the run; None if the run blocks an OS thread."""
        self.is_closing = False
        """True once the stream has lost its reader or the run was dropped, so that the run will end soon."""
        self.is_dropped = False
        """True once a worker thread has been asked to release the thread, because the run was dropped."""
        assert run.owner is not None
        self._has_ended = False
        add_holder(run.owner)
        _holds[run.owner] = self

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.drop_unless_ended()

    def drop_unless_ended(self) -> None:
        """Have the thread released if a signal handler has interrupted `__exit__` before it could guard against that.

        Called after the block. A further interruption leaves it to the finaliser.
        """
        if not (self._has_ended or self.is_dropped):
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if cls is GeneratorExit:
            self._drop()
        else:
            self.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if cls is GeneratorExit:
            self._drop()
            return
        cancellation = None
        try:
            if is_future(reply := self._send_release()):
                from statewright.async_futures import wait_uncancelled  # loads asyncio

                cancellation = await wait_uncancelled(reply)
        except BaseException:
            self._drop()
            raise
        self._end()
        if cancellation is not None:
            raise cancellation

    @property
    def is_stranded(self) -> bool:
        """True if the event loop that drives the run was closed, so that the run cannot end by itself."""
        return self.loop is not None and self.loop.is_closed()

    def ask_to_stop(self, on_busy: str) -> None:
        """Ask the run to stop, because another run with this `on_busy` wants its thread. A short change just ends."""

    def release(self) -> None:
        """Release the thread, unless the last write has released it, and wait until the saver has answered.

        If this is interrupted, for example by a second Ctrl-C, a worker thread completes it, so that other runs need
        not wait until the lease expires.
        """
        try:
            _wait_for(self._send_release())
        except BaseException:
            self._drop()
            raise
        self._end()

    def _send_release(self) -> MaybeFuture[object]:
        """Ask the saver to release the thread, if necessary. Return its reply, or a future of it."""
        run = self._run
        if run.nested or not (run.holds_thread or cast(Claim, run.claim).is_in_doubt):
            return None
        if self._process != os.getpid():  # a forked process, in which this is a copy of the parent's object
            return None
        try:
            request = cast(LeaseRequest, run.lease_request(run.ports.clock.now(), release=True))
            return _saver(run).renew(_thread_id(run), request)
        except StorageError:
            pass  # another run has taken over the thread, or nothing can be written, so that the lease will expire
        except Exception:  # a defect of the saver must not hide the outcome of the run
            _log_failure(run, "released")
        return None

    def _end(self) -> None:
        """Let other runs regard the run as ended, after its last write has been answered, and wake the next run."""
        discard_holder(cast(str, self._run.owner))
        self._has_ended = True
        leave_queue(self._run)
        wake_next(self._run)

    def _drop(self) -> None:
        """Have a worker thread release the thread of a dropped run. Takes no lock, so that finalisers may call this."""
        if self._process == os.getpid():  # see `_send_release`
            self.is_closing = True
            cast(Claim, self._run.claim).release = LightFuture()
            workers.hand_over(self._release_dropped, self._scope)
            self.is_dropped = True  # last, because until then an interruption leaves it to `__del__`

    def _release_dropped(self) -> None:
        try:
            _wait_for(self._send_release())
        finally:
            self._end()
            cast("LightFuture[None]", cast(Claim, self._run.claim).release).set_result(None)


class LeaseRenewer(ThreadHold):
    """A context manager around the execution of a run, which renews the lease on the thread while nodes are running.

    Under the sync driver, a run is suspended while the reader of its stream processes a part, which may take forever.
    If another run wants the thread meanwhile, the thread is released, and later writes of the suspended run are
    refused.
    """

    _timer: Timer | None = None
    """Calls `_renew`. It is a class attribute because `__init__` may be interrupted before it is set."""

    def __init__(self, run: Run, loop: AbstractEventLoop | None = None) -> None:
        super().__init__(run, loop)
        self.control = cast(RunControl, run.control)
        self._is_over = False
        """True once the lease is no longer renewed."""
        self._is_wanted = False
        """True once another run wants the thread."""
        self._part_count = 0
        """The number of stream parts that were passed to the reader."""
        self._reader_has_part = False
        """True while the run is suspended, because the reader has a part and has not requested the next one."""
        self._is_watching_reader = False
        """True while a timer is set that will check whether the reader has continued."""
        self._reader_lock = threading.Lock()
        """Guards `_reader_has_part`. Held while the thread is released because the reader does not continue."""
        self._set_timer()

    def yield_parts(self, parts: Generator[Any, None, None]) -> Generator[Any, None, None]:
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
        """Cancel the run, because another run with this `on_busy` wants its thread."""
        self._is_wanted = True
        self.control.request_cancel(f"another run took over its thread with on_busy={on_busy!r}")
        if self._reader_has_part:
            self._watch_reader()

    def _watch_reader(self) -> None:
        """Release the thread after READER_PATIENCE, unless the reader continues, so that the run can stop by itself."""
        if self._is_watching_reader:
            return
        self._is_watching_reader = True
        self._call_later(READER_PATIENCE, self._release_unless_read, self._part_count)

    def _release_unless_read(self, part_count: int) -> None:
        """Release the thread if the reader still has the part with this number."""
        with self._reader_lock:
            self._is_watching_reader = False
            if self._is_over or not self._reader_has_part:
                return
            if part_count == self._part_count:
                cast(Claim, self._run.claim).is_released_early = True
                self.release()
            else:
                self._watch_reader()

    def _set_timer(self) -> None:
        self._timer = self._call_later(self._run.lease_duration.total_seconds() / 3, self._renew)

    def _call_later(self, seconds: float, method: Callable[..., None], *args: Any) -> Timer:
        clock = self._run.ports.clock
        # A weak reference, because a clock that kept an abandoned run alive would prevent the drop of its stream.
        job = partial(_call_if_alive, WeakMethod(method), *args)
        # The thread of the system clock must not wait for a disk, so it only submits the job to a worker thread.
        return clock.call_later(seconds, partial(workers.submit, job) if uses_system_timers(clock) else job)

    def _renew(self) -> None:
        """Renew the lease, stop the run if another run wants the thread, and set the timer again."""
        run = self._run
        if self._is_over:
            return
        if self.is_stranded:
            self._drop()
            return
        if run.holds_thread:
            try:
                hold = cast(LeaseRequest, run.lease_request(run.ports.clock.now()))
                lease: Lease | None = resolve(_saver(run).renew(_thread_id(run), hold))
                run.lease_expires_at = hold.until
                if lease is not None and lease.wanted is not None:
                    self.ask_to_stop(lease.wanted)
            except LeaseLost:
                run.lose_thread()  # the next write of the run will be refused with this error
            except StorageError:
                pass  # either the next write of the run will fail with this error, or the next renewal succeeds
            except Exception:  # a defect of the saver: the next renewal may succeed
                _log_failure(run, "renewed")
        self._set_timer()

    def _send_release(self) -> MaybeFuture[object]:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        return super()._send_release()

    def _drop(self) -> None:
        self._is_over = True
        super()._drop()


def _wait_for(reply: MaybeFuture[object]) -> None:
    with suppress(Exception):  # if the release fails, the lease expires
        resolve(reply)


def _log_failure(run: Run, action: str) -> None:
    import logging  # few runs need it

    logging.getLogger("statewright").exception("The lease on thread %r could not be %s.", _thread_id(run), action)


def _call_if_alive(method: WeakMethod[Callable[..., None]], *args: Any) -> None:
    call = method()
    if call is not None:
        call(*args)


def _reset_after_fork() -> None:
    """Forget all runs in a forked process: none of them is waiting there, and their holds are copies."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()
    _holds.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _saver(run: Run) -> Checkpointer:
    return cast(Checkpointer, run.saver)


def _thread_id(run: Run) -> str:
    return cast(BranchKey, run.branch_key).thread_id


# -- waiting for a thread


def request_thread(run: Run, holder: str) -> MaybeFuture[object]:
    """Request the holder of a thread to stop, if `on_busy` demands it. Return the saver's reply, or a future of it."""
    if run.config.on_busy not in STOPS_HOLDER:
        return None
    hold = _holds.get(holder)
    if hold is not None:
        hold.ask_to_stop(run.config.on_busy)
    return _saver(run).want(_thread_id(run), run.config.on_busy)


def mark_closing(owners: Iterable[str]) -> None:
    """Record that the streams of these runs have lost their readers, so that the runs will soon be cancelled.

    Takes no lock, so that finalisers may call this.
    """
    for owner in owners:
        hold = _holds.get(owner)
        if hold is not None:
            hold.is_closing = True


def is_closing(holder: str) -> bool:
    """Return True if the holder has lost its reader or was dropped. Then other runs wait, whatever their `on_busy`.

    Also return True for a run of this process without a hold. Either it has ended since it was seen to hold the thread,
    or it is being dropped by the garbage collector, which clears weak references before it calls finalisers.
    """
    hold = _holds.get(holder)
    return hold.is_closing if hold is not None else is_of_this_process(holder)


def drop_if_stranded(holder: str) -> None:
    """Release the thread of a run whose event loop was closed."""
    hold = _holds.get(holder)
    if hold is not None and hold.is_stranded and not hold.is_dropped:
        hold._drop()  # pyright: ignore[reportPrivateUsage]


def _check_can_end(run: Run, holder: str) -> None:
    """Raise ThreadBusy if the event loop of this OS thread drives the holder: it could not end while this run waits."""
    hold = _holds.get(holder)
    if hold is None or hold.loop is None or hold.is_dropped:
        return
    import asyncio  # loaded already, because the holder has a loop

    with suppress(RuntimeError):  # no loop is running on this thread
        if asyncio.get_running_loop() is hold.loop and (lease := resolve(load_lease(run))) is not None:
            raise ThreadBusy(_thread_id(run), lease.owner, lease.until)


def enter_queue(run: Run, loop: AbstractEventLoop | None = None) -> Ticket:
    """Return the ticket of a run in the queue for its thread. The run keeps its position until it leaves the queue.

    `loop` is the event loop on which the run waits; None if it blocks an OS thread.
    """
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        claim.ticket = Ticket(loop)
        with _lock:
            _queues.setdefault(_queue_key(run), deque()).append(claim.ticket)
    return claim.ticket


def leave_queue(run: Run) -> None:
    """Remove a run from the queue for its thread, if it is in it, and let the next run check the thread."""
    claim = cast(Claim, run.claim)
    if claim.ticket is None:
        return
    with _lock:
        queue = _queues.get(_queue_key(run))
        if queue is not None and claim.ticket in queue:  # an earlier call that was interrupted may have removed it
            queue.remove(claim.ticket)
            if not queue:
                del _queues[_queue_key(run)]
    claim.ticket = None
    wake_next(run)


def wake_next(run: Run) -> None:
    """Let the first run in the queue for the thread check it now."""
    ticket = _first_ticket(run)
    if ticket is not None:
        ticket.wake()


def _first_ticket(run: Run) -> Ticket | None:
    """Return the first ticket in the queue for a thread. A run whose event loop was closed loses its place."""
    key = _queue_key(run)
    with _lock:
        queue = _queues.get(key)
        if queue is None:
            return None
        while queue and queue[0].is_stranded:
            queue.popleft()
        if queue:
            return queue[0]
        del _queues[key]
        return None


def _queue_key(run: Run) -> tuple[Hashable, str]:
    """Return the key that identifies a thread among the threads of all savers in the process."""
    return scope_of(_saver(run)), _thread_id(run)


def is_its_turn(run: Run, ticket: Ticket) -> bool:
    """Return True if the run is the first in the queue, or if it does not queue, because it has on_busy="reject"."""
    if run.config.on_busy == "reject":
        return True
    return _first_ticket(run) is ticket


def load_lease(run: Run) -> MaybeFuture[Lease | None]:
    """Return the current lease on the thread, or a future of it."""
    return _saver(run).lease(_thread_id(run))


def is_free_for(run: Run, lease: Lease | None, holder: str) -> bool:
    """Return True if the run need not wait any longer, because the lease is over or does not belong to `holder`.

    The second reason applies only with on_busy="reject": such a run waits for one particular holder.
    """
    if lease is None or lease.has_lapsed(run.ports.clock.now()):
        return True
    return run.config.on_busy == "reject" and lease.owner != holder


def is_asked_to_stop(run: Run) -> bool:
    """Return whether a run that waits was requested to stop."""
    control = run.control
    return control is not None and (control.cancel_requested or control.drain_requested)


def await_turn(run: Run, holder: str) -> bool:
    """Block until it is the run's turn and its thread is free. Return False if the run was requested to stop instead.

    Raises ThreadBusy if the holder cannot end while this OS thread is blocked.
    """
    _check_can_end(run, holder)
    ticket = enter_queue(run)
    resolve(request_thread(run, holder))
    seconds = FIRST_POLL
    with run.control.on_cancel(ticket.wake) if run.control is not None else nullcontext():
        while True:
            ticket.woken.clear()
            if is_asked_to_stop(run):
                return False
            first = is_its_turn(run, ticket)
            if first and is_free_for(run, resolve(load_lease(run)), holder):
                return True
            run.ports.clock.wait(ticket.woken, seconds if first else LONGEST_POLL)
            seconds = next_poll(seconds, first=first)


def next_poll(seconds: float, *, first: bool) -> float:
    """Return the seconds until the next check of the thread, after a delay of `seconds`.

    A run that is not `first` in the queue starts again with the shortest delay, because it is woken when it becomes
    first.
    """
    return min(seconds * 2, LONGEST_POLL) if first else FIRST_POLL
