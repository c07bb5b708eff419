"""Limits on open event streams: their number per workspace, and the validity of the keys and sessions they need."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError, TooManyRequests
from statewright.runs import ApiKey, Condition, Ledger
from statewright.service.access import is_valid_key
from statewright.service.access.sessions import find_ended_sessions

CHECK_INTERVAL: Final = 5.0
"""Seconds between checks of the keys and sessions that opened streams, because another process may have ended them."""
_BATCH_SIZE: Final = 200
"""The maximum number of keys or sessions that one query reads."""
Stop = Callable[[], object]
"""Stops a stream."""


class OpenStreams:
    """Counts open streams, and stops the streams whose key or session has become invalid. Used by one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        now: Callable[[], datetime],
        limit: int,
        *,
        check_interval: float = CHECK_INTERVAL,
        session_idle: timedelta = timedelta.max,
    ) -> None:
        self._ledger = ledger
        self._now = now
        self._limit = limit
        self._session_idle = session_idle
        self._check_interval = check_interval
        self._count_by_workspace: Counter[str] = Counter()
        self._stops_by_key: defaultdict[str, dict[object, Stop]] = defaultdict(dict)
        self._stops_by_session: defaultdict[str, dict[object, Stop]] = defaultdict(dict)
        self._check_task: asyncio.Task[None] | None = None

    def check_capacity(self, workspace_id: str) -> None:
        """Raise TooManyRequests if a workspace already has the maximum number of open streams."""
        if self._count_by_workspace[workspace_id] >= self._limit:
            raise TooManyRequests(
                f"This workspace already has {self._limit} open event streams, which is the maximum. Close some, or "
                f"poll each run with GET /workflow-runs/{{id}}/events instead of streaming its events.",
                retry_after=self._check_interval,
            )

    @contextmanager
    def register(
        self, workspace_id: str, key: ApiKey | None, stop: Stop, session_id: str | None = None
    ) -> Generator[None]:
        """Count a stream while the block runs. `stop` is called if the key or the session becomes invalid meanwhile.

        `key` is the API key that opened the stream, or that of the session; None if callers need no key.
        """
        token = object()
        self._count_by_workspace[workspace_id] += 1
        if key is not None:
            self._stops_by_key[key.id][token] = stop
            if session_id is not None:
                self._stops_by_session[session_id][token] = stop
            if self._check_task is None or self._check_task.done():
                self._check_task = asyncio.create_task(self._check_periodically())
        try:
            yield
        finally:
            self._count_by_workspace[workspace_id] -= 1
            if not self._count_by_workspace[workspace_id]:
                del self._count_by_workspace[workspace_id]
            if key is not None:
                self._unregister(key.id, session_id, token)

    def stop_all(self, key_id: str) -> None:
        """Stop all streams that were opened with a key."""
        for stop in tuple(self._stops_by_key.get(key_id, {}).values()):
            stop()

    def stop_session(self, session_id: str) -> None:
        """Stop all streams that were opened in a session."""
        for stop in tuple(self._stops_by_session.get(session_id, {}).values()):
            stop()

    def _unregister(self, key_id: str, session_id: str | None, token: object) -> None:
        for stops, name in ((self._stops_by_key, key_id), (self._stops_by_session, session_id)):
            if name is not None:
                stops[name].pop(token, None)
                if not stops[name]:
                    del stops[name]
        if not self._stops_by_key and self._check_task is not None:
            self._check_task.cancel()
            self._check_task = None

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval)
            try:
                await self.check_keys()
                await self.check_sessions()
            except StatewrightError:  # the database cannot be read at the moment, but the next check may succeed
                continue

    async def check_keys(self) -> None:
        """Stop the streams whose keys were revoked or deleted, or have expired."""
        key_ids = list(self._stops_by_key)
        for start in range(0, len(key_ids), _BATCH_SIZE):
            batch = key_ids[start : start + _BATCH_SIZE]
            keys = await aresolve(self._ledger.find(ApiKey, [Condition("id", "in", batch)]))
            valid_ids = {key.id for key in keys if is_valid_key(key, self._now())}
            for key_id in batch:
                if key_id not in valid_ids:
                    self.stop_all(key_id)

    async def check_sessions(self) -> None:
        """Stop the streams whose sessions have ended."""
        session_ids = list(self._stops_by_session)
        for start in range(0, len(session_ids), _BATCH_SIZE):
            batch = session_ids[start : start + _BATCH_SIZE]
            for session_id in await find_ended_sessions(self._ledger, batch, self._now(), self._session_idle):
                self.stop_session(session_id)
