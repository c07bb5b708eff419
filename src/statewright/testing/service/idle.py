"""When a service rests, and what it waits for.

It rests when nothing happens any more unless time passes or somebody outside does something: a worker has looked for
work and found none, every part of the background was swept, nothing was written meanwhile, and what is at work waits
for the clock. That a node waits for the clock is known where an attempt at it has failed. Where it does so by itself,
in the client of a model for instance, it is taken for certain after a moment without a sign of it.
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
"""Seconds, real ones, after which a service that does not come to rest is an error."""
LONGEST_FLIGHT: Final = 15.0
"""Real seconds for which messages to webhooks are waited for."""
MOMENT: Final = 0.1
"""Real seconds without a sign after which a node that waits for something waits for the clock."""
_LOOK: Final = 0.0005


class IdleDetector:
    """Brings a service to rest, and knows the next instant at which something is due."""

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
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0

    async def settle(self) -> None:
        """Wait until everything has happened that can happen now. Raises TimeoutError if that takes too long."""
        begun = asyncio.get_running_loop().time()
        while True:
            writes = self._ledger.writes
            passed = asyncio.get_running_loop().time() - begun
            await self._turn(self._patience - passed)
            if self._ledger.writes == writes and await self._is_at_rest(passed):
                return
            await asyncio.sleep(_LOOK)

    async def _turn(self, seconds: float) -> None:
        """Let everybody look for work once."""
        worker, parts = self._service.worker, self._service.watched
        look, mark = self._ledger.looks, parts.mark()
        until = asyncio.get_running_loop().time() + seconds
        self._service.ring()
        while self._ledger.last_empty_look <= look or not parts.swept_since(mark):
            if worker is not None and worker.is_full and parts.swept_since(mark):
                return
            if asyncio.get_running_loop().time() > until:
                raise TimeoutError(await self._complaint())
            await asyncio.sleep(_LOOK)

    async def _complaint(self) -> str:
        runs = await self._at_work()
        nodes = [f"{task.node!r} of {task.run_id}" for task in self._tasks.of(runs)]
        at_work = ", ".join(nodes or runs) or "nothing that is known"
        return (
            f"The service did not come to rest within {self._patience:g} seconds. At work: {at_work}. "
            f"A node that never ends, or waits for something outside of the test, has to be replaced in it."
        )

    async def _at_work(self) -> list[str]:
        found: Sequence[Run] = await aresolve(self._ledger.find(Run, [Condition("claim", "!=", None)]))
        return [run.id for run in found]

    async def _is_at_rest(self, passed: float) -> bool:
        if passed < LONGEST_FLIGHT and await aresolve(self._ledger.count(Delivery, _IN_FLIGHT)):
            return False
        runs, worker = await self._at_work(), self._service.worker
        if not runs:
            return worker is None or worker.at_work == 0
        return self._waits_for_clock(runs) or self._shows_no_sign()

    def _waits_for_clock(self, run_ids: Sequence[str]) -> bool:
        """Whether all that is executed waits for another try, and the clock knows."""
        tasks = self._tasks.of(run_ids)
        now = self._clock.monotonic()
        if {task.run_id for task in tasks} != set(run_ids) or len(self._clock.awaited()) < len(tasks):
            return False
        return all(task.until is not None and task.until > now for task in tasks)

    def _shows_no_sign(self) -> bool:
        """Whether somebody waits for the clock, and nothing has happened for a moment."""
        signs = (self._tasks.heard, self._clock.asked, self._ledger.writes)
        now = asyncio.get_running_loop().time()
        if signs != self._seen:
            self._seen, self._seen_at = signs, now
        return now - self._seen_at > MOMENT and bool(self._clock.awaited())

    async def next_instant(self) -> datetime | None:
        """When the next timer, schedule, message or other wait is due; None if nothing waits for the clock."""
        now = self._clock.now()
        due = [
            *await self._first(Run, "due_at", [Condition("claim", "=", None)], now),
            *await self._first(Schedule, "next_at", where(paused=False), now),
            *await self._first(Delivery, "due_at", where(status="pending"), now),
            *(instant for instant in self._clock.awaited() if instant > now),
        ]
        return min(due, default=None)

    async def _first(self, kind: Any, column: str, conditions: Iterable[Condition], now: datetime) -> list[datetime]:
        later = [*conditions, Condition(column, ">", now)]
        found = await aresolve(self._ledger.find(kind, later, order=Order(column), limit=1))
        return [getattr(one, column) for one in found]

    async def advance_to(self, target: datetime) -> None:
        """Let time pass until an instant: what falls due on the way happens in its order."""
        await self.settle()
        while (instant := await self.next_instant()) is not None and instant <= target:
            self._clock.jump_to(instant)
            await self.settle()
        self._clock.jump_to(target)
        await self.settle()


_IN_FLIGHT: Final = [*where(status="pending"), Condition("claim", "!=", None)]
