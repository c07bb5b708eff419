"""A discrete-event simulation: the clock, and the three kinds of queues that the model of a database consists of.

Events at the same time happen in the order in which they were scheduled, and random numbers come from one generator
with a seed, so the same seed gives the same results on any machine. Times are in seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

Action = Callable[[], object]


class Simulation:
    """The clock and the events to come."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.event_count = 0
        self._events: list[tuple[float, int, Action]] = []
        self._number = 0

    def after(self, seconds: float, action: Action) -> None:
        """Call a function after a time."""
        self._number += 1
        heappush(self._events, (self.now + seconds, self._number, action))

    def run(self, until: float) -> None:
        """Advance the clock to a time, and call the functions that are due until then."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, action = heappop(events)
            self.event_count += 1
            action()
        self.now = until


class Station:
    """A number of servers with one queue, served in the order of arrival: cores, or the interpreter of a process."""

    def __init__(self, simulation: Simulation, servers: int) -> None:
        self._simulation = simulation
        self._servers = servers
        self._busy = 0
        self._queue: deque[tuple[float, Action]] = deque()
        self._owed = 0.0
        self._is_paused = False
        self.busy_seconds = 0.0
        """The service time of all that was served."""
        self.served = 0

    def serve(self, seconds: float, done: Action) -> None:
        """Serve a demand of so many seconds when its turn has come, and call `done` afterwards."""
        if self._busy < self._servers and not self._is_paused:
            self._start(seconds, done)
        else:
            self._queue.append((seconds, done))

    def owe(self, seconds: float) -> None:
        """Add to the next demand that is served. For many small demands that nobody waits for."""
        self._owed += seconds

    def pause(self) -> None:
        """Begin no more services until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self._is_paused = False
        while self._queue and self._busy < self._servers:
            self._start(*self._queue.popleft())

    @property
    def queue_length(self) -> int:
        """The number of demands that wait."""
        return len(self._queue)

    def _start(self, seconds: float, done: Action) -> None:
        if self._owed:
            seconds, self._owed = seconds + self._owed, 0.0
        self._busy += 1

        def end() -> None:
            self._busy -= 1
            self.busy_seconds += seconds
            self.served += 1
            if self._queue and not self._is_paused:
                self._start(*self._queue.popleft())
            done()

        self._simulation.after(seconds, end)


class BatchDevice:
    """A device that serves all who wait at once, in a fixed time: the log of a database, which is flushed to disk."""

    def __init__(self, simulation: Simulation, seconds: float) -> None:
        self._simulation = simulation
        self._seconds = seconds
        self._waiting: list[Action] = []
        self._is_busy = False
        self.busy_seconds = 0.0
        self.batches = 0
        self.served = 0

    def serve(self, done: Action) -> None:
        """Call `done` after the first batch that begins from now on."""
        self._waiting.append(done)
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        self._is_busy = True

        def end() -> None:
            self.busy_seconds += self._seconds
            self.batches += 1
            self.served += len(batch)
            self._is_busy = False
            if self._waiting:
                self._begin()
            for done in batch:
                done()

        self._simulation.after(self._seconds, end)


class Mutex:
    """A lock that is granted in the order of requests."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._is_held = False
        self._queue: deque[Action] = deque()
        self._since = 0.0
        self.held_seconds = 0.0

    def acquire(self, granted: Action) -> None:
        """Call `granted` as soon as the lock is free."""
        if self._is_held:
            self._queue.append(granted)
            return
        self._is_held = True
        self._since = self._simulation.now
        granted()

    def release(self) -> None:
        """Free the lock, and grant it to the next."""
        self.held_seconds += self._simulation.now - self._since
        self._is_held = False
        if self._queue:
            self.acquire(self._queue.popleft())
