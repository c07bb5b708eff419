"""The hub: notifies listeners of this process of the events of a run as soon as they are saved.

It is an optimisation and stores nothing. A follower reads the log of the run, and the hub only notifies it when to
read again; so events that another process writes are found too, a little later (see `run_watch`)."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from statewright.runs import Json, RunEvent

MOST_WAITING: Final = 5000
"""Limit of queued events per listener; stored events that it misses are read from the log."""


class LiveEvent(NamedTuple):
    """An event that is not stored, such as a piece of a message; only current followers receive it."""

    run_id: str
    type: str
    """`message`, or `custom` for what a node has written to the stream."""
    payload: Json
    step: str | None


FollowedEvent = RunEvent | LiveEvent


class Listener:
    """Receives the events of one run, on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._events: list[FollowedEvent] = []
        self._rung = False
        self._noticed: list[int | None] = []
        """Sequence numbers seen by polls; None for a run that has ended or is gone."""

    def notice(self, last_event: int | None) -> None:
        """Report that the run has changed, perhaps by another process. Called on the listener's own loop."""
        self._noticed.append(last_event)
        self._news.set()

    def noticed(self) -> list[int | None]:
        """Return and clear the results of polls."""
        noticed, self._noticed = self._noticed, []
        return noticed

    def notify(self, events: Sequence[FollowedEvent]) -> None:
        """Add events. Called from any thread, with the lock of the hub. A slow listener misses live events."""
        if len(self._events) >= MOST_WAITING:
            self._events = [event for event in self._events[-MOST_WAITING // 2 :] if isinstance(event, RunEvent)]
        self._events.extend(events)
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop was closed: there is no reader
            self._events.clear()

    def take(self) -> list[FollowedEvent]:
        """Return the news so far. Called with the lock of the hub."""
        taken, self._events, self._rung = self._events, [], False
        self._news.clear()
        return taken

    async def arrival(self, seconds: float | None = None) -> None:
        """Wait for events or a change, for so many seconds at most if given."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass


class Hub:
    """Publishes saved events to listeners. Thread-safe."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self._lock = threading.Lock()

    def is_heard(self, run_id: str) -> bool:
        """Return whether a run has listeners."""
        return run_id in self._listeners

    def publish(self, events: Sequence[FollowedEvent]) -> None:
        """Publish the next events of a run to its listeners."""
        if not events or events[0].run_id not in self._listeners:
            return
        with self._lock:
            for listener in self._listeners.get(events[0].run_id, ()):
                listener.notify(events)

    def news(self, listener: Listener) -> list[FollowedEvent]:
        """Return and clear the events of a listener."""
        with self._lock:
            return listener.take()

    @contextmanager
    def listening(self, run_id: str) -> Generator[Listener]:
        """Listen to a run for as long as the block lasts."""
        listener = Listener()
        with self._lock:
            self._listeners[run_id].append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners[run_id].remove(listener)
                if not self._listeners[run_id]:
                    del self._listeners[run_id]

    @property
    def listeners(self) -> int:
        """Number of current listeners."""
        return sum(map(len, self._listeners.values()))
