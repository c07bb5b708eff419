"""Detection of an idle service, and of the next time at which it has work.

A service is idle when nothing more happens unless time passes or input arrives: a worker has looked for work and found
none, every background task has run, nothing was written meanwhile, and all running nodes wait for the clock. A node
between two attempts is known to wait for the clock. A node that waits in its own code, such as a model client, cannot
be observed; after a moment without any activity, it is assumed to wait for the clock.
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
"""Real seconds to wait for deliveries to webhooks, which may be slow."""
QUIET_SECONDS: Final = 0.1
"""Real seconds without activity after which a waiting node is assumed to wait for the clock."""
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
        """Counters of events, requested calls and writes, which do not change while nothing happens."""
        self._active_at = 0.0
        """The time, by the event loop, at which a change of the counters was last observed."""

    async def settle(self) -> None:
        """Wait until the service is idle. Raises TimeoutError if that takes too long."""
        started_at = asyncio.get_running_loop().time()
        while True:
            writes = self._ledger.writes
            elapsed = asyncio.get_running_loop().time() - started_at
            await self._run_once(self._patience - elapsed)
            if self._ledger.writes == writes and await self._is_idle(elapsed):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _run_once(self, seconds: float) -> None:
        """Let the worker and every background task look for work once."""
        worker, tasks, claim_number = self._service.worker, self._service.watched, self._ledger.claims
        earlier_sweeps = [task.started for task in tasks]
        until = asyncio.get_running_loop().time() + seconds
        self._service.wake_background_tasks()
        while True:
            # A sweep that had begun earlier may have missed work, so one that began after the ring must have ended.
            have_swept = all(task.ended > earlier for task, earlier in zip(tasks, earlier_sweeps, strict=True))
            # A full worker claims nothing, so there is no empty claim to wait for.
            has_claimed = self._ledger.last_empty_claim > claim_number or (worker is not None and worker.is_full)
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
            f"Replace nodes that never end, or that wait for something outside the test, by test doubles."
        )

    async def _list_claimed(self) -> list[str]:
        """Return the ids of the runs that workers have claimed."""
        runs: Sequence[Run] = await aresolve(self._ledger.find(Run, [Condition("claim", "!=", None)]))
        return [run.id for run in runs]

    async def _is_idle(self, elapsed: float) -> bool:
        # Deliveries leave the process: wait for a slow receiver, but not forever.
        if elapsed < DELIVERY_SECONDS and await aresolve(self._ledger.count(Delivery, _IN_FLIGHT)):
            return False
        runs, worker = await self._list_claimed(), self._service.worker
        if not runs:
            return worker is None or worker.active_runs == 0
        return self._waits_for_clock(runs) or self._is_quiet()

    def _waits_for_clock(self, run_ids: Sequence[str]) -> bool:
        """Return whether all running nodes wait for their next attempt, and the clock has their alarms."""
        tasks = self._tasks.running(run_ids)
        now = self._clock.monotonic()
        if {task.run_id for task in tasks} != set(run_ids) or len(self._clock.wait_times()) < len(tasks):
            return False
        return all(task.until is not None and task.until > now for task in tasks)

    def _is_quiet(self) -> bool:
        """Return whether there is an alarm, and nothing has happened for a moment."""
        activity = (self._tasks.event_count, self._clock.requests, self._ledger.writes)
        now = asyncio.get_running_loop().time()
        if activity != self._activity:
            self._activity, self._active_at = activity, now
        return now - self._active_at > QUIET_SECONDS and bool(self._clock.wait_times())

    async def next_instant(self) -> datetime | None:
        """Return the time at which the next timer, schedule or delivery is due; None if nothing waits for a time."""
        now = self._clock.now()
        due = [
            *await self._first(Run, "due_at", [Condition("claim", "=", None)], now),
            *await self._first(Schedule, "next_at", where(paused=False), now),
            *await self._first(Delivery, "due_at", where(status="pending"), now),
            *(instant for instant in self._clock.wait_times() if instant > now),
        ]
        return min(due, default=None)

    async def _first(self, kind: Any, column: str, conditions: Iterable[Condition], now: datetime) -> list[datetime]:
        later = [*conditions, Condition(column, ">", now)]
        records = await aresolve(self._ledger.find(kind, later, order=Order(column), limit=1))
        return [getattr(record, column) for record in records]

    async def advance_to(self, target: datetime) -> None:
        """Let time pass until `target`; work that falls due is done in order."""
        await self.settle()
        while (instant := await self.next_instant()) is not None and instant <= target:
            self._clock.jump_to(instant)
            await self.settle()
        self._clock.jump_to(target)
        await self.settle()


_IN_FLIGHT: Final = [*where(status="pending"), Condition("claim", "!=", None)]
