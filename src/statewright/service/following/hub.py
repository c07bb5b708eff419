"""The hub: notifies listeners in this process of the events of a run as soon as they are saved.

The hub is an optimization, and stores nothing. A follower may miss events of the hub at any time. It notices the gap in
the sequence numbers, and reads the stored events from the ledger instead. Events that another process writes are found
by a poll, a little later (see `run_watch`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from statewright.runs import Json, RunEvent

_MAX_QUEUED: Final = 5000
"""Maximum number of queued events per listener. Followers read the stored events that were dropped from the ledger."""


EXPECTED_WITHIN: Final = 10.0
"""Seconds for which the events of a new run are kept for a listener that is expected."""


class LiveEvent(NamedTuple):
    """An event that is not stored, such as a chunk of a message; only current followers receive it."""

    run_id: str
    type: str
    """`message`, `custom` for output that a node writes to the stream, or `begun` for a task of a fan-out."""
    payload: Json
    step: str | None
    """The name of the step, if there is one."""


FollowedEvent = RunEvent | LiveEvent


class Listener:
    """Receives the events of one run, on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_activity = asyncio.Event()
        self._events: list[FollowedEvent] = []
        self._has_woken_loop = False
        """True if the loop was already notified of the queued events."""
        self._poll_results: list[int | None] = []
        """For each poll that found a change, the number of the last event; None if the run has ended or was deleted."""

    def add_poll_result(self, last_event: int | None) -> None:
        """Add the result of a poll that found a change of the run. Called on the listener's own loop."""
        self._poll_results.append(last_event)
        self._has_activity.set()

    def take_poll_results(self) -> list[int | None]:
        """Return and clear the results of polls."""
        results, self._poll_results = self._poll_results, []
        return results

    def add_events(self, events: Sequence[FollowedEvent]) -> None:
        """Queue events. Called from any thread, with the lock of the hub held.

        If too many events are queued, live events and the oldest stored events are dropped.
        """
        if len(self._events) >= _MAX_QUEUED:
            self._events = [event for event in self._events[-_MAX_QUEUED // 2 :] if isinstance(event, RunEvent)]
        self._events.extend(events)
        if self._has_woken_loop:
            return
        self._has_woken_loop = True
        try:
            self._loop.call_soon_threadsafe(self._has_activity.set)
        except RuntimeError:  # the loop is closed, so nothing reads the events
            self._events.clear()

    def take_events(self) -> list[FollowedEvent]:
        """Return and clear the queued events. Called with the lock of the hub held."""
        events, self._events, self._has_woken_loop = self._events, [], False
        self._has_activity.clear()
        return events

    async def wait_for_activity(self, seconds: float | None = None) -> None:
        """Wait for published events, or for a change that a poll has found; at most `seconds`, or forever if None."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_activity.wait()


class Hub:
    """Publishes saved events to listeners. Thread-safe."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self._expected: dict[str, Listener] = {}
        self._lock = threading.Lock()

    def has_listeners(self, run_id: str) -> bool:
        """Return True if a run has listeners."""
        return run_id in self._listeners

    def publish(self, events: Sequence[FollowedEvent]) -> None:
        """Queue new events of one run for its listeners."""
        if not events or events[0].run_id not in self._listeners:
            return
        with self._lock:
            for listener in self._listeners.get(events[0].run_id, ()):
                listener.add_events(events)

    def take_events(self, listener: Listener) -> list[FollowedEvent]:
        """Return and clear the queued events of a listener."""
        with self._lock:
            return listener.take_events()

    def expect_listener(self, run_id: str, seconds: float = EXPECTED_WITHIN) -> None:
        """Listen to a run, which is about to start, on behalf of a listener that will come within `seconds`.

        Models only stream their messages to listeners, and a client cannot listen before it knows the id of the
        run. Called on the event loop of the listener.
        """
        listener = Listener()
        with self._lock:
            self._listeners[run_id].append(listener)
            self._expected[run_id] = listener
        asyncio.get_running_loop().call_later(seconds, self._stop_expecting, run_id, listener)

    def _stop_expecting(self, run_id: str, listener: Listener) -> None:
        with self._lock:
            if self._expected.get(run_id) is listener:
                del self._expected[run_id]
                self._remove(run_id, listener)

    @contextmanager
    def listening(self, run_id: str, *, is_expected: bool = False) -> Generator[Listener]:
        """Listen to a run for as long as the block lasts.

        With `is_expected`, the listener also gets the events that were kept since `expect_listener` was called.
        """
        with self._lock:
            kept = self._expected.pop(run_id, None) if is_expected else None
            listener = kept or Listener()
            if kept is None:
                self._listeners[run_id].append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._remove(run_id, listener)

    def _remove(self, run_id: str, listener: Listener) -> None:
        self._listeners[run_id].remove(listener)
        if not self._listeners[run_id]:
            del self._listeners[run_id]

    @property
    def listener_count(self) -> int:
        """The number of current listeners to all runs."""
        return sum(map(len, self._listeners.values()))
