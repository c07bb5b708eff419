"""The feed of a workspace: its runs as they change, for lists that are shown live.

*The problem.* A list must show changes of any run, made by any process, also those made while its reader was
disconnected. There is no log of all changes: it would be one more write for each step of each run, and an index of runs
by the time of their last change would have to be updated with each step, too.

*The approach.* Changes are found by queries that have an index: runs that were created, completed, failed or cancelled
since an instant, and among those that have begun and not ended, the changed ones. A step changes nothing else. All
readers of a workspace in one process share the queries, which run once a second, and as soon as this process or, by the
bell, another one has saved something. If they take long, because very many runs wait, they run less often.

A reader gets the newest state of each changed run, at least once, and may skip states in between. The id of an event is
the time up to which changes were found. A transaction may become visible a little after its own time, so each query
begins a few seconds before that, and what was reported already is recognized by its version. After a break, a reader
continues with the last id, and may see the changes of those seconds again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import StatewrightError
from statewright.runs import Condition, Ledger, Order, Run, RunStatus, where

logger = logging.getLogger("statewright.service")
POLL_INTERVAL: Final = 1.0
"""Seconds between queries if nothing is known to have changed."""
_SHORTEST_PAUSE: Final = 0.2
"""Seconds between queries while changes are reported all the time."""
OVERLAP: Final = timedelta(seconds=5)
"""The maximum delay after its own time until a change becomes visible."""
LONGEST_BREAK: Final = timedelta(hours=1)
"""The longest break after which the missed changes are still found; after a longer one the list must be read again."""
_BATCH_SIZE: Final = 500
"""Runs that one query reads."""
_MAX_CHANGES: Final = 10_000
"""Changes of one kind that are found at a time. Of more, as after a mass cancellation, the oldest are left out."""
_BEGUN: Final = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED)
_TIMES: Final = ("created_at", "completed_at", "failed_at", "cancelled_at")
"""The columns with an index by time."""


@dataclass(frozen=True, slots=True)
class RunChanges:
    """Runs that have changed."""

    runs: tuple[Run, ...]
    until: datetime
    """The time up to which changes were found: the place at which to continue after a break."""


@dataclass(slots=True, eq=False)
class _Reader:
    """A reader, with the changes that it has not taken yet."""

    changed: dict[str, Run] = field(default_factory=dict[str, Run])
    """The newest state of each changed run, by id: a slow reader gets no more than one for each run."""
    until: datetime | None = None
    has_changes: asyncio.Event = field(default_factory=asyncio.Event)


class RunFeeds:
    """The feeds of all workspaces. Can be used from several event loops."""

    def __init__(self, ledger: Ledger, clock: Clock, interval: float = POLL_INTERVAL) -> None:
        self._ledger = ledger
        self._clock = clock
        self._interval = interval
        self._feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Feed]] = WeakKeyDictionary()
        """The feeds of each event loop, by workspace. They are used on that loop only."""
        self._lock = threading.Lock()

    def poll_soon(self) -> None:
        """Look for changes soon, because this or another process has saved some. Thread-safe; cheap without readers."""
        if not self._feeds:
            return
        with self._lock:
            loops = list(self._feeds.items())
        for loop, feeds in loops:
            # A feed that is awake already is not woken again, however often something is saved.
            if not all(feed.is_awake for feed in tuple(feeds.values())):
                with suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(_wake_all, feeds)

    async def changes(self, workspace_id: str, since: datetime | None = None) -> AsyncGenerator[RunChanges]:
        """Yield the runs of a workspace that have changed since an instant, by default now, and then each time some
        change. The first item may have no runs: it says where the feed begins.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            feeds = self._feeds.setdefault(loop, {})
        feed = feeds.get(workspace_id)
        if feed is None:
            feed = feeds[workspace_id] = _Feed(self._ledger, self._clock, workspace_id, self._interval)
        with feed.reading() as reader:
            try:
                now = self._clock.now()
                missed = await feed.find_changes(since - OVERLAP) if since is not None else []
                yield RunChanges(tuple(missed), now)
                while True:
                    await reader.has_changes.wait()
                    reader.has_changes.clear()
                    changed, reader.changed = reader.changed, {}
                    yield RunChanges(tuple(changed.values()), reader.until or now)
            finally:
                if feed.is_idle_without(reader):
                    feeds.pop(workspace_id, None)


def _wake_all(feeds: Mapping[str, _Feed]) -> None:
    for feed in feeds.values():
        feed.wake()


class _Feed:
    """The feed of one workspace on one event loop. Its task runs as long as there are readers."""

    def __init__(self, ledger: Ledger, clock: Clock, workspace_id: str, interval: float) -> None:
        self._ledger = ledger
        self._clock = clock
        self._workspace_id = workspace_id
        self._interval = interval
        self._readers: list[_Reader] = []
        self._task: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._reported: dict[str, tuple[int, datetime]] = {}
        """The versions that were reported lately, with the times of their changes, by run id."""

    def wake(self) -> None:
        """Look for changes soon."""
        self._wakeup.set()

    @property
    def is_awake(self) -> bool:
        """True if it is about to look for changes. Thread-safe."""
        return self._wakeup.is_set()

    def is_idle_without(self, reader: _Reader) -> bool:
        return all(other is reader for other in self._readers)

    @contextmanager
    def reading(self) -> Generator[_Reader]:
        """Report changes to a reader for as long as the block lasts."""
        reader = _Reader()
        self._readers.append(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll_forever(self._clock.now()))
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            if not self._readers:
                self._task.cancel()
                self._task = None

    async def find_changes(self, since: datetime) -> list[Run]:
        """Return the runs that have changed since an instant, those changed last at the end."""
        in_workspace = where(workspace_id=self._workspace_id)
        queries = [[*in_workspace, Condition(name, ">=", since)] for name in _TIMES]
        queries += [[*in_workspace, *where(status=status), Condition("updated_at", ">=", since)] for status in _BEGUN]
        found: dict[str, Run] = {}
        for query in queries:
            for offset in range(0, _MAX_CHANGES, _BATCH_SIZE):
                order = Order("updated_at", descending=True)
                runs = await aresolve(self._ledger.find(Run, query, order=order, limit=_BATCH_SIZE, offset=offset))
                for run in runs:
                    if run.id not in found or found[run.id].version < run.version:
                        found[run.id] = run
                if len(runs) < _BATCH_SIZE:
                    break
        return sorted(found.values(), key=lambda run: (run.updated_at, run.id))

    async def _poll_forever(self, since: datetime) -> None:
        loop = asyncio.get_running_loop()
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._interval - pause)):
                    await self._wakeup.wait()
            self._wakeup.clear()
            begin, now = loop.time(), self._clock.now()
            try:
                self._report(await self.find_changes(since - OVERLAP), now)
                since = now
            except StatewrightError as error:  # the next query may succeed
                logger.debug("Changed runs could not be read: %s", error)
            # Where very many runs wait, queries take a tenth of the time at most.
            pause = max(_SHORTEST_PAUSE, 9 * (loop.time() - begin))

    def _report(self, runs: list[Run], until: datetime) -> None:
        """Give the runs that have changed since they were reported to all readers."""
        new = [run for run in runs if self._reported.get(run.id, (0, until))[0] < run.version]
        for run in new:
            self._reported[run.id] = run.version, until
        oldest = until - 3 * OVERLAP
        self._reported = {name: entry for name, entry in self._reported.items() if entry[1] >= oldest}
        if new:
            for reader in self._readers:
                reader.changed.update((run.id, run) for run in new)
                reader.until = until
                reader.has_changes.set()
