"""Observers by which `IdleDetector` notices activity in a service: an instrument, and wrappers that count calls."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.clock import Clock
from statewright.events import Event
from statewright.futures import MaybeFuture, is_future
from statewright.runs import Change, Ledger, Run
from statewright.runtime import Instrument
from statewright.service import Service
from statewright.service.background.background_tasks import BackgroundTask


class WatchedLedger:
    """A ledger that counts writes and claims."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.get, self.find, self.count = ledger.get, ledger.find, ledger.count
        self.groups, self.events, self.next_due = ledger.groups, ledger.events, ledger.next_due
        self.queue_sizes = ledger.queue_sizes
        self._lock = threading.Lock()
        self.writes = 0
        self.claims = 0
        """The number of claims so far. Claims are numbered from 1."""
        self.last_answered_claim = 0
        """The number of the last claim that was answered; 0 if there was none."""

    def write(self, changes: Sequence[Change]) -> MaybeFuture[None]:
        self.writes += 1
        return self._ledger.write(changes)

    def job(self, changes: Sequence[Change]) -> Any:
        self.writes += 1
        return self._ledger.job(changes)

    def claim(self, worker_id: str, now: datetime, limit: int, **served: Any) -> MaybeFuture[Sequence[Run]]:
        with self._lock:
            self.claims += 1
            number = self.claims
        runs = self._ledger.claim(worker_id, now, limit, **served)
        if is_future(runs):
            runs.add_done_callback(lambda future: self._note_claim(number, future.result()))
        else:
            self._note_claim(number, runs)
        return runs

    def _note_claim(self, number: int, runs: Any) -> None:
        if runs:
            self.writes += 1
        self.last_answered_claim = max(self.last_answered_claim, number)


@dataclass(slots=True)
class RunningTask:
    """A task that has started and not finished; it may be waiting between two attempts."""

    run_id: str
    node: str | None
    next_attempt_at: float | None = None
    """The time of the next attempt, by `Clock.monotonic`; None if no attempt has failed."""


class TaskWatch(Instrument):
    """An instrument that tracks the running tasks and the times of their next attempts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str | None], RunningTask] = {}
        self.event_count = 0

    def on_run_started(self, event: Event) -> None:
        with self._lock:
            self.event_count += 1
            for key in [key for key in self._running if key[0] == event.run_id]:
                del self._running[key]

    def on_task_started(self, event: Event) -> None:
        with self._lock:
            self.event_count += 1
            self._running[event.run_id, event.task_id] = RunningTask(event.run_id, event.node)

    def on_task_finished(self, event: Event) -> None:
        with self._lock:
            self.event_count += 1
            self._running.pop((event.run_id, event.task_id), None)

    def on_attempt_failed(self, event: Event) -> None:
        with self._lock:
            self.event_count += 1
            task = self._running.get((event.run_id, event.task_id))
            if task is not None:
                task.next_attempt_at = self._clock.monotonic() + event.data[1]

    def on_model_called(self, event: Event) -> None:
        self.event_count += 1

    def on_tool_called(self, event: Event) -> None:
        self.event_count += 1

    def running(self, run_ids: Sequence[str]) -> list[RunningTask]:
        """Return the running tasks of the given runs."""
        with self._lock:
            return [task for task in self._running.values() if task.run_id in run_ids]


@dataclass(slots=True)
class WatchedTask:
    """Wraps a background task to number its sweeps, from 1."""

    task: BackgroundTask
    started: int = 0
    """The number of the sweep that started last."""
    ended: int = 0
    """The number of the sweep that ended last."""

    async def sweep(self, now: datetime) -> datetime | None:
        self.started += 1
        number = self.started
        try:
            return await self.task.sweep(now)
        finally:
            self.ended = number

    async def close(self) -> None:
        close: Any = getattr(self.task, "close", None)
        if close is not None:
            await close()


class WatchedService(Service):
    """A service whose background tasks are wrapped in `WatchedTask`."""

    watched: list[WatchedTask]
    """The background tasks."""

    def _background_tasks(self) -> list[BackgroundTask]:
        self.watched = [WatchedTask(task) for task in super()._background_tasks()]
        return list(self.watched)
