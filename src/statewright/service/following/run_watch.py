"""A shared poll for the changes that other processes make to followed runs.

The hub notifies followers only of what this process saves. Writes by other processes must be polled for, and a separate
poll for each follower would cost two queries a second. So one task per event loop reads the versions of all followed
runs, and wakes the followers of the runs that have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError
from statewright.runs import ENDED, Condition, Ledger, Run, RunStatus
from statewright.service.following.hub import Listener

logger = logging.getLogger("statewright.service")
POLL_INTERVAL: Final = 1.0
"""Seconds between polls."""
_BATCH_SIZE: Final = 400
"""Maximum number of runs that one query reads."""


class RunVersion(NamedTuple):
    """The columns of a run by which a change to it is recognized."""

    version: int
    last_event: int
    status: RunStatus
    claim: str | None
    due_at: datetime | None

    @property
    def last_event_or_end(self) -> int | None:
        """The sequence number of the last event; None if the run has ended."""
        return None if self.status in ENDED else self.last_event


class RunWatch:
    """Wakes the listeners to runs that have changed. Can be used from several event loops."""

    def __init__(self, ledger: Ledger, every: float = POLL_INTERVAL) -> None:
        """Create a watch; `every` is the time between polls in seconds."""
        self._ledger = ledger
        self._interval = every
        self._polls: WeakKeyDictionary[asyncio.AbstractEventLoop, _Poll] = WeakKeyDictionary()

    def poll_soon(self) -> None:
        """Let every loop poll soon, because another process has changed runs. Thread-safe."""
        for loop, poll in tuple(self._polls.items()):
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(poll.wake)

    @contextmanager
    def watching(self, run_id: str, listener: Listener) -> Generator[None]:
        """Wake a listener on the running loop when its run changes, for as long as the block lasts.

        The first poll wakes the listener in any case, because the listener may have missed an earlier change.
        """
        loop = asyncio.get_running_loop()
        poll = self._polls.get(loop)
        if poll is None:
            poll = self._polls[loop] = _Poll(self._ledger, self._interval)
        poll.add(run_id, listener)
        try:
            yield
        finally:
            poll.remove(run_id, listener)


class _Poll:
    """The poll of one event loop. Its task runs as long as there are listeners."""

    def __init__(self, ledger: Ledger, interval: float) -> None:
        self._ledger = ledger
        self._interval = interval
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self._reported_versions: dict[Listener, RunVersion | None] = {}
        """The last version reported to each listener; None for a run that does not exist."""
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()

    def wake(self) -> None:
        """Poll soon. To be called on the loop."""
        self._wakeup.set()

    def add(self, run_id: str, listener: Listener) -> None:
        self._listeners[run_id].append(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll_forever())

    def remove(self, run_id: str, listener: Listener) -> None:
        self._listeners[run_id].remove(listener)
        self._reported_versions.pop(listener, None)
        if not self._listeners[run_id]:
            del self._listeners[run_id]
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _poll_forever(self) -> None:
        loop = asyncio.get_running_loop()
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), self._interval - pause)
            self._wakeup.clear()
            begin = loop.time()
            try:
                await self._poll_once()
            except StatewrightError as error:  # the next poll may succeed
                logger.debug("Followed runs could not be polled: %s", error)
            # If other processes change runs all the time, polls take at most a tenth of the time.
            pause = min(self._interval, 9 * (loop.time() - begin))

    async def _poll_once(self) -> None:
        run_ids = list(self._listeners)
        for start in range(0, len(run_ids), _BATCH_SIZE):
            batch = run_ids[start : start + _BATCH_SIZE]
            columns = ("id", *RunVersion._fields)
            rows = await aresolve(self._ledger.groups(Run, columns, where=[Condition("id", "in", batch)]))
            self._report_changes(batch, {row.key[0]: RunVersion(*row.key[1:]) for row in rows})

    def _report_changes(self, run_ids: Iterable[str], versions: Mapping[str, RunVersion]) -> None:
        for run_id in run_ids:
            version = versions.get(run_id)
            for listener in self._listeners.get(run_id, ()):
                if listener not in self._reported_versions or self._reported_versions[listener] != version:
                    self._reported_versions[listener] = version
                    listener.add_poll_result(version.last_event_or_end if version is not None else None)
