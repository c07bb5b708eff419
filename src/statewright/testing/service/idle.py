"""Detection of an idle service, and of the next time at which it has work.

A service is idle if nothing more happens until time passes or input arrives. That is so if a worker has looked for work
and found none, every background task has run, nothing was written meanwhile, and all running nodes are waiting for the
clock. A node between two attempts is known to be waiting for the clock. A node that waits in its own code, for example
in a model client, cannot be observed. After a moment without any activity it is assumed to be waiting for the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.runs import Condition, Delivery, Order, Run, Schedule, where
from statewright.testing.service.clock import ServiceClock
from statewright.testing.service.watch import TaskWatch, WatchedLedger, WatchedService

PATIENCE: Final = 60.0
"""Real seconds after which a service that has not become idle raises TimeoutError."""
DELIVERY_SECONDS: Final = 15.0
"""Real seconds to wait for deliveries to webhooks, whose receivers may be slow."""
QUIET_SECONDS: Final = 0.1
"""Real seconds without activity after which running nodes are assumed to be waiting for the clock."""
_POLL_SECONDS: Final = 0.0005


class IdleDetector:
    """Waits until a service is idle, and determines the next time at which something is due."""

    def __init__(
        self,
        service: WatchedService,
        ledger: WatchedLedger,
        clock: ServiceClock,
        tasks: TaskWatch,
        patience: float = PATIENCE,
    ) -> None:
        self._service = service
        self._ledger = ledger
        self._clock = clock
        self._tasks = tasks
        self._patience = patience
        self._activity: tuple[Any, ...] = ()
        """The numbers of events, scheduled calls and writes, which do not change while nothing happens."""
        self._active_at = 0.0
        """The time of the event loop at which these numbers were last seen to have changed."""

    async def settle(self) -> None:
        """Wait until the service is idle. Raises TimeoutError if it takes longer than `patience` real seconds."""
        started_at = asyncio.get_running_loop().time()
        while True:
            writes = self._ledger.writes
            elapsed = asyncio.get_running_loop().time() - started_at
            await self._look_for_work(self._patience - elapsed)
            if self._ledger.writes == writes and await self._is_idle(elapsed):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _look_for_work(self, seconds: float) -> None:
        """Let the worker look for work, and let every background task run once. Work that is found counts as a write.

        Raises TimeoutError after this number of real seconds.
        """
        worker, tasks, claim_number = self._service.worker, self._service.watched, self._ledger.claims
        earlier_sweeps = [task.started for task in tasks]
        until = asyncio.get_running_loop().time() + seconds
        self._service.wake_background_tasks()
        while True:
            # A sweep that was already in progress may have missed work, so wait until a later sweep has ended.
            have_swept = all(task.ended > earlier for task, earlier in zip(tasks, earlier_sweeps, strict=True))
            # A worker that cannot take more runs does not claim, so there is no claim to wait for.
            has_claimed = self._ledger.last_answered_claim > claim_number or (worker is not None and worker.is_full)
            if have_swept and has_claimed:
                return
            if asyncio.get_running_loop().time() > until:
                raise TimeoutError(await self._timeout_message())
            await asyncio.sleep(_POLL_SECONDS)

    async def _timeout_message(self) -> str:
        runs = await self._list_claimed()
        nodes = [f"{task.node!r} of {task.run_id}" for task in self._tasks.running(runs)]
        running = ", ".join(nodes or runs) or "no known node"
        return (
            f"The service was not idle within {self._patience:g} seconds. Running: {running}. "
            f"Replace nodes that never end, or that wait for something outside the test, with test doubles."
        )

    async def _list_claimed(self) -> list[str]:
        """Return the ids of the runs that workers have claimed."""
        runs: Sequence[Run] = await aresolve(self._ledger.find(Run, [Condition("claim", "!=", None)]))
        return [run.id for run in runs]

    async def _is_idle(self, elapsed: float) -> bool:
        # Deliveries of webhooks leave the process: wait for slow receivers, but not forever.
        if elapsed < DELIVERY_SECONDS and await aresolve(self._ledger.count(Delivery, _IN_FLIGHT)):
            return False
        runs, worker = await self._list_claimed(), self._service.worker
        if not runs:
            return worker is None or worker.active_runs == 0
        return self._are_between_attempts(runs) or self._is_quiet()

    def _are_between_attempts(self, run_ids: Sequence[str]) -> bool:
        """Return whether all running nodes are waiting for their next attempt, and the clock has their alarms."""
        tasks = self._tasks.running(run_ids)
        now = self._clock.monotonic()
        if {task.run_id for task in tasks} != set(run_ids) or len(self._clock.wait_times()) < len(tasks):
            return False
        return all(task.next_attempt_at is not None and task.next_attempt_at > now for task in tasks)

    def _is_quiet(self) -> bool:
        """Return whether something is waiting for the clock, and nothing has happened for `QUIET_SECONDS`."""
        activity = (self._tasks.event_count, self._clock.scheduled_calls, self._ledger.writes)
        now = asyncio.get_running_loop().time()
        if activity != self._activity:
            self._activity, self._active_at = activity, now
        return now - self._active_at > QUIET_SECONDS and bool(self._clock.wait_times())

    async def next_instant(self) -> datetime | None:
        """Return the time at which the next timer, schedule or delivery is due; None if there is none."""
        now = self._clock.now()
        instants = [
            *await self._earliest(Run, "due_at", [Condition("claim", "=", None)], now),
            *await self._earliest(Schedule, "next_at", where(paused=False), now),
            *await self._earliest(Delivery, "due_at", where(status="pending"), now),
            *(instant for instant in self._clock.wait_times() if instant > now),
        ]
        return min(instants, default=None)

    async def _earliest(
        self, record_type: Any, column: str, conditions: Iterable[Condition], now: datetime
    ) -> list[datetime]:
        """Return a list with the earliest time after `now` in a column of records; empty if there is none."""
        after_now = [*conditions, Condition(column, ">", now)]
        records = await aresolve(self._ledger.find(record_type, after_now, order=Order(column), limit=1))
        return [getattr(record, column) for record in records]

    async def advance_to(self, target: datetime) -> None:
        """Let time pass until `target`, and let the service do the work that falls due meanwhile, in order."""
        await self.settle()
        while (instant := await self.next_instant()) is not None and instant <= target:
            self._clock.jump_to(instant)
            await self.settle()
        self._clock.jump_to(target)
        await self.settle()


_IN_FLIGHT: Final = [*where(status="pending"), Condition("claim", "!=", None)]
