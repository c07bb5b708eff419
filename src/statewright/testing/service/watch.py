"""Watches a service at work, so that a test knows when nothing more will happen by itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from statewright.clock import Clock
from statewright.events import Event
from statewright.futures import MaybeFuture, is_future
from statewright.runs import Change, Group, Ledger, Order, Run, RunEvent, Where
from statewright.runs.records.record import R
from statewright.runtime import Instrument
from statewright.service import Service
from statewright.service.background.background_tasks import BackgroundTask


class WatchedLedger:
    """A ledger that counts what is written to it, and knows when a worker has looked and found nothing."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self.writes = 0
        self.looks = 0
        """How often a worker has begun to look for work."""
        self.last_empty_look = 0

    def write(self, changes: Sequence[Change]) -> MaybeFuture[None]:
        self.writes += 1
        return self._ledger.write(changes)

    def job(self, changes: Sequence[Change]) -> Any:
        self.writes += 1
        return self._ledger.job(changes)

    def get(self, kind: type[R], id: str) -> MaybeFuture[R | None]:  # noqa: A002  # what it is called everywhere
        return self._ledger.get(kind, id)

    def find(
        self,
        kind: type[R],
        where: Where = (),
        *,
        order: Order | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> MaybeFuture[Sequence[R]]:
        return self._ledger.find(kind, where, order=order, limit=limit, offset=offset)

    def count(self, kind: type[R], where: Where = ()) -> MaybeFuture[int]:
        return self._ledger.count(kind, where)

    def groups(
        self, kind: type[R], by: Sequence[str], *, where: Where = (), sums: Sequence[str] = ()
    ) -> MaybeFuture[Sequence[Group]]:
        return self._ledger.groups(kind, by, where=where, sums=sums)

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> MaybeFuture[Sequence[RunEvent]]:
        return self._ledger.events(run_id, after=after, limit=limit)

    def claim(self, worker_id: str, now: datetime, limit: int) -> MaybeFuture[Sequence[Run]]:
        with self._lock:
            self.looks += 1
            look = self.looks
        found = self._ledger.claim(worker_id, now, limit)
        if is_future(found):
            found.add_done_callback(lambda answer: self._looked(look, answer.result()))
        else:
            self._looked(look, found)
        return found

    def _looked(self, look: int, found: Any) -> None:
        if found:
            self.writes += 1
        else:
            self.last_empty_look = max(self.last_empty_look, look)


@dataclass(slots=True)
class Executing:
    """A task that was begun and has not ended."""

    run_id: str
    node: str | None
    until: float | None = None
    """When it is tried again, by the clock, if an attempt has failed."""


class TaskWatch(Instrument):
    """Knows which tasks are executed, and which of them wait for another try."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._executing: dict[tuple[str, str | None], Executing] = {}
        self.heard = 0
        """How much has happened."""

    def on_run_started(self, event: Event) -> None:
        with self._lock:
            self.heard += 1
            for key in [key for key in self._executing if key[0] == event.run_id]:
                del self._executing[key]

    def on_task_started(self, event: Event) -> None:
        with self._lock:
            self.heard += 1
            self._executing[event.run_id, event.task_id] = Executing(event.run_id, event.node)

    def on_task_finished(self, event: Event) -> None:
        with self._lock:
            self.heard += 1
            self._executing.pop((event.run_id, event.task_id), None)

    def on_attempt_failed(self, event: Event) -> None:
        with self._lock:
            self.heard += 1
            task = self._executing.get((event.run_id, event.task_id))
            if task is not None:
                task.until = self._clock.monotonic() + event.data[1]

    def on_model_called(self, event: Event) -> None:
        self.heard += 1

    def on_tool_called(self, event: Event) -> None:
        self.heard += 1

    def of(self, run_ids: Sequence[str]) -> list[Executing]:
        """What some runs execute now."""
        with self._lock:
            return [task for task in self._executing.values() if task.run_id in run_ids]


@dataclass(slots=True)
class WatchedPart:
    """A part of the background that tells how often it was swept."""

    part: BackgroundTask
    begun: int = 0
    ended: int = 0
    """The number of the last sweep that has ended."""

    async def sweep(self, now: datetime) -> datetime | None:
        self.begun += 1
        number = self.begun
        try:
            return await self.part.sweep(now)
        finally:
            self.ended = number

    async def close(self) -> None:
        close: Any = getattr(self.part, "close", None)
        if close is not None:
            await close()


@dataclass(slots=True)
class WatchedParts:
    """All parts of the background."""

    parts: list[WatchedPart] = field(default_factory=list[WatchedPart])

    def mark(self) -> list[int]:
        """How often each was swept by now."""
        return [part.begun for part in self.parts]

    def swept_since(self, mark: list[int]) -> bool:
        """Whether each has begun and ended a sweep since then."""
        return all(part.ended > begun for part, begun in zip(self.parts, mark, strict=True))


class WatchedService(Service):
    """A service whose background is watched."""

    watched: WatchedParts

    def _background_parts(self) -> list[BackgroundTask]:
        self.watched = WatchedParts([WatchedPart(part) for part in super()._background_parts()])
        return list(self.watched.parts)
