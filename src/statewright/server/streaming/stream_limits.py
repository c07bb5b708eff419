"""Limits of open event streams: their number per workspace, and the validity of their keys."""

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
from statewright.service.access import is_open

CHECK_EVERY: Final = 5.0
"""Seconds between checks of the keys of open streams, which another process may have revoked."""
_BATCH: Final = 200
"""The number of keys that one query reads."""
End = Callable[[], object]


class Streams:
    """Counts open streams, and ends those whose key has become invalid. Used by one event loop."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime], limit: int, *, check_every: float = CHECK_EVERY):
        self._ledger = ledger
        self._now = now
        self._limit = limit
        self._check_every = check_every
        self._by_workspace: Counter[str] = Counter()
        self._by_key: defaultdict[str, dict[object, End]] = defaultdict(dict)
        self._checking: asyncio.Task[None] | None = None

    def check_room(self, workspace_id: str) -> None:
        """Raise TooManyRequests if a workspace has reached its limit of streams."""
        if self._by_workspace[workspace_id] >= self._limit:
            raise TooManyRequests(
                f"{self._limit} event streams are being read in this workspace, and no more are allowed. Close some, "
                f"or read the events of several runs in turn with GET /workflow-runs/{{id}}/events.",
                retry_after=self._check_every,
            )

    @contextmanager
    def open_stream(self, workspace_id: str, key: ApiKey | None, end: End) -> Generator[None]:
        """Count a stream while the block lasts; `end` is called once its key is not valid any more."""
        token = object()
        self._by_workspace[workspace_id] += 1
        if key is not None:
            self._by_key[key.id][token] = end
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check_regularly())
        try:
            yield
        finally:
            self._by_workspace[workspace_id] -= 1
            if not self._by_workspace[workspace_id]:
                del self._by_workspace[workspace_id]
            if key is not None:
                self._forget(key.id, token)

    def end_for_key(self, key_id: str) -> None:
        """End the streams of a key."""
        for end in tuple(self._by_key.get(key_id, {}).values()):
            end()

    def _forget(self, key_id: str, token: object) -> None:
        self._by_key[key_id].pop(token, None)
        if not self._by_key[key_id]:
            del self._by_key[key_id]
        if not self._by_key and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._check_every)
            try:
                await self.check_keys()
            except StatewrightError:  # the database cannot be read now: the keys are checked again later
                continue

    async def check_keys(self) -> None:
        """End the streams whose keys were revoked, have expired or are gone."""
        ids = list(self._by_key)
        for begin in range(0, len(ids), _BATCH):
            batch = ids[begin : begin + _BATCH]
            keys = await aresolve(self._ledger.find(ApiKey, [Condition("id", "in", batch)]))
            valid = {key.id for key in keys if is_open(key, self._now())}
            for key_id in batch:
                if key_id not in valid:
                    self.end_for_key(key_id)
