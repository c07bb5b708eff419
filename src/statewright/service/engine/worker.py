"""The worker: claims runs that are due, and advances them.

A worker runs on one event loop, with a limit of concurrent runs; each of its writes is guarded by its claim on the run.
It has a lease, which it renews with each heartbeat until it has drained. When the lease has expired, other workers
delete its record and release its runs.

Two rules keep a run from being executed by two workers that are both alive:

- A run is released only if its worker's record is unchanged since its lease was seen to have expired. The release
  checks that in its own transaction, because the worker may have renewed its lease since.
- A worker begins a run only after checking its own lease, once it has claimed the run; it renews the lease or registers
  again otherwise. A process that was suspended may claim runs as its very next step, while others consider it lost;
  a check before the claim, or in its transaction, would compare the lease with a clock that was read before.

A claim may outlive its attempt: the database could not be written when the attempt ended, or a claim was saved and its
answer was lost. No other worker touches such a run while this one lives, so with each heartbeat the worker releases the
runs that it has claimed without an attempt. Claims in flight look the same; `_Claiming` distinguishes them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import DuplicateRecord, RecordConflict, StatewrightError
from statewright.ids import draw_run_id
from statewright.process_identity import host_id, is_process_gone, started_at
from statewright.runs import (
    Absent,
    Advance,
    Condition,
    Delete,
    Insert,
    Ledger,
    NewEvent,
    Order,
    Run,
    RunStatus,
    Update,
    Worker,
    where,
)
from statewright.service.background.loop_thread import CANCELLING
from statewright.service.context.settings import ServiceSettings
from statewright.service.engine.attempt import RunAttempt

logger = logging.getLogger("statewright.service")
_AT_WORK: Final = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)
Attempting = Callable[[Run], RunAttempt]


class _Claiming:
    """A claim in flight from the ledger to this worker. Compared by identity."""


class RunWorker:
    """Advances runs on the event loop that `work` is called on."""

    def __init__(self, ledger: Ledger, clock: Clock, settings: ServiceSettings, attempting: Attempting) -> None:
        self.id = f"wrk_{draw_run_id()}"
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._attempting = attempting
        self._at_work: dict[asyncio.Task[None], RunAttempt] = {}
        self._by_run: dict[str, RunAttempt] = {}
        """The newest attempt at each run; one may begin before the previous has ended."""
        self._started: list[Run] = []
        self._reserved = 0
        """Capacity reserved for runs that are being claimed."""
        self._reserving = threading.Lock()
        self._claiming: set[_Claiming] = set()
        """Claims in flight: the ledger may have stored them before this worker knows of them."""
        self._unattended: dict[tuple[str, str | None], frozenset[_Claiming]] = {}
        """Runs, by id and claim, without an attempt at the last heartbeat, each with the claims in flight then."""
        self._has_stopped_claiming = asyncio.Event()
        self._is_known = False
        """True if the worker is registered, as far as it knows."""
        self._beating: asyncio.Task[None] | None = None
        self._has_drained = asyncio.Event()
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._has_blocked_runs = False
        """True if due runs are blocked until others have ended."""

    # -- from any thread

    @property
    def has_room(self) -> bool:
        """True if it could begin with one more run now."""
        return self._is_known and not self._draining and self._room > 0

    @property
    def is_full(self) -> bool:
        """True if it begins no other run before one of its own has ended."""
        return self._draining or len(self._at_work) >= self._settings.capacity

    @property
    def _room(self) -> int:
        return self._settings.capacity - len(self._at_work) - len(self._started) - self._reserved

    def promise(self) -> _Claiming | None:
        """Reserve capacity for a run that is about to be claimed for this worker; None if there is none."""
        with self._reserving:
            if not self.has_room:
                return None
            self._reserved += 1
            promise = _Claiming()
            self._claiming.add(promise)
            return promise

    def take(self, promise: _Claiming, run: Run | None) -> None:
        """Begin the run for which capacity was reserved; None returns the capacity."""
        with self._reserving:
            self._reserved -= 1
            self._claiming.discard(promise)
            if run is not None:
                self._started.append(run)
        self.ring()

    def ring(self) -> None:
        """Wake the worker to look for work now. Thread-safe."""
        loop = self._loop
        if loop is None:
            return
        with suppress(RuntimeError):  # the loop has stopped: other workers take over
            loop.call_soon_threadsafe(self._bell.set)

    def attempt_at(self, run_id: str) -> RunAttempt | None:
        """Return the current attempt of this worker at a run; None if there is none."""
        return self._by_run.get(run_id)

    @property
    def at_work(self) -> int:
        """Number of runs that the worker is advancing."""
        return len(self._at_work)

    # -- working

    async def work(self) -> None:
        """Claim runs and advance them until `drain` is called."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._register_with_retries()
            self._beating = asyncio.create_task(self._beat())
            await self._take_runs()
            self._has_stopped_claiming.set()
            await self._has_drained.wait()  # until then it has runs at work, and its lease must not expire
        finally:
            self._has_stopped_claiming.set()
            await self._stop_beating()

    async def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def _take_runs(self) -> None:
        while not self._draining:
            self._bell.clear()
            await self._begin_started()
            await self._take_due()
            await self._rest()

    async def _begin_started(self) -> None:
        batch = tuple(self._started)
        if not batch:
            return
        has_lease = await self._ensure_lease()
        with self._reserving:  # others may have added runs meanwhile
            del self._started[: len(batch)]
        if has_lease:
            for run in batch:
                self._begin(run)

    async def _take_due(self) -> None:
        while self._is_known and self._room > 0 and not self._draining:
            claiming = _Claiming()
            with self._reserving:  # until they are at work
                wanted = min(self._room, max(1, self._room // 2), 50)  # runs that are started now find room too
                self._reserved += wanted
                self._claiming.add(claiming)
            runs = await self._claimed(wanted) if wanted > 0 else ()
            for run in runs:
                self._begin(run)
            with self._reserving:
                self._reserved -= wanted
                self._claiming.discard(claiming)
            if not runs:
                return

    async def _claimed(self, limit: int) -> Sequence[Run]:
        try:
            runs = await aresolve(self._ledger.claim(self.id, self._clock.now(), limit))
        except Exception:
            logger.exception("The ledger could not be queried for work. The query will be repeated.")
            return ()
        return runs if runs and await self._ensure_lease() else ()

    async def _ensure_lease(self) -> bool:
        """Return whether the worker's lease is valid, after renewing it or registering again if necessary.

        To be called between claiming runs and beginning them. Runs that are not begun because the lease could not be
        checked are released with the next heartbeat.
        """
        try:
            record = await aresolve(self._ledger.get(Worker, self.id))
            # The time is read last: the process may have been suspended at any step before.
            if record is None or record.until <= self._clock.now() + timedelta(seconds=self._beat_every):
                await self._renew_lease()
        except Exception:
            logger.exception("The worker's lease could not be checked. The runs that it has claimed are released.")
            return False
        return True

    def _begin(self, run: Run) -> None:
        attempt = self._attempting(run)
        task = asyncio.create_task(attempt.advance(), name=f"run {run.id}")
        self._at_work[task] = self._by_run[run.id] = attempt
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        attempt = self._at_work.pop(task)
        if self._by_run.get(attempt.run_id) is attempt:
            del self._by_run[attempt.run_id]
        if not task.cancelled() and task.exception() is not None:
            logger.error("Run %s could not be advanced.", attempt.run_id, exc_info=task.exception())
        if self._has_blocked_runs or len(self._at_work) + 1 >= self._settings.capacity:
            self._bell.set()

    async def _rest(self) -> None:
        """Wait until the worker is woken, the next run is due, or it is time to poll."""
        seconds = min(await self._until_due(), self._settings.look_every)
        if seconds <= 0 or self._started:
            return
        timer = self._clock.call_later(seconds, self.ring)
        await self._bell.wait()
        timer.cancel()

    async def _until_due(self) -> float:
        unclaimed = [Condition("claim", "=", None), Condition("due_at", "!=", None)]
        try:
            next_runs = await aresolve(self._ledger.find(Run, unclaimed, order=Order("due_at"), limit=1))
        except Exception:
            return self._settings.look_every
        now = self._clock.now()
        due = next_runs[0].due_at if next_runs else None
        self._has_blocked_runs = due is not None and due <= now
        if due is None or self._has_blocked_runs:
            return self._settings.look_every
        return (due - now).total_seconds()

    # -- living

    async def _register_with_retries(self) -> None:
        """Register, with retries: without its record no worker would take over the runs of this one."""
        while not self._draining:
            self._bell.clear()
            try:
                now = self._clock.now()
                await self._register(now)
                await self._release_lost_workers(now)
            except Exception:
                logger.exception("The worker could not be registered. It will try again.")
            else:
                return
            timer = self._clock.call_later(self._settings.look_every, self.ring)
            await self._bell.wait()  # drain() rings it too
            timer.cancel()

    async def _register(self, now: datetime) -> None:
        pid = os.getpid()
        record = Worker(
            id=self.id,
            place=host_id(),
            pid=pid,
            process_started=started_at(pid) or "",
            capacity=self._settings.capacity,
            until=now + timedelta(seconds=self._settings.lease),
            started_at=now,
        )
        with suppress(DuplicateRecord):  # it was written before, and the answer was lost: the next beat prolongs it
            await aresolve(self._ledger.write([Insert(record)]))
        self._is_known = True
        self._bell.set()

    @property
    def _beat_every(self) -> float:
        """Seconds between heartbeats."""
        return self._settings.lease / 3

    async def _beat(self) -> None:
        """Renew the lease, take over from lost workers, and check the records of claimed runs, in a loop."""
        seconds = self._beat_every
        while True:
            await self._pause(seconds)
            seconds = self._beat_every
            try:
                await self._renew_lease()
                await self._release_lost_workers(self._clock.now())
                await self._check_claimed_runs()
                await self._release_unattended()
            except Exception:
                logger.exception("A heartbeat of the worker has failed. It is tried again.")
                seconds = min(seconds, self._settings.look_every)

    async def _renew_lease(self) -> None:
        """Renew the lease, or register again if another worker has deleted the record."""
        until = self._clock.now() + timedelta(seconds=self._settings.lease)
        try:
            await aresolve(self._ledger.write([Update(Worker, self.id, {"until": until})]))
        except RecordConflict:
            logger.warning(
                "Worker %s was considered lost, and its runs may have other claims: it registers again.", self.id
            )
            self._is_known = False
            await self._register(self._clock.now())

    async def _pause(self, seconds: float) -> None:
        # Not `async_futures.sleep`: the clock of tests recognises housekeeping by the module of the callback.
        is_over = asyncio.Event()
        loop = asyncio.get_running_loop()
        timer = self._clock.call_later(seconds, lambda: loop.call_soon_threadsafe(is_over.set))
        try:
            await is_over.wait()
        finally:
            timer.cancel()

    async def _release_lost_workers(self, now: datetime) -> None:
        """Release the runs of lost workers, for any worker with capacity."""
        claimed = [Condition("claim", "!=", None), Condition("worker_id", "!=", None)]
        holders = await aresolve(self._ledger.groups(Run, ["worker_id"], where=claimed))
        # After that: a worker that comes in between is known, and has what it has by right.
        workers = await aresolve(self._ledger.find(Worker))
        for worker in workers:
            if worker.id != self.id and (
                worker.until <= now or is_process_gone(worker.place, worker.pid, worker.process_started)
            ):
                # Its record may also be deleted by now. Then it must register before it begins another run.
                unchanged = Absent(Worker, [*where(id=worker.id), Condition("until", "!=", worker.until)])
                await self._release_all(worker.id, now, unchanged)
                await self._forget(worker)
        registered = {self.id, *(worker.id for worker in workers)}
        for (worker_id,), _, _ in holders:
            if worker_id not in registered:  # its record was deleted before these runs were released
                await self._release_all(worker_id, now, Absent(Worker, where(id=worker_id)))

    async def _release_all(self, worker_id: str, now: datetime, unchanged: Absent) -> None:
        """Release the runs of a lost worker, unless its record has changed: `unchanged` is part of each release."""
        orphans = await aresolve(self._ledger.find(Run, _claimed_by(worker_id)))
        released = sum([await self._release(run, now, "worker lost", unchanged) for run in orphans])
        if released:
            logger.warning("Worker %s is lost: %d of its runs were released.", worker_id, released)
            self._bell.set()

    async def _release(self, run: Run, now: datetime, reason: str, *guards: Absent) -> bool:
        """Release a run for the next worker that claims it. Return False if the run, or a guard, has changed."""
        values: dict[str, Any] = {"claim": None, "worker_id": None, "due_at": now}
        events = [NewEvent("WORKFLOW_RESUMED", {"reason": reason})] if run.begun else []
        guard = [Condition("version", "=", run.version), Condition("claim", "=", run.claim)]
        try:
            await aresolve(self._ledger.write([*guards, Advance(run.id, now, values, events, guard)]))
        except RecordConflict:
            return False
        return True

    async def _forget(self, worker: Worker) -> None:
        if not await aresolve(self._ledger.count(Run, _claimed_by(worker.id))):
            await aresolve(self._ledger.write([Delete(Worker, where(id=worker.id, until=worker.until))]))

    async def _check_claimed_runs(self) -> None:
        """Stop attempts at runs that belong to others by now, and pause those that should pause."""
        attempts = list(self._at_work.values())
        for start in range(0, len(attempts), 200):
            ids = [attempt.run_id for attempt in attempts[start : start + 200]]
            records = {run.id: run for run in await aresolve(self._ledger.find(Run, [Condition("id", "in", ids)]))}
            for attempt in attempts[start : start + 200]:
                attempt.check_record(records.get(attempt.run_id))

    async def _release_unattended(self) -> None:
        """Release the runs that this worker has claimed and does not work on.

        A claim that was in flight when such a run was seen may be the claim of this run, so it is checked once more.
        """
        claimed = await aresolve(self._ledger.find(Run, _claimed_by(self.id)))
        with self._reserving:
            attended = {run.claim for run in self._started}
            attended |= {attempt.claim for attempt in self._at_work.values()}
            claiming = frozenset(self._claiming)
        seen, self._unattended = self._unattended, {}
        for run in claimed:
            if run.claim in attended:
                continue
            pending = seen.get((run.id, run.claim), claiming) & claiming
            if pending:
                self._unattended[run.id, run.claim] = pending
            else:
                logger.warning("Run %s was claimed by this worker, but has no attempt: released.", run.id)
                await self._release(run, self._clock.now(), "storage failure")
                self._bell.set()

    # -- ending

    async def drain(self, seconds: float | None = None) -> None:
        """Stop claiming, let running steps end, and release the remaining runs."""
        self._draining = True
        self._bell.set()
        await self._has_stopped_claiming.wait()
        await self._end_attempts(self._settings.drain if seconds is None else seconds)
        await self._stop_beating()  # a heartbeat would register the worker again after its record is deleted
        self._has_drained.set()
        try:
            await aresolve(self._ledger.write([Delete(Worker, where(id=self.id))]))
        except StatewrightError:  # then it counts as lost when its lease expires; the shutdown continues
            logger.exception("The worker could not delete its record.")

    async def _end_attempts(self, seconds: float) -> None:
        """Give running steps so many seconds to end, then cancel them."""
        for attempt in list(self._at_work.values()):
            attempt.release()
        if self._at_work:
            _, late = await asyncio.wait(list(self._at_work), timeout=seconds)
            for task in late:
                self._at_work[task].abandon()
            if late:
                await asyncio.wait(late, timeout=CANCELLING)


def _claimed_by(worker_id: str) -> list[Condition]:
    return [Condition("worker_id", "=", worker_id), Condition("claim", "!=", None)]
