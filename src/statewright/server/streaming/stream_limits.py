"""Limits on open event streams: their number per workspace, and the validity of their keys."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError, TooManyRequests
from statewright.runs import ApiKey, Condition, Ledger
from statewright.service.access import is_valid_key

CHECK_INTERVAL: Final = 5.0
"""Seconds between checks of the keys of open streams, which another process may have revoked."""
_BATCH: Final = 200
"""The number of keys read by one query."""
Stop = Callable[[], object]


class OpenStreams:
    """Counts open streams, and stops those whose key has become invalid. Used by one event loop."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], datetime], limit: int, *, check_interval: float = CHECK_INTERVAL
    ) -> None:
        self._ledger = ledger
        self._now = now
        self._limit = limit
        self._check_interval = check_interval
        self._count_by_workspace: Counter[str] = Counter()
        self._stops_by_key: defaultdict[str, dict[object, Stop]] = defaultdict(dict)
        self._check_task: asyncio.Task[None] | None = None

    def check_room(self, workspace_id: str) -> None:
        """Raise TooManyRequests if a workspace has reached its limit of streams."""
        if self._count_by_workspace[workspace_id] >= self._limit:
            raise TooManyRequests(
                f"This workspace already has {self._limit} open event streams, which is the maximum. Close some, or "
                f"poll the events of several runs with GET /workflow-runs/{{id}}/events.",
                retry_after=self._check_interval,
            )

    @contextmanager
    def register(self, workspace_id: str, key: ApiKey | None, stop: Stop) -> Generator[None]:
        """Count a stream while the block runs; `stop` is called when its key has become invalid."""
        token = object()
        self._count_by_workspace[workspace_id] += 1
        if key is not None:
            self._stops_by_key[key.id][token] = stop
            if self._check_task is None or self._check_task.done():
                self._check_task = asyncio.create_task(self._check_periodically())
        try:
            yield
        finally:
            self._count_by_workspace[workspace_id] -= 1
            if not self._count_by_workspace[workspace_id]:
                del self._count_by_workspace[workspace_id]
            if key is not None:
                self._unregister(key.id, token)

    def stop_all(self, key_id: str) -> None:
        """Stop all streams opened with a key."""
        for stop in tuple(self._stops_by_key.get(key_id, {}).values()):
            stop()

    def _unregister(self, key_id: str, token: object) -> None:
        self._stops_by_key[key_id].pop(token, None)
        if not self._stops_by_key[key_id]:
            del self._stops_by_key[key_id]
        if not self._stops_by_key and self._check_task is not None:
            self._check_task.cancel()
            self._check_task = None

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval)
            try:
                await self.check_keys()
            except StatewrightError:  # the database cannot be read now; the next check may succeed
                continue

    async def check_keys(self) -> None:
        """Stop the streams whose keys were revoked or deleted, or have expired."""
        ids = list(self._stops_by_key)
        for begin in range(0, len(ids), _BATCH):
            batch = ids[begin : begin + _BATCH]
            keys = await aresolve(self._ledger.find(ApiKey, [Condition("id", "in", batch)]))
            valid_ids = {key.id for key in keys if is_valid_key(key, self._now())}
            for key_id in batch:
                if key_id not in valid_ids:
                    self.stop_all(key_id)
