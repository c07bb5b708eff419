"""The worker, which claims runs that are due, and advances them.

A worker runs on one event loop, and limits the number of runs that it advances concurrently. Each write to a run is
guarded by the worker's claim on that run. The worker has a lease, which it renews with each heartbeat until it has
drained. When the lease has expired, other workers delete the worker's record and release its runs.

Two rules keep a run from being executed by two live workers:

- Other workers release the runs of a lost worker only if its record is unchanged since they saw that its lease had
  expired. Each release checks the record in its own transaction, because the worker may have renewed its lease by then.
- A worker checks its own lease between claiming a run and beginning it. If the lease has expired, the worker renews it
  or registers again. A process that was suspended may claim runs as the first thing it does when it continues, while
  other workers already consider it lost. A check before the claim, or in the transaction of the claim, would compare
  the lease with an outdated time.

The ledger may have runs that this worker has claimed but does not advance, and no other worker touches them while this
one is alive. Either the claim was saved and the response was lost, and the worker takes up the run; or the attempt has
ended, and the database could not be written. Then the worker releases the run, because a new claim also fences off what
may be left of the attempt. The worker looks for such runs as soon as a claim has failed, and with each heartbeat. A
claim whose response is still on its way looks the same in the database, so claims in flight are tracked as
`_ClaimInFlight`.

A claim is a transaction, for which the first commits of the runs that have just begun have to wait. So the worker
claims when it was told that runs may be due, and not in order to find out that none are: after a claim that found some,
and after runs that were claimed when they were created, it reads the next due time, in a session for reading.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import DuplicateRecord, RecordConflict, StatewrightError
from statewright.ids import new_run_id
from statewright.process_identity import host_id, is_process_gone, started_at
from statewright.runs import (
    Absent,
    Advance,
    Condition,
    Delete,
    ExcludedVersion,
    Insert,
    Ledger,
    NewEvent,
    Run,
    Update,
    Worker,
    where,
)
from statewright.service.background.loop_thread import CANCEL_TIMEOUT
from statewright.service.context.records import release_values
from statewright.service.context.service_context import ServiceSettings
from statewright.service.engine.attempt import RunAttempt
from statewright.service.engine.progress import NO_GRAPH, OnEnd, Progress

logger = logging.getLogger("statewright.service")
_MAX_CLAIMED: Final = 50
"""Maximum number of runs that one query claims."""
_FIRST_RETRY_DELAY: Final = 0.05
_BATCH_SIZE: Final = 200
"""Maximum number of runs that one query reads."""
AttemptFactory = Callable[[Run], RunAttempt]


class ServedRuns(TypedDict):
    """The runs that a worker claims; see `Ledger.claim`."""

    queues: Sequence[str] | None
    excluded_versions: Sequence[ExcludedVersion]


class _ClaimInFlight:
    """A claim that the ledger may have stored, but whose result has not arrived. Compared by identity."""


class RunWorker:
    """Claims and advances runs on the event loop on which `work` is called."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings: ServiceSettings,
        new_attempt: AttemptFactory,
        versions: Sequence[str] = (),
        on_end: OnEnd | None = None,
    ) -> None:
        """Create a worker. `versions` are the versions of graphs (definition ids) that its process serves.

        `on_end` returns the changes that follow from the end of a run that the worker sets aside.
        """
        self.id = f"wrk_{new_run_id()}"
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._new_attempt = new_attempt
        self._versions = list(versions)
        self._on_end = on_end
        self._excluded_versions: list[ExcludedVersion] = []
        """Versions that other live workers serve, and this one does not: their runs are left to them."""
        self._attempts: dict[asyncio.Task[None], RunAttempt] = {}
        self._by_run: dict[str, RunAttempt] = {}
        """The latest attempt at each run, which may begin before the previous one has ended."""
        self._reserved_runs: list[Run] = []
        """Runs that were claimed with reserved capacity, but have not begun."""
        self._reserved_capacity = 0
        """Capacity reserved for runs that are being claimed."""
        self._claims_in_flight: set[_ClaimInFlight] = set()
        self._lock = threading.Lock()
        """Guards the reservations and the claims in flight."""
        self._may_have_lost_claims = False
        """True if a claim may have been saved whose response was lost."""
        self._ended_claims: set[str] = set()
        """The claims of attempts that have ended since the last heartbeat, or whose run was still claimed then."""
        self._attending = asyncio.Lock()
        """Held while the worker looks for claimed runs without an attempt."""
        self._unattended: dict[tuple[str, str | None], frozenset[_ClaimInFlight]] = {}
        """Claimed runs without an attempt at the last look: (run id, claim) -> claims that are still in flight."""
        self._has_stopped_claiming = asyncio.Event()
        self._is_registered = False
        """True if the worker is registered, as far as this process knows."""
        self._heartbeats: asyncio.Task[None] | None = None
        """The task that sends heartbeats."""
        self._has_drained = asyncio.Event()
        self._wakeup = asyncio.Event()
        self._may_find_due = True
        """True if runs may be due, so that the worker claims before it waits."""
        self._has_claimed_in_vain = False
        """True if the last claim found no runs, and nothing has been read since."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry_delay = _FIRST_RETRY_DELAY
        """Seconds until the next claim if runs are due that cannot be claimed now; doubled each time."""
        self._draining = False
        self.drain_request: Future[None] = Future()
        """Done once the worker was asked to drain by its record. The process still has to call `drain`."""
        self._has_blocked_runs = False
        """True if there are due runs that cannot be claimed before other runs end."""

    # -- thread-safe

    @property
    def has_free_capacity(self) -> bool:
        """True if the worker can begin another run now."""
        return self._is_registered and not self._draining and self._free_capacity > 0

    @property
    def is_full(self) -> bool:
        """True if the worker cannot begin another run before one of its own has ended."""
        return self._draining or len(self._attempts) >= self._settings.capacity

    @property
    def _free_capacity(self) -> int:
        """The number of runs that the worker can still begin."""
        return self._settings.capacity - len(self._attempts) - len(self._reserved_runs) - self._reserved_capacity

    def reserve(self) -> _ClaimInFlight | None:
        """Reserve capacity for a run that is about to be claimed for this worker.

        Return the reservation, which must be passed to `settle`; None if the worker has no free capacity.
        """
        with self._lock:
            if not self.has_free_capacity:
                return None
            self._reserved_capacity += 1
            reservation = _ClaimInFlight()
            self._claims_in_flight.add(reservation)
            return reservation

    def settle(self, reservation: _ClaimInFlight, run: Run | None) -> None:
        """End a reservation: begin the claimed run, or free the capacity if the run is None."""
        with self._lock:
            self._reserved_capacity -= 1
            self._claims_in_flight.discard(reservation)
            if run is not None:
                self._reserved_runs.append(run)
        if run is not None:
            self._call_on_loop(self._wakeup.set)
        else:
            self.wake()

    def note_lost_claim(self) -> None:
        """Look soon for a run that was claimed with a reservation whose result is not known."""
        self._may_have_lost_claims = True
        self.wake()

    def wake(self) -> None:
        """Wake the worker, so that it looks for work at once."""
        self._call_on_loop(self._look_for_due)

    def _look_for_due(self) -> None:
        """Claim soon. Called on the loop."""
        self._may_find_due = True
        self._wakeup.set()

    def _call_on_loop(self, function: Callable[[], object]) -> None:
        loop = self._loop
        if loop is None:
            return
        with suppress(RuntimeError):  # the loop has stopped: other workers claim the runs that are due
            loop.call_soon_threadsafe(function)

    def attempt_at(self, run_id: str) -> RunAttempt | None:
        """Return the attempt that this worker is making at a run; None if there is none."""
        return self._by_run.get(run_id)

    @property
    def active_runs(self) -> int:
        """The number of runs that the worker is advancing."""
        return len(self._attempts)

    # -- claiming and advancing runs

    async def work(self) -> None:
        """Claim runs and advance them until `drain` is called."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._register_with_retries()
            self._heartbeats = asyncio.create_task(self._send_heartbeats())
            await self._advance_runs()
            self._has_stopped_claiming.set()
            await self._release_reserved()  # until then attempts are running, and the lease must not expire
        finally:
            self._has_stopped_claiming.set()
            await self._stop_heartbeats()

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)

    async def _advance_runs(self) -> None:
        while not self._draining:
            self._wakeup.clear()
            await self._begin_reserved()
            if self._may_find_due:
                self._may_find_due = False
                await self._begin_due()
            await self._attend_lost_claims()
            await self._wait_for_work()

    async def _begin_reserved(self) -> None:
        batch = tuple(self._reserved_runs)
        if not batch:
            return
        has_lease = await self._ensure_lease()
        with self._lock:  # other threads may have added runs meanwhile
            del self._reserved_runs[: len(batch)]
        if has_lease:
            for run in batch:
                self._begin(run)

    async def _release_reserved(self) -> None:
        """Release the runs that are claimed with reserved capacity after the worker has stopped, until it has drained.

        Without it they would stay claimed for as long as the process of a worker lives that was asked to drain.
        """
        while not self._has_drained.is_set():
            self._wakeup.clear()
            with self._lock:
                batch, self._reserved_runs = self._reserved_runs, []
            for run in batch:
                try:
                    await self._release(run, self._clock.now(), "worker stopping")
                except Exception:
                    logger.exception("Run %s could not be released. The next heartbeat will try again.", run.id)
            await self._wakeup.wait()

    async def _begin_due(self) -> None:
        while self._is_registered and self._free_capacity > 0 and not self._draining:
            claim = _ClaimInFlight()
            with self._lock:
                # Half of the capacity is left for runs that this process starts meanwhile; see `reserve`.
                limit = min(self._free_capacity, max(1, self._free_capacity // 2), _MAX_CLAIMED)
                self._reserved_capacity += limit
                self._claims_in_flight.add(claim)
            runs = await self._claim(limit) if limit > 0 else ()
            if runs:
                self._retry_delay = _FIRST_RETRY_DELAY
            for run in runs:
                self._begin(run)
            with self._lock:  # not earlier: from now on, the attempts at the claimed runs use up the capacity
                self._reserved_capacity -= limit
                self._claims_in_flight.discard(claim)
            self._has_claimed_in_vain = not runs
            if len(runs) < limit:  # whether a run has become due since the claim is read: see `_seconds_until_due`
                return

    async def _claim(self, limit: int) -> Sequence[Run]:
        try:
            claim = self._ledger.claim(self.id, self._clock.now(), limit, **self._served)
            runs = await aresolve(claim)
        except Exception:
            logger.exception("The worker could not claim runs. It will try again.")
            self._may_have_lost_claims = True
            return ()
        return runs if runs and await self._ensure_lease() else ()

    async def _ensure_lease(self) -> bool:
        """Check the lease, and renew it or register again if necessary. Return False if that has failed.

        Called between claiming runs and beginning them. After a failure the claimed runs are not begun before the next
        heartbeat, which renews the lease first.
        """
        try:
            record = await aresolve(self._ledger.get(Worker, self.id))
            # The time is read last, because the process may have been suspended at any point before.
            if record is None or record.until <= self._clock.now() + timedelta(seconds=self._heartbeat_interval):
                await self._renew_lease()
        except Exception:
            logger.exception("The worker could not check its lease. Its next heartbeat begins the runs it has claimed.")
            return False
        return True

    def _begin(self, run: Run) -> None:
        attempt = self._new_attempt(run)
        task = asyncio.create_task(attempt.advance(), name=f"run {run.id}")
        self._attempts[task] = self._by_run[run.id] = attempt
        task.add_done_callback(self._on_attempt_done)
        if self._draining:  # since the run was claimed
            attempt.release()

    def _on_attempt_done(self, task: asyncio.Task[None]) -> None:
        attempt = self._attempts.pop(task)
        if attempt.claim is not None:
            self._ended_claims.add(attempt.claim)
        if self._by_run.get(attempt.run_id) is attempt:
            del self._by_run[attempt.run_id]
        if not task.cancelled() and task.exception() is not None:
            logger.error("Run %s could not be advanced.", attempt.run_id, exc_info=task.exception())
        if self._has_blocked_runs or len(self._attempts) + 1 >= self._settings.capacity:
            self._look_for_due()

    async def _wait_for_work(self) -> None:
        """Wait until the worker is woken, the next run is due, or it is time to poll."""
        seconds = min(await self._seconds_until_due(), self._settings.poll_interval)
        if seconds > 0 and not self._reserved_runs:
            await self._wait_for_wakeup(seconds)

    async def _wait_for_wakeup(self, seconds: float) -> None:
        """Wait at most `seconds` until the worker is woken."""
        timer = self._clock.call_later(seconds, self.wake)
        await self._wakeup.wait()
        timer.cancel()

    async def _seconds_until_due(self) -> float:
        try:
            next_run = await aresolve(self._ledger.next_due(**self._served))
        except Exception:
            return self._settings.poll_interval
        now = self._clock.now()
        is_due = next_run.at is not None and next_run.at <= now
        self._has_blocked_runs = next_run.has_blocked or is_due
        has_claimed_in_vain, self._has_claimed_in_vain = self._has_claimed_in_vain, False
        if is_due and self._free_capacity > 0:
            if not has_claimed_in_vain:  # the run has become due since the claim
                self._may_find_due = True
                return 0.0
            # Another worker was faster, or the queue permits no more at the moment.
            self._retry_delay = min(self._retry_delay * 2, self._settings.poll_interval)
            return self._retry_delay * random.uniform(0.5, 1)
        self._retry_delay = _FIRST_RETRY_DELAY
        if next_run.at is None or is_due:
            return self._settings.poll_interval
        return (next_run.at - now).total_seconds()

    @property
    def _served(self) -> ServedRuns:
        """The runs that the worker serves, as arguments of the ledger."""
        return {"queues": self._settings.queues, "excluded_versions": self._excluded_versions}

    # -- registration and heartbeats

    async def _register_with_retries(self) -> None:
        """Register, and retry until it succeeds. Otherwise other workers would not notice that this one is lost."""
        while not self._draining:
            self._wakeup.clear()
            try:
                now = self._clock.now()
                await self._register(now)
                await self._release_lost_workers(now)
            except Exception:
                logger.exception("The worker could not be registered. It will try again.")
            else:
                return
            await self._wait_for_wakeup(self._settings.poll_interval)

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
            host=socket.gethostname(),
            queues=list(self._settings.queues) if self._settings.queues is not None else None,
            versions=self._versions,
            draining=self._draining,
        )
        # A record that exists already was written by an earlier try whose response was lost. The next heartbeat renews
        # its lease.
        with suppress(DuplicateRecord):
            await aresolve(self._ledger.write([Insert(record)]))
        self._is_registered = True
        self._look_for_due()

    @property
    def _heartbeat_interval(self) -> float:
        """Seconds between heartbeats."""
        return self._settings.lease / 3

    async def _send_heartbeats(self) -> None:
        """At each heartbeat, renew the lease, release the runs of lost workers, and check the claimed runs."""
        seconds = self._heartbeat_interval
        while True:
            await self._sleep(seconds)
            seconds = self._heartbeat_interval
            try:
                await self._renew_lease()
                await self._release_lost_workers(self._clock.now())
                await self._check_claimed_runs()
                await self._attend_claimed_runs()
            except Exception:
                logger.exception("A heartbeat of the worker has failed. It will try again.")
                seconds = min(seconds, self._settings.poll_interval)

    async def _renew_lease(self) -> None:
        """Renew the lease, or register again if another worker has deleted the record."""
        until = self._clock.now() + timedelta(seconds=self._settings.lease)
        try:
            await aresolve(self._ledger.write([Update(Worker, self.id, {"until": until})]))
        except RecordConflict:
            logger.warning(
                "Worker %s was considered lost, and its runs may belong to other workers. Registering again.", self.id
            )
            self._is_registered = False
            await self._register(self._clock.now())

    async def _sleep(self, seconds: float) -> None:
        # Not `async_futures.sleep`: the clock of tests recognizes housekeeping timers by the module of their callback.
        is_over = asyncio.Event()
        loop = asyncio.get_running_loop()
        timer = self._clock.call_later(seconds, lambda: loop.call_soon_threadsafe(is_over.set))
        try:
            await is_over.wait()
        finally:
            timer.cancel()

    async def _release_lost_workers(self, now: datetime) -> None:
        """Release the runs of lost workers, so that any worker may claim them."""
        claimed = [Condition("claim", "!=", None), Condition("worker_id", "!=", None)]
        holders = await aresolve(self._ledger.groups(Run, ["worker_id"], where=claimed))
        # The workers are read after the claims, so that they include a worker that has registered in between: its
        # claims are valid.
        workers = await aresolve(self._ledger.find(Worker))
        own = next((worker for worker in workers if worker.id == self.id), None)
        if own is not None and own.draining:
            self._accept_drain_request()
        others = [worker for worker in workers if worker.id != self.id and worker.until > now and not worker.draining]
        excluded, self._excluded_versions = self._excluded_versions, self._find_excluded(others)
        if excluded != self._excluded_versions:
            self._look_for_due()
        for worker in workers:
            if worker.id != self.id and (
                worker.until <= now or is_process_gone(worker.place, worker.pid, worker.process_started)
            ):
                # This guard also holds if the record was deleted: its worker must register again before it begins
                # another run.
                unchanged = Absent(Worker, [*where(id=worker.id), Condition("until", "!=", worker.until)])
                await self._release_all(worker.id, now, unchanged)
                await self._delete_record(worker)
        registered = {self.id, *(worker.id for worker in workers)}
        for (worker_id,), _, _ in holders:
            if worker_id not in registered:  # its record was deleted before these runs were released
                await self._release_all(worker_id, now, Absent(Worker, where(id=worker_id)))

    def _find_excluded(self, others: Sequence[Worker]) -> list[ExcludedVersion]:
        """Return the versions that this worker leaves to others, in the queues in which these serve them."""
        excluded = {
            ExcludedVersion(version, queue)
            for worker in others
            for version in worker.versions or ()
            if version not in self._versions
            for queue in (worker.queues if worker.queues is not None else [None])
        }
        return sorted(excluded, key=lambda version: (version.definition_id, version.queue or ""))

    async def _release_all(self, worker_id: str, now: datetime, unchanged: Absent) -> None:
        """Release the runs of a lost worker. `unchanged` refuses each release if the worker's record has changed."""
        runs = await aresolve(self._ledger.find(Run, _claimed_by(worker_id)))
        count = sum([await self._release_lost(run, now, unchanged) for run in runs])
        if count:
            logger.warning("Worker %s is lost: %d of its runs were released.", worker_id, count)
            self._look_for_due()

    async def _release_lost(self, run: Run, now: datetime, unchanged: Absent) -> bool:
        """Release a run of a lost worker, or set it aside if that has happened too often."""
        losses = run.losses + 1
        if losses < self._settings.max_losses:
            return await self._release(run, now, "worker lost", unchanged, losses=losses)
        progress = Progress(replace(run, losses=losses), NO_GRAPH)
        progress.stopping, progress.on_end = "lost", self._on_end
        guard = [Condition("version", "=", run.version), Condition("claim", "=", run.claim)]
        changes = progress.failure_changes(ChildProcessError(), now, guard=guard)
        try:
            await aresolve(self._ledger.write([unchanged, *changes]))
        except RecordConflict:
            return False
        logger.error("Run %s was set aside, because %d workers were lost while they advanced it.", run.id, losses)
        return True

    async def _release(self, run: Run, now: datetime, reason: str, *guards: Absent, **values: Any) -> bool:
        """Release a run, so that any worker may claim it. Return False if the run has changed or a guard fails."""
        events = [NewEvent("WORKFLOW_RESUMED", {"reason": reason})] if run.begun else []
        guard = [Condition("version", "=", run.version), Condition("claim", "=", run.claim)]
        try:
            await aresolve(
                self._ledger.write([*guards, Advance(run.id, now, {**release_values(now), **values}, events, guard)])
            )
        except RecordConflict:
            return False
        return True

    async def _delete_record(self, worker: Worker) -> None:
        if not await aresolve(self._ledger.count(Run, _claimed_by(worker.id))):
            await aresolve(self._ledger.write([Delete(Worker, where(id=worker.id, until=worker.until))]))

    async def _check_claimed_runs(self) -> None:
        """Stop attempts at runs that now belong to other workers, and pause runs for which a pause was requested."""
        attempts = list(self._attempts.values())
        for start in range(0, len(attempts), _BATCH_SIZE):
            batch = attempts[start : start + _BATCH_SIZE]
            conditions = [Condition("id", "in", [attempt.run_id for attempt in batch])]
            records = {run.id: run for run in await aresolve(self._ledger.find(Run, conditions))}
            for attempt in batch:
                attempt.check_record(records.get(attempt.run_id))

    async def _attend_lost_claims(self) -> None:
        """Look for runs whose claim was saved although it has failed, or was in flight at the last look."""
        if not (self._may_have_lost_claims or self._unattended):
            return
        self._may_have_lost_claims = False
        try:
            await self._attend_claimed_runs()
        except Exception:
            self._may_have_lost_claims = True
            logger.exception("The worker could not read the runs that it has claimed. It will try again.")

    async def _attend_claimed_runs(self) -> None:
        """Take up or release the runs that this worker has claimed but does not advance.

        When such a run is first seen, any claim that is in flight at that moment may be the claim on that run. So
        nothing is done before the results of all these claims have arrived, at a later call if necessary.
        """
        async with self._attending:
            claimed = await aresolve(self._ledger.find(Run, _claimed_by(self.id)))
            with self._lock:
                attended = {run.claim for run in self._reserved_runs}
                attended |= {attempt.claim for attempt in self._attempts.values()}
                in_flight = frozenset(self._claims_in_flight)
            self._ended_claims &= {run.claim for run in claimed if run.claim is not None}
            previous, self._unattended = self._unattended, {}
            for run in claimed:
                if run.claim in attended:
                    continue
                still_in_flight = previous.get((run.id, run.claim), in_flight) & in_flight
                if still_in_flight:
                    self._unattended[run.id, run.claim] = still_in_flight
                    continue
                if run.claim in self._ended_claims or not self._take_up(run):
                    logger.warning("Run %s is claimed by this worker, which is not advancing it. Releasing it.", run.id)
                    await self._release(run, self._clock.now(), "storage failure")
                self._look_for_due()

    def _take_up(self, run: Run) -> bool:
        """Begin a run whose claim was committed, although its response was lost. Return False without free capacity."""
        with self._lock:
            if not self.has_free_capacity:
                return False
            self._reserved_runs.append(run)
        logger.info("The claim on run %s was saved, but the response was lost. The worker takes up the run.", run.id)
        return True

    # -- ending

    def _accept_drain_request(self) -> None:
        """Stop claiming runs and release those of this worker, because its record says so."""
        if self._draining:
            return
        logger.info("Worker %s was asked to drain: it releases its runs, and claims no more.", self.id)
        self._draining = True
        self._wakeup.set()
        for attempt in list(self._attempts.values()):
            attempt.release()
        self.drain_request.set_result(None)

    async def drain(self, seconds: float | None = None) -> None:
        """Stop claiming runs, wait until running steps have ended, and release the remaining runs.

        Steps that are still running after `seconds` (by default the setting `drain`) are cancelled.
        """
        self._draining = True
        self._wakeup.set()
        await self._has_stopped_claiming.wait()
        await self._end_attempts(self._settings.drain if seconds is None else seconds)
        await self._stop_heartbeats()  # before the record is deleted, because a heartbeat would register again
        self._has_drained.set()
        self._wakeup.set()
        try:
            await aresolve(self._ledger.write([Delete(Worker, where(id=self.id))]))
        except StatewrightError:  # other workers delete the record when the lease has expired
            logger.exception("The worker could not delete its record.")

    async def _end_attempts(self, seconds: float) -> None:
        """Wait at most `seconds` until running steps have ended, then cancel them."""
        for attempt in list(self._attempts.values()):
            attempt.release()
        if self._attempts:
            _, late = await asyncio.wait(list(self._attempts), timeout=seconds)
            for task in late:
                self._attempts[task].abandon()
            if late:
                await asyncio.wait(late, timeout=CANCEL_TIMEOUT)


def _claimed_by(worker_id: str) -> list[Condition]:
    return [Condition("worker_id", "=", worker_id), Condition("claim", "!=", None)]
